"""The listening bench's fleet: takes are split, days and judge share nobody, labels come through the device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bench.listening_device import Device
from bench.listening_fleet import run_fleet
from bench.listening_owners import LEAST, draw_owners, owner_of
from bench.listening_result import DEVICE, PLUGIN, SIDES, Asked
from bench.listening_sound import amounts, judged_by, lived_with
from bench.listening_table import report
from tests.bench.test_listening import HOW

from auricle.errors import DataError
from auricle.hearing.scenes import Scene, Spoken
from auricle.hearing.splits import noise_part, part_of
from auricle.packs.pack import load_pack
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.clip_folder import ClipFile
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.runtimes import choose_runtime

ROOT = Path(__file__).resolve().parents[2]


def _clips(word: str, count: int, speaker: str = "someone") -> list[ClipFile]:
    return [ClipFile(Path(f"{word}/{speaker}_nohash_{i}.flac"), word, speaker) for i in range(count)]


def _numbers(clips: tuple[ClipFile, ...]) -> list[str]:
    return [f"{clip.word} {clip.path.stem[-1]}" for clip in clips]


def test_takes_are_enrolled_said_on_a_day_or_kept_to_judge_by() -> None:
    """Of five takes one is enrolled, two are said and two judge; a word with one take only judges; days take turns."""
    owner = owner_of("someone", [*_clips("yes", 5), *_clips("no", 1), *_clips("stop", 4)], 2)
    assert _numbers(owner.enrolled) == ["stop 0", "yes 0"]
    assert _numbers(owner.judged) == ["no 0", "stop 2", "stop 3", "yes 3", "yes 4"]
    assert [_numbers(day) for day in owner.days] == [["stop 1", "yes 2"], ["yes 1"]]


def test_owners_are_drawn_from_those_who_say_enough() -> None:
    """Nine people say enough and one does not; another seed has another order."""
    clips = [clip for i in range(9) for clip in _clips("yes", LEAST, f"speaker{i}")] + _clips("yes", LEAST - 1, "quiet")
    first, again, other = (draw_owners(clips, ["yes"], 9, 3, seed) for seed in (0, 0, 1))
    assert [owner.name for owner in first] == [owner.name for owner in again] != [owner.name for owner in other]
    assert sorted(owner.name for owner in other) == [f"speaker{i}" for i in range(9)]
    with pytest.raises(DataError, match="--owners 9"):
        draw_owners(clips, ["yes"], 10, 3, 0)


def _names(wanted: Callable[[str], bool], count: int) -> list[str]:
    return [name for name in (f"{i:08x}" for i in range(10_000)) if wanted(name)][:count]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two owners by espeak, and a little of every folder: words and readings are noise of some loudness."""
    soundfile = pytest.importorskip("soundfile")
    root, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)

    def write(name: str, sound: np.ndarray) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(root / name, sound, SAMPLE_RATE)

    def noise(seconds: float) -> np.ndarray:
        return (0.1 * rng.standard_normal(round(seconds * SAMPLE_RATE))).clip(-1, 1).astype(np.float32)

    speech = synthesise(SynthesisSettings(words="yes,no,up,down,left,right,on,off,stop,go", speakers=2, takes=2))
    for i, target in enumerate(speech.targets):
        word = speech.labels[target]
        if not word.startswith("_"):
            write(f"gsc/{word}/owner{speech.speakers[i]}_nohash_{i}.flac", speech.audio[i])
    test, train = (_names(lambda name, part=part: part_of(name) == part, 3) for part in ("test", "train"))
    both = _names(lambda name: part_of(name) == "test", 4)[-1]
    for speaker in (both, *train):
        write(f"gsc/dog/{speaker}_nohash_0.flac", noise(1))
    for speaker in (both, *test, *train):
        write(f"gsc-more/cat/{speaker}_nohash_0.flac", noise(1))
        write(f"stream-more/speech/{speaker}-1.flac", noise(4))
        write(f"arabic/kalima/{speaker}_nohash_0.flac", noise(1))
    write("fsdd/one/somebody_nohash_0.flac", noise(1))
    write("stream/speech/777-1.flac", noise(4))
    for part in ("train", "test"):
        for name in _names(lambda name, part=part: noise_part(f"{name}.flac") == part, 2):
            write(f"gsc/_background_noise_/{name}.flac", noise(3))
    return root


def test_nobody_is_both_lived_with_and_judged_by(data: Path) -> None:
    """Owners and people of `gsc` are left out of the judge; of readers and noises each has its own."""
    words = load_pack("gsc12-res").labels
    lived, judging = lived_with(data, words, {"nobody"}), judged_by(data, words)
    assert {take.word for take in lived.words} == {"dog"} and {take.word for take in judging.words} == {"cat", "one"}
    assert not {take.speaker for take in lived.words} & {take.speaker for take in judging.words}
    assert (len(lived.noise), len(judging.noise), len(lived.speech), len(judging.speech)) == (2, 2, 1, 4)
    assert not any(np.array_equal(a, b) for a in lived.noise for b in judging.noise)
    assert amounts(judging) == pytest.approx({"words": 4 / 60, "speech": 16 / 60, "languages": 4 / 60, "noise": 0.1})
    assert {take.word for take in judged_by(data, [*words, "one"]).words} == {"cat"}
    someone = lived.words[0].speaker
    assert someone not in {take.speaker for take in lived_with(data, words, {someone}).words}


def _device(folder: Path, answers: float) -> Device:
    pack = load_pack("gsc12-res")
    return Device("device-0", folder / "device-0", pack, choose_runtime("auto", pack).runtime, 0, answers)


def _hum() -> Scene:
    """Half a second of a loud hum stands for a word that no model hears."""
    sound = np.random.default_rng(0).normal(0, 8, 4 * SAMPLE_RATE)
    sound[SAMPLE_RATE : SAMPLE_RATE * 3 // 2] += 6000 * np.sin(np.arange(SAMPLE_RATE // 2) * 0.2)
    word = Spoken("stop", SAMPLE_RATE, SAMPLE_RATE * 3 // 2, "someone", "noise", 10.0)
    return Scene(sound.astype(np.int16), words=(word,))


@pytest.mark.parametrize(("answers", "labels", "said"), [(1.0, ["stop"], "missed"), (0.0, [], "missed in silence")])
def test_the_owner_says_what_was_missed_or_nothing(
    answers: float, labels: list[str], said: str, tmp_path: Path
) -> None:
    device = _device(tmp_path, answers)
    lived = device.hear(_hum())
    assert [c.record.word for c in device.store.list() if c.record.source == "missed"] == labels
    assert dict(device.answers) == {said: 1} and (lived.words, lived.hits) == (1, 0)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_fleet_from_its_owners_to_its_figures(data: Path) -> None:
    """Two devices, two rounds: both listeners before and after on the same words, every day and every round."""
    said: list[str] = []
    asked = Asked(**HOW, pack="gsc12-res", rounds=2, day_minutes=0.1, minutes=0.1, judge_minutes=0.2)
    fleet = run_fleet(data, load_pack("gsc12-res"), asked, 0, 1.0, 1, said.append)
    assert [(side.when, side.listener) for side in fleet.sides] == [(w, x) for w in SIDES for x in (PLUGIN, DEVICE)]
    assert fleet.side("before", PLUGIN).kept == fleet.side("before", DEVICE).kept == fleet.by_day[0].judged[DEVICE]
    assert fleet.by_day[-1].judged[DEVICE] == fleet.side("after", DEVICE).kept
    assert [day.after_rounds for day in fleet.by_day] == [0, 1, 2] and fleet.by_day[-1].hours == 0
    assert [each.number for each in fleet.by_round] == [0, 1, 2]
    assert fleet.by_round[0].judged == fleet.side("before", PLUGIN).kept
    assert all(set(side.owners) == set(fleet.owners) for side in fleet.sides)
    assert fleet.answered["enrolled"] > 0 and min(fleet.cost.cpu.values()) > 0
    assert max(map(len, report([fleet]).splitlines())) <= 80
    assert any("round 2 of 2: 2 of 2 counted" in line for line in said)


@pytest.mark.slow
def test_it_can_be_interrupted(data: Path) -> None:
    """On the first day: one sentence, no traceback, status 130."""
    command = [sys.executable, str(ROOT / "bench" / "listening.py"), "--data", str(data), "--owners", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as bench:
        assert bench.stderr is not None
        first = next(line for line in bench.stderr if "day 1" in line)
        bench.send_signal(signal.SIGINT)
        rest = bench.stderr.read()
    assert "1 of 2 devices" in first and "Traceback" not in rest
    assert rest.splitlines()[-1] == "bench: interrupted." and bench.returncode == 130
