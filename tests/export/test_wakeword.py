"""An own wake word: what is refused, what begins a training, and a small one from the phrase to the pack."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis.strategies import text
from typer.testing import CliRunner

from auricle.checks.graph_check import check_graph
from auricle.errors import DataError, PackError, SettingsError
from auricle.packs.manifest import refuse_label
from auricle.packs.pack import load_pack, pack_bytes
from auricle.packs.start import start_weights
from auricle.speech.features import LogMel
from auricle_export.commands import app
from auricle_export.packs.models import HEAD
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.modules import module_for
from auricle_export.pretrain.normalised import fold_into, normalise
from auricle_export.pretrain.sounds import join_sounds, lay_out
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.task import Watch
from auricle_export.pretrain.teachers import Taught, Teachers
from auricle_export.pretrain.trained import Epoch, TrainingInterrupted
from auricle_export.pretrain.warm_start import WarmStart, begin_with
from auricle_export.voices.interface import as_take
from auricle_export.wakeword import build, carried, model, natural, voices_sound
from auricle_export.wakeword.corpus import often
from auricle_export.wakeword.model import starting_pack, window_of
from auricle_export.wakeword.recordings import own_takes, read_recordings
from auricle_export.wakeword.task import (
    MODEL,
    WakeTask,
    head_settings,
    labels_of,
    name_of,
    refuse_phrase,
    usual_phrase,
    usual_settings,
)
from auricle_learning.runtimes import StepRuntime

from .frozen_toy import toy_network

LABELS = labels_of(("hey robot",), ("stop", "go"))


@pytest.mark.parametrize(
    "phrase", ["Hey Robot", "hey  robot", " hey", "", "42", "_unknown_", "hey_robot", "x" * 100, "hey\nrobot"]
)
def test_what_is_not_a_phrase_is_refused(phrase: str, tmp_path: Path) -> None:
    with pytest.raises((SettingsError, PackError)):
        WakeTask((phrase,), tmp_path)


@pytest.mark.parametrize("phrase", ["hey robot", "guten morgen", "नमस्ते", "你好", "o'clock"])
def test_phrases_of_any_script_are_taken(phrase: str, tmp_path: Path) -> None:
    assert WakeTask((phrase,), tmp_path).phrases == (phrase,)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), 21.0])
def test_a_rate_that_nobody_can_mean_is_refused(rate: float, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        WakeTask(("hey robot",), tmp_path, rate=rate)


def test_a_phrase_that_is_a_command_already_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError):
        WakeTask(("stop",), tmp_path, commands="home").base()


def test_the_words_of_a_pack_come_after_it_but_its_own_wake_words(tmp_path: Path) -> None:
    task = WakeTask(("hey robot",), tmp_path, commands="home")
    after = task.words_after(task.base())
    assert "stop" in after
    assert not {"computer", "jarvis", "_unknown_"} & set(after)


def test_a_pack_without_the_model_cannot_be_begun_with(tmp_path: Path) -> None:
    with pytest.raises(PackError):
        WakeTask(("hey robot",), tmp_path, commands="digits").base()


@pytest.mark.parametrize(
    ("phrase", "name"), [("hey robot", "hey-robot"), ("你好", "wake-word"), ("o'clock", "o-clock")]
)
def test_a_pack_is_called_as_its_phrase(phrase: str, name: str) -> None:
    assert name_of((phrase,)) == name


def _windows(count: int = 256) -> torch.Tensor:
    task = load_pack("home").manifest.task
    rng = np.random.default_rng(3)
    energies = np.exp(rng.normal(-6, 3, (count, task.frames, task.frontend.mels))).astype(np.float32)
    return torch.from_numpy(LogMel(task).finish(energies))


def test_a_warm_start_computes_what_the_model_that_it_begins_with_does() -> None:
    """Before the first step: the same features, and the same logits of the words that both know."""
    base = load_pack("home")
    pack, x = base.with_labels(LABELS, "robot"), _windows()
    module = module_for(MODEL, pack, {})
    twin = normalise(module)
    begin_with(WarmStart(base), MODEL, module, twin, LABELS, x, {})
    known = recogniser_of(MODEL, base, start_weights(base, MODEL))
    theirs = np.log(known(x.numpy()))
    with torch.no_grad():
        twin.train()
        ours = torch.log_softmax(twin(x), 1).numpy()
        both = [(LABELS.index(word), base.labels.index(word)) for word in ("stop", "go", "_unknown_", "_silence_")]
        mine, due = ours[:, [to for to, _ in both]], theirs[:, [row for _, row in both]]
    np.testing.assert_allclose(mine - mine[:, :1], due - due[:, :1], atol=2e-3)
    fold_into(twin.eval(), module)
    with torch.no_grad():
        np.testing.assert_allclose(module(x).numpy(), twin(x).numpy(), atol=2e-3)


def test_a_teacher_says_half_of_a_target_but_not_of_a_word_that_it_does_not_know() -> None:
    base, x = load_pack("home"), _windows(6)
    teacher = Teachers([Taught(base, MODEL)], LABELS, 0.5, torch.device("cpu"), {})
    y = torch.tensor([0, 1, 2, 3, 4, 0])
    targets = teacher.targets(x, y, 0.05)
    assert targets.sum(dim=1).tolist() == pytest.approx([1.0] * 6, abs=1e-5)
    assert targets[0].tolist() == pytest.approx([0.96, 0.01, 0.01, 0.01, 0.01], abs=1e-6)
    said = recogniser_of(MODEL, base, start_weights(base, MODEL))(x.numpy())
    assert float(targets[1, 1]) == pytest.approx(0.5 * 0.96 + 0.5 * said[1, base.labels.index("stop")], abs=1e-4)


def test_sounds_that_are_joined_are_those_of_both() -> None:
    frontend = LogMel(load_pack("home").manifest.task)
    rng = np.random.default_rng(0)
    one, other = (
        lay_out([rng.normal(0, 0.1, 4_000).astype(np.float32) for _ in range(count)], frontend) for count in (2, 3)
    )
    both = join_sounds(one, other)
    assert len(both) == 5
    for number in range(5):
        part, at = (one, number) if number < 2 else (other, number - 2)
        first, length = int(part.starts[at]), int(part.lengths[at])
        found = both.energies[both.starts[number] : both.starts[number] + both.lengths[number]]
        np.testing.assert_array_equal(found, part.energies[first : first + length])
    assert not both.energies[-1].any()


def test_people_are_drawn_as_often_as_all_natural_voices_of_a_word_together() -> None:
    phrase, command = 0, 1
    targets = [phrase] * 3 + [command] * 2 + [phrase] * 10  # three takes and two commands by people, ten of a source
    assert often(targets, 5).tolist() == [3, 3, 3, 1, 1] + [1] * 10
    assert often([phrase] * 30, 20).tolist() == [1] * 30  # there are more people than voices
    assert often([phrase] * 4, 0).tolist() == [1] * 4 and not len(often([], 0))


def test_what_is_repeated_is_the_same_recording() -> None:
    frontend, rng = LogMel(load_pack("home").manifest.task), np.random.default_rng(0)
    sounds = lay_out([rng.normal(0, 0.1, 3_000 + 800 * n).astype(np.float32) for n in range(3)], frontend, [0, 1, 2])
    more = sounds.repeated(np.array([2, 1, 3]))
    assert more.targets.tolist() == [0, 0, 1, 2, 2, 2] and more.energies is sounds.energies
    for name in ("starts", "lengths", "begins", "ends", "levels"):
        assert np.array_equal(getattr(more, name), getattr(sounds, name)[more.targets])


def _takes(folder: Path, speakers: int) -> Path:
    rng = np.random.default_rng(1)
    for number in range(speakers):
        sound = rng.normal(0, 0.1, 12_000).astype(np.float32)
        path = folder / "hey robot" / f"speaker{number}_nohash_0.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, sound, 16_000)
    return folder


@pytest.mark.parametrize(("speakers", "parts"), [(3, {"train"}), (60, {"train", "validation", "test"})])
def test_takes_of_a_few_people_are_all_trained_on(tmp_path: Path, speakers: int, parts: set[str]) -> None:
    task = WakeTask(("hey robot",), tmp_path, takes=(_takes(tmp_path / "takes", speakers),))
    heard = own_takes(task)
    assert {part for part in heard if heard[part].keywords} == parts
    assert sum(len(heard[part].keywords) for part in heard) == speakers


def test_a_folder_without_a_take_of_the_phrase_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        own_takes(WakeTask(("hello house",), tmp_path, takes=(_takes(tmp_path / "takes", 2),)))


def test_who_is_left_out_says_no_take(tmp_path: Path) -> None:
    takes, others = _takes(tmp_path / "takes", 3), _takes(tmp_path / "others", 1)
    heard = own_takes(WakeTask(("hey robot",), tmp_path, takes=(takes,), leave_out=(others,)))
    assert {take.speaker for take in heard["train"].keywords} == {"speaker1", "speaker2"}


def test_takes_that_are_trained_on_judge_nothing(tmp_path: Path) -> None:
    """Also where the same recordings are named among the words of people."""
    takes = _takes(tmp_path / "takes", 8)
    recorded = read_recordings(WakeTask(("hey robot",), tmp_path, takes=(takes,), words=(takes,)), LABELS)
    assert [len(recorded[part].keywords) for part in ("train", "validation", "test")] == [8, 0, 0]


def test_a_folder_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        WakeTask(("hey robot",), tmp_path, takes=(tmp_path, tmp_path))


@pytest.mark.parametrize(("language", "foreign"), [("zh", "cmn"), ("en", "ar"), ("de", "de")])
def test_the_phrases_own_language_is_no_other_one(language: str, foreign: str) -> None:
    phrase = {"zh": "你好小屋", "en": "hello house", "de": "hallo haus"}[language]
    known = voices_sound.texts_for((phrase,), (), language, 0).foreign
    assert (foreign in known) == (language == "en")


def test_a_phrase_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from auricle.hearing.sounds import Take

    def window(seconds: float) -> float:
        take = Take(
            "hey robot", "voice", np.zeros(round(seconds * 16_000) + 2 * voices_sound.MARGIN_SAMPLES, np.float32)
        )
        return window_of(WakeTask(("hey robot",), tmp_path), {"train": SimpleNamespace(phrases=[take])})

    assert [window(seconds) for seconds in (0.5, 1.1, 1.2, 2.2)] == [1.0, 1.0, 1.1, 2.0]
    with pytest.raises(SettingsError):
        window(2.4)


@pytest.mark.slow
def test_a_long_phrase_gets_models_that_look_at_all_of_it() -> None:
    """Their graphs take as many frames as the pack says, and begin with the weights of those that look at a second."""
    base = load_pack("gsc12-res")
    pack = starting_pack(base, labels_of(("good morning robot",), ()), "long", 1.3)
    assert pack.manifest.task.frames == 130
    for graph in pack.manifest.graphs:
        check_graph(pack, graph)
    features = np.zeros((2, 130, pack.manifest.task.frontend.mels), np.float32)
    assert StepRuntime(pack).logits(MODEL, np.zeros(pack.table(MODEL).size, np.float32), features).shape == (2, 3)
    assert pack.table(MODEL).specs[:-2] == base.table(MODEL).specs[:-2]


def _small(folder: Path) -> WakeTask:
    settings = replace(usual_settings(), epochs=2, steps=4, batch=16, judged=1, mined=1)
    return WakeTask(("hey robot",), folder, speakers=30, settings=settings)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer texts, and less sound to judge by."""
    for name, count in {"ALIKE": 6, "ALIKE_TAKES": 1, "WORD_TAKES": 1, "SENTENCES": 40, "TAKES": 1}.items():
        monkeypatch.setattr(voices_sound, name, count)
    monkeypatch.setattr(voices_sound, "COMMON_WORDS", voices_sound.COMMON_WORDS[::12])
    monkeypatch.setattr(voices_sound, "FOREIGN", dict(list(voices_sound.FOREIGN.items())[:1]))
    for module, name in ((model, "WATCHING_TIMES"), (build, "CHOOSING_TIMES"), (build, "JUDGING_TIMES")):
        monkeypatch.setattr(module, name, 1)
    of_home = carried.choosing_stretches()[:4]
    monkeypatch.setattr(carried, "choosing_stretches", lambda: of_home)


def test_the_command_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says to type holds the phrase and all that was given."""

    def cut(task: WakeTask, *, watch: object, stopped: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise TrainingInterrupted("The training was interrupted.")

    monkeypatch.setattr(build, "build_wake_pack", cut)
    out = tmp_path / "hey robot.tar.zst"
    typed = ["wakeword", "hey robot", "--out", str(out), "--rate", "1.0", "--json"]
    answer = CliRunner().invoke(app, typed, standalone_mode=False)
    assert answer.return_value == 130
    again = shlex.split(json.loads(answer.output.splitlines()[-1])["go_on"])
    assert again[:4] == ["auricle", "export", "wakeword", "hey robot"]
    assert again[4:] == ["--out", str(out), "--rate", "1.0", "--json", "--state", f"{out}.state"]


@pytest.mark.slow
@pytest.mark.nightly
def test_from_the_phrase_to_a_pack_that_goes_on_where_it_was_interrupted(tmp_path: Path, quick: None) -> None:
    class Seen(Watch):
        epochs = 0

        def epoch(self, epoch: object) -> None:
            self.epochs += 1

    first = Seen()
    with pytest.raises(TrainingInterrupted):
        build.build_wake_pack(_small(tmp_path / "cut"), watch=first, stopped=lambda: first.epochs == 1)
    again = Seen()
    done = build.build_wake_pack(_small(tmp_path / "cut"), watch=again)
    assert again.epochs == 1
    whole = build.build_wake_pack(_small(tmp_path / "whole"))
    assert done.pack.identity == whole.pack.identity

    pack = load_pack(_written(tmp_path / "hey.tar.zst", pack_bytes(done.pack)))
    assert pack.labels == ("hey robot", "_unknown_", "_silence_")
    assert set(pack.manifest.listening.thresholds) == {"hey robot"}
    assert pack.manifest.listening.wake == ()
    named = [load_pack(name).manifest.start[MODEL].attribution for name in ("gsc12-res", "home", "home-more")]
    assert pack.manifest.start[MODEL].attribution == tuple(dict.fromkeys([*named[0], *named[1], *named[2]]))
    assert {"speech", "words", "noise"} <= set(pack.manifest.negatives.kinds)
    assert len(pack_bytes(pack)) < 1_000_000
    assert {word.word for word in done.judgement.counts.words} == {"hey robot"}
    assert sum(len(energies) for _, energies in done.corpus.carried) == 21_600  # the half of `home` without its noise

    from auricle_export.wakeword.outcome import report_of
    from auricle_export.wakeword.page import wake_page

    report = report_of(_small(tmp_path / "whole"), done, tmp_path / "hey.tar.zst", 700_000)
    assert json.loads(json.dumps(report.facts()))["phrases"] == ["hey robot"]
    assert "hey robot" in wake_page(report)


class Tones:
    """Eighteen voices, each a tone of its own, as long as the text."""

    name, about, licence, version, attribution = "tones", "tones", "CC0-1.0", "", ("The author of tones",)

    def missing(self) -> str | None:
        return None

    def languages(self) -> tuple[str, ...]:
        return ("en", "es")

    def speakers(self, language: str) -> tuple[str, ...]:
        return tuple(f"{number}" for number in range(18))

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> np.ndarray:
        pitch = int(np.random.default_rng(seed).choice([int(each) for each in speakers]))
        letters = np.repeat([1 + ord(letter) % 7 for letter in text], 1_000)
        return as_take(np.sin(np.cumsum(letters * (0.02 + pitch / 500) + seed * 1e-7)), 16_000, text)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_pack_says_whose_voices_it_learnt_from_and_who_judged(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from auricle_export.wakeword.outcome import report_of
    from auricle_export.wakeword.page import wake_page

    monkeypatch.setattr(natural, "PHRASES", {"train": 20, "validation": 4, "test": 4})
    task = replace(_small(tmp_path / "state"), sources=(Tones(),))
    done = build.build_wake_pack(task)
    start = done.pack.manifest.start[MODEL]
    assert "14 of tones" in start.data and "of espeak-ng" in start.data
    assert "The author of tones" in start.attribution
    assert (done.judgement.voices, done.judgement.people) == (2, 0)
    assert {word.speaker.split()[0] for word in done.judgement.counts.words} == {"tones"}
    report = report_of(task, done, tmp_path / "hey.tar.zst", 700_000)
    assert (report.training.sources[0].name, report.training.sources[0].voices) == ("tones", 14)
    assert report.training.people == 0 and "and in no recording of people" in wake_page(report)


@pytest.mark.slow
def test_commands_come_after_the_phrase(tmp_path: Path, quick: None) -> None:
    task = replace(_small(tmp_path / "state"), commands="home")
    done = build.build_wake_pack(task).pack
    assert done.voter is None
    pack = load_pack(_written(tmp_path / "hey.tar.zst", pack_bytes(done)))
    listening = pack.manifest.listening
    assert pack.labels[0] == "hey robot"
    assert len(pack_bytes(pack)) < 1_000_000
    assert listening.wake == ("hey robot",)
    assert set(listening.commands) == {"yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"}


@pytest.mark.slow
@pytest.mark.nightly
def test_a_vote_is_trained_from_the_same_voices_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, quick: None
) -> None:
    """Cut in the vote's first epoch but one: the plug-in's training is not begun again."""
    from auricle_export.wakeword.outcome import report_of
    from auricle_export.wakeword.page import wake_page

    class Seen(Watch):
        def __init__(self) -> None:
            self.models: list[str] = []

        def epoch(self, epoch: Epoch) -> None:
            self.models.append(epoch.model)

    head = replace(head_settings(), epochs=2, steps=4, batch=16, judged=1, composed=256)
    task = replace(_small(tmp_path / "state"), vote=toy_network(), head=head)
    first, again = Seen(), Seen()
    with pytest.raises(TrainingInterrupted):
        build.build_wake_pack(task, watch=first, stopped=lambda: len(first.models) == 3)
    assert first.models == [MODEL, MODEL, HEAD]
    done = build.build_wake_pack(task, watch=again)
    assert again.models == [HEAD] and done.models == (MODEL, HEAD)
    assert {path.name for path in task.folder.iterdir()} == {state_file(MODEL), state_file(HEAD)}
    pack = load_pack(_written(tmp_path / "hey.tar.zst", pack_bytes(done.pack)))
    assert pack.manifest.vote.share == build.VOTE_SHARE and pack.manifest.plugin == MODEL and pack.voter is not None
    assert pack.manifest.start[MODEL].hearing.words == len(done.judgement.counts.words)
    assert pack.manifest.start[HEAD].clips == pack.manifest.start[MODEL].clips
    assert "Nobody, CC0" in pack.manifest.start[HEAD].attribution
    report = report_of(task, done, tmp_path / "hey.tar.zst", 700_000)
    assert report.vote == "toy" and "Nobody, CC0" in report.attribution and "over the network toy" in wake_page(report)


def test_a_vote_beside_a_front_end_with_a_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="leave one of the two out"):
        WakeTask(("hey robot",), tmp_path, frozen=toy_network(), vote=toy_network())


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("phrase", "usual"),
    [
        ("Hey Robot!", "hey robot"),
        ("  HEY,   robot...", "hey robot"),
        ("hey_robot", "hey robot"),
        ("„Guten Morgen“", "guten morgen"),
        ("'o'clock-'", "o'clock"),
        ("Re\u0301my", "r\u00e9my"),
        ("42", ""),
        ("!?", ""),
    ],
)
def test_the_form_that_is_named_is_the_one_that_is_taken(phrase: str, usual: str) -> None:
    assert usual_phrase(phrase) == usual
    with pytest.raises(SettingsError, match=f'write "{usual}"' if usual else "name words of letters"):
        refuse_phrase(phrase)


@settings(max_examples=40)
@given(text(max_size=80))
def test_whatever_is_written_the_form_that_is_named_is_taken(phrase: str) -> None:
    if usual := usual_phrase(phrase):
        refuse_phrase(usual)
        refuse_label(usual, "a pack")
