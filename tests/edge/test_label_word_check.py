"""Takes are judged by the model that listens; those of a voice that it does not know may agree with each other."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.edge.clip_sounds import LENGTH, spoken, store

from auricle.errors import DataError
from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import load_pack
from auricle.speech.audio import read_audio
from auricle.speech.clip_folder import scan_folder
from auricle.speech.features import LogMel
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.labels import Enrolment, LabelSettings, Step
from auricle_edge.labels.candidates import Recognise
from auricle_edge.labels.word_check import WordCheck, cepstra, distance
from auricle_edge.listening.sound import Block
from auricle_edge.runtimes import choose_runtime
from auricle_learning.runtimes import recogniser

PACK = load_pack("gsc12")
FRONTEND = LogMel(PACK.manifest.task)
SETTINGS = LabelSettings()
HUSH = spoken(0.6, level=0.0)
Voices = dict[str, list[NDArray[np.int16]]]


@pytest.fixture(scope="module")
def model() -> Recognise:
    """The shipped plug-in, which knows the voices of espeak."""
    runtime = choose_runtime("auto", PACK).runtime
    weights = choose_weights(None, PACK, PACK.manifest.plugin, 0)
    assert weights is not None
    return recogniser(runtime, PACK.manifest.plugin, weights)


RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data")) / "gsc-more"


def know_nothing(logs: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.full((len(logs), len(PACK.labels)), 1 / len(PACK.labels), np.float32)


@pytest.fixture(scope="module")
def voices() -> Voices:
    """Takes of one synthetic voice, by word: four of a word that is asked for, one each of others."""
    speech = synthesise(SynthesisSettings(words="yes,no,stop,bed,happy,marvin", speakers=1, takes=5, seed=6))
    return {
        word: [speech.audio[i] for i in np.flatnonzero(speech.targets == target)]
        for target, word in enumerate(speech.labels)
    }


def _slower(take: NDArray[np.int16], rate: float) -> NDArray[np.int16]:
    """The take said at another speed and pitch, as one voice does from time to time."""
    places = np.arange(LENGTH) * rate
    return np.interp(places, np.arange(LENGTH), take, right=0.0).astype(np.int16)


def enrol(
    word: str, takes: int, sounds: list[NDArray[np.int16]], folder: Path, recognise: Recognise, *, keep: bool = False
) -> tuple[list[Step], str, int]:
    """Say sounds one by one at the prompts; the steps, the error that ended them, how many clips were kept."""
    kept = store(folder, frontend=FRONTEND)
    waiting, steps, error = list(sounds), [], ""
    now: list[NDArray[np.int16]] = []

    def blocks() -> Iterator[Block]:
        start = 0
        while True:
            piece = now.pop() if now else HUSH
            yield Block(piece, start, 0.0)
            start += len(piece)

    try:
        for step in Enrolment(word, takes, kept, SETTINGS, recognise, keep=keep).run(blocks()):
            steps.append(step)
            if step.step == "say" and waiting:
                rng = np.random.default_rng(len(steps))
                piece = np.concatenate((HUSH, waiting.pop(0), HUSH)) + rng.normal(0, 20, LENGTH + 2 * len(HUSH))
                now.append(piece.astype(np.int16))
    except DataError as ended:
        error = str(ended)
    return steps, error, len(kept.list())


def test_the_word_is_kept_and_another_keyword_is_asked_for_again(
    tmp_path: Path, model: Recognise, voices: Voices
) -> None:
    steps, error, count = enrol("yes", 2, [voices["yes"][0], voices["stop"][0], voices["yes"][1]], tmp_path, model)
    assert (error, count) == ("", 2)
    assert [step.step for step in steps] == ["listen", "say", "kept", "say", "again", "say", "kept", "done"]
    wrong = steps[4]
    assert (wrong.fault, wrong.sounds_like) == ("other", "stop")
    assert '"stop"' in wrong.said
    assert steps[2].score is not None and steps[2].score >= SETTINGS.sounds_like


def test_other_words_are_refused_however_often_they_are_said(tmp_path: Path, model: Recognise, voices: Voices) -> None:
    others = [voices[word][0] for word in ("bed", "happy", "no", "marvin", "stop")]
    steps, error, count = enrol("yes", 5, others, tmp_path, model)
    assert count == 0
    assert "4 times" in error and "--keep" in error
    assert {step.fault for step in steps if step.step == "again"} <= {"other", "unlike"}


def test_a_voice_that_the_model_does_not_know_is_kept_when_its_takes_agree(tmp_path: Path, voices: Voices) -> None:
    takes = [_slower(voices["yes"][1], rate) for rate in (1.0, 0.98, 1.03, 1.01)]
    steps, error, count = enrol("yes", 4, takes, tmp_path, know_nothing)
    assert (error, count) == ("", 4)
    assert [step.step for step in steps][:6] == ["listen", "say", "again", "say", "again", "say"]
    kept = [step for step in steps if step.step == "kept"]
    assert all("agree" in step.said for step in kept)
    assert [step.take for step in kept] == [1, 2, 3, 4]


def test_different_words_do_not_agree(tmp_path: Path, voices: Voices) -> None:
    others = [voices[word][0] for word in ("yes", "happy", "no", "marvin")]
    _, error, count = enrol("yes", 5, others, tmp_path, know_nothing)
    assert count == 0
    assert "agree" in error


def test_what_somebody_wants_kept_is_kept_and_the_doubt_is_said(
    tmp_path: Path, model: Recognise, voices: Voices
) -> None:
    steps, error, count = enrol("yes", 1, [voices["stop"][0]], tmp_path, model, keep=True)
    assert (error, count) == ("", 1)
    assert '"stop"' in steps[2].said


def test_takes_that_clearly_are_another_keyword_do_not_help_each_other(voices: Voices) -> None:
    def sure(logs: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = np.zeros((len(logs), len(PACK.labels)), np.float32)
        rows[:, PACK.labels.index("no")] = 0.95
        return rows

    check = WordCheck("yes", FRONTEND, sure, SETTINGS)
    assert [check.judge(take, 0).keep for take in voices["yes"]] == [()] * len(voices["yes"])


def test_a_word_is_at_no_distance_from_itself_and_distances_are_shares_of_those_to_it_backwards() -> None:
    """One coefficient. 0, 1 to 0, 1 costs 0; backwards 1 + 1 over 2 + 2 frames. 0, 2, 2 to 0, 3, 3 costs 2 over 6,
    backwards 3 + 1 + 2 over 6: a third of it."""
    rise = np.array([[0.0], [1.0]])
    assert distance(rise, rise) == 0.0
    assert distance(rise, rise[::-1]) == 1.0
    assert distance(np.array([[0.0], [2.0], [2.0]]), np.array([[0.0], [3.0], [3.0]])) == pytest.approx(1 / 3)


def test_cepstra_do_not_change_with_loudness_or_a_microphone_that_colours() -> None:
    energies = np.exp(np.random.default_rng(0).normal(0, 1, (100, 40))).astype(np.float32)
    energies[:25] *= 1e-4
    energies[60:] *= 1e-4
    colour = np.exp(np.linspace(-1, 1, 40)).astype(np.float32)
    one, other = cepstra(energies, 0.0), cepstra(7 * energies, 0.0)
    assert one.shape == other.shape == (35, 13)
    np.testing.assert_allclose(one, other, atol=1e-4)
    assert distance(one, cepstra(energies * colour, 0.0)) < 0.2


def _recorded(path: Path) -> NDArray[np.int16]:
    """A recorded clip with the half second before and after that a take has."""
    clip = np.rint(read_audio(path) * 32_767).clip(-32_768, 32_767)[:LENGTH]
    quiet = np.random.default_rng(0).normal(0, 20, 2 * LENGTH)
    quiet[LENGTH // 2 : LENGTH // 2 + len(clip)] += clip
    return quiet.clip(-32_768, 32_767).astype(np.int16)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded speech in {RECORDED}: set AURICLE_SPEECH")
@pytest.mark.parametrize("known", [True, False], ids=["the shipped model", "a model that knows nothing"])
def test_of_recorded_people_more_right_words_than_wrong_ones_are_kept(known: bool, model: Recognise) -> None:
    """Each person says a command word up to four times, or four other words instead of it."""
    people: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for clip in scan_folder(RECORDED).clips:
        people[clip.speaker][clip.word].append(clip.path)
    keywords = [label for label in PACK.labels if not label.startswith("_")]
    right: list[bool] = []
    wrong: list[bool] = []
    for words in people.values():
        for word in keywords:
            others = [paths[0] for other, paths in sorted(words.items()) if other != word][:4]
            for paths, results in ((words.get(word, [])[:4], right), (others, wrong)):
                if len(paths) < 3 or len(results) >= 60:
                    continue
                check = WordCheck(word, FRONTEND, model if known else know_nothing, SETTINGS)
                results.append(any(check.judge(_recorded(path), LENGTH // 2).keep for path in paths))
    print(f"kept: {np.mean(right):.1%} of {len(right)} enrolments of the word, {np.mean(wrong):.1%} of others")
    assert np.mean(right) > 3 * np.mean(wrong)
