"""Training on windows as they come live: what is put into a window, what is folded, mined, chosen and kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.export.live_toy import FRONTEND, LABELS, bank, heard, pack, tone, toy_corpus, toy_streams

from auricle.errors import SettingsError
from auricle.packs.manifest import Start
from auricle.speech.features import word_span
from auricle_export.packs.models import Crnn, CrnnShape, ResNet, ResNetShape
from auricle_export.pretrain.acoustics import echo, mask, tilts, warp
from auricle_export.pretrain.hard_negatives import mine
from auricle_export.pretrain.listening import command_streams, hearing_of, listening_from, seen_for
from auricle_export.pretrain.live import recogniser_of, train_live
from auricle_export.pretrain.live_task import carried, with_starts
from auricle_export.pretrain.made_noise import NoiseMaker
from auricle_export.pretrain.mined import Mined, draw
from auricle_export.pretrain.normalised import fold_into, normalise
from auricle_export.pretrain.outcome import judge_clips
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.sounds import lay_out
from auricle_export.pretrain.streams import hits_at
from auricle_export.pretrain.surroundings import Surroundings
from auricle_export.pretrain.teachers import Taught
from auricle_export.pretrain.trained import Epoch, TrainingInterrupted
from auricle_export.pretrain.window_settings import ENDED_FRAMES, WindowSettings
from auricle_export.pretrain.windows import Composer

QUIET = "synthetic outside before after tempo warp babble noise second_noise room tilt_db masks"
PLAIN = WindowSettings(**dict.fromkeys(QUIET.split(), 0.0), keywords=1.0, gain_db=(0.0, 0.0))


def test_the_word_in_a_recording_is_where_its_tone_is() -> None:
    sounds = lay_out([tone(1_000, 0.4)], FRONTEND)
    assert abs(int(sounds.begins[0]) - 29) <= 2 and abs(int(sounds.ends[0]) - 70) <= 2
    assert sounds.energies.shape == (101, 40) and not sounds.energies[-1].any()
    begin, end = word_span(sounds.energies[:100], FRONTEND.task.frontend.floor)
    assert (begin, end) == (sounds.begins[0], sounds.ends[0])


def test_without_any_change_a_keyword_lies_whole_in_its_window_with_its_own_label() -> None:
    composer = Composer(bank(), FRONTEND, 2, 3, PLAIN)
    x, targets = composer(64, np.random.default_rng(0))
    assert x.shape == (64, 100, 40) and x.dtype == np.float32 and np.isfinite(x).all()
    assert set(targets.tolist()) == {0, 1}
    loudest = x.max(axis=2)
    for row, target in zip(loudest, targets, strict=True):
        inside = np.flatnonzero(row > row.max() - 1.0)
        assert 36 <= inside[-1] - inside[0] <= 46
        assert target in (0, 1)
    band = x.mean(axis=1).argmax(axis=1)
    assert band[targets == 0].min() > band[targets == 1].max()  # the high tone is the high label


def test_where_it_is_asked_for_a_keyword_has_just_ended() -> None:
    """The last of its loud frames is within the last quarter of a second of the window, anywhere within it."""
    x, targets = Composer(bank(), FRONTEND, 2, 3, replace(PLAIN, newest=1.0))(200, np.random.default_rng(0))
    loudest = x.max(axis=2)
    last = np.array([np.flatnonzero(row > row.max() - 1.0)[-1] for row in loudest])
    assert set(targets.tolist()) == {0, 1}
    assert last.min() >= 100 - ENDED_FRAMES - 4 and last.max() >= 97
    assert last.std() == pytest.approx(ENDED_FRAMES / 12**0.5, abs=1.5)


def test_a_crowd_is_as_loud_as_is_asked_for_and_changes_nothing_where_there_is_none() -> None:
    part, quiet = bank(), replace(PLAIN, keywords=0.0, cut=0.0, noise_only=0.0, running=0.0, alike=0.0)
    loud = Surroundings(part.running, part.noise, FRONTEND.task, replace(quiet, crowd=1.0, crowd_db=(10.0, 10.0)))
    level = np.full(64, 2.0, np.float32)
    mixed = np.zeros((64, 130, 40), np.float32)
    loud(mixed, np.arange(64) >= 32, level, np.random.default_rng(0))
    assert mixed[:32].mean(axis=(1, 2)) == pytest.approx(np.full(32, 0.2), rel=1e-3)  # ten decibels below the word
    assert "crowd" not in WindowSettings().text and "newest" not in WindowSettings().text
    assert "crowd=0.5" in replace(WindowSettings(), crowd=0.5).text


@pytest.mark.slow
def test_the_kinds_come_as_often_as_they_are_asked_for_and_have_the_right_labels() -> None:
    composer = Composer(bank(), FRONTEND, 2, 3, WindowSettings())
    _, targets = composer(4_000, np.random.default_rng(1))
    shares = np.bincount(targets, minlength=4) / 4_000
    assert shares[:2].sum() == pytest.approx(0.5, abs=0.03)
    assert shares[3] == pytest.approx(0.5 * WindowSettings().noise_only, abs=0.02)
    assert shares[2] == pytest.approx(1 - shares[0] - shares[1] - shares[3], abs=1e-9)
    cut = replace(PLAIN, keywords=0.0, cut=1.0, noise_only=0.0, running=0.0, alike=0.0)
    _, targets = Composer(bank(), FRONTEND, 2, 3, cut)(50, np.random.default_rng(2))
    assert set(targets.tolist()) == {2}  # a keyword that is cut is no keyword
    one, two = (Composer(bank(), FRONTEND, 2, 3)(32, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one[0], two[0]) and np.array_equal(one[1], two[1])


def test_a_wake_word_or_a_greeting_comes_before_keywords_only() -> None:
    part = bank()
    led = replace(PLAIN, keywords=0.5, led=1.0, cut=0.0, noise_only=0.0, running=0.0, alike=0.0, backwards=0.0)
    plain, _ = Composer(part, FRONTEND, 2, 3, led)(60, np.random.default_rng(3))
    both, targets = Composer(replace(part, leading=part.others), FRONTEND, 2, 3, led)(60, np.random.default_rng(3))
    changed = np.abs(plain - both).max(axis=(1, 2)) > 0.05
    assert not changed[targets == 2].any() and changed[targets < 2].mean() > 0.3
    near = replace(PLAIN, before=1.0, after=1.0, gap=(5, 6))
    plain, _ = Composer(part, FRONTEND, 2, 3, PLAIN)(40, np.random.default_rng(3))
    both, targets = Composer(part, FRONTEND, 2, 3, near)(40, np.random.default_rng(3))
    assert not np.allclose(plain, both)
    assert set(targets.tolist()) == {0, 1}


def test_the_second_window_of_a_sound_is_the_first_a_little_earlier_with_the_same_label() -> None:
    paired = replace(PLAIN, shift=(7, 7), outside=0.0)
    x, targets = Composer(bank(), FRONTEND, 2, 3, paired)(40, np.random.default_rng(4))
    assert x.shape == (40, 100, 40) and np.array_equal(targets[:20], targets[20:])

    def onset(window: np.ndarray) -> int:
        loud = window.max(axis=1)
        return int(np.flatnonzero(loud > loud.max() - 1.0)[0])

    assert {onset(x[20 + n]) - onset(x[n]) for n in range(20)} == {7}
    cut = replace(paired, keywords=0.0, cut=1.0, noise_only=0.0, running=0.0, alike=0.0, shift=(3, 20), visible=0.3)
    x, targets = Composer(bank(), FRONTEND, 2, 3, cut)(80, np.random.default_rng(5))
    assert set(targets.tolist()) == {2}
    peaks = x.max(axis=2)
    seen = (peaks > np.median(peaks, axis=1, keepdims=True) + 3).sum(axis=1)
    assert 0 < seen.max() <= 0.3 * 41 + 4  # in neither window more than may be seen of a keyword that is cut


def test_both_windows_of_a_sound_have_one_gain_and_one_voice() -> None:
    changed = replace(PLAIN, shift=(5, 5), gain_db=(-18.0, 10.0), warp=0.1)
    x, _ = Composer(bank(), FRONTEND, 2, 3, changed)(20, np.random.default_rng(6))
    for n in range(10):
        ours, theirs = x[n] - x[n].mean(), x[10 + n] - x[10 + n].mean()
        np.testing.assert_allclose(ours[:90], theirs[5:95], atol=0.2)


def test_an_echo_decays_by_sixty_decibels_in_the_time_that_was_drawn() -> None:
    clap = np.zeros((1, 101, 2), np.float32)
    clap[:, 0] = 1.0
    wet = echo(clap, np.random.default_rng(0), (0.5, 0.5), (0.0, 0.0))
    assert wet[0, 0, 0] == 1.0
    assert 10 * np.log10(wet[0, 51, 0] / wet[0, 1, 0]) == pytest.approx(-60, abs=0.01)
    assert wet[0, 1:, 0].sum() == pytest.approx(1.0, rel=0.01)  # as much echo as direct sound


def test_made_noise_has_mean_one_and_tilts_no_more_than_was_asked() -> None:
    noise = NoiseMaker(FRONTEND.task)(60, 100, np.random.default_rng(0))
    assert noise.shape == (60, 100, 40) and noise.min() > 0
    assert noise.mean(axis=(1, 2)) == pytest.approx(np.ones(60), abs=1e-4)
    change = np.abs(np.diff(np.log(noise.mean(axis=2)), axis=1)).mean(axis=1)
    assert change.min() < 0.1 and change.max() > 0.3  # some are steady, some are not
    factors = 10 * np.log10(tilts(100, 40, np.random.default_rng(0), 6.0))
    assert np.abs(factors).max() <= 6.0 * 1.5 and np.abs(factors).max() > 3


def test_no_warp_changes_nothing_and_masks_hide_with_zeros() -> None:
    energies = np.random.default_rng(0).random((2, 100, 40)).astype(np.float32)
    assert np.allclose(warp(energies, np.random.default_rng(0), 0.0), energies, atol=1e-6)
    logs = np.ones((50, 100, 40), np.float32)
    hidden = mask(logs.copy(), np.random.default_rng(0), 1.0)
    assert 0 < (hidden == 0).mean() < 0.3
    assert np.array_equal(mask(logs.copy(), np.random.default_rng(0), 0.0), logs)


@pytest.mark.parametrize(
    "module", [ResNet(ResNetShape((8, 12), ((3, 5),)), 4), Crnn(CrnnShape((8, 8), 6), 4)], ids=["resnet", "crnn"]
)
def test_a_folded_model_computes_what_the_normalised_one_does(module: torch.nn.Module) -> None:
    torch.manual_seed(0)
    twin = normalise(module)
    x = torch.randn(32, 100, 40)
    twin.train()
    for _ in range(5):
        twin(x + torch.randn(32, 100, 40))
    twin.eval()
    fold_into(twin, module)
    with torch.no_grad():
        assert torch.allclose(twin(x), module(x), atol=1e-4)
    own = torch.nn.Linear(3, 2)
    twin = normalise(own)
    assert twin is not own and torch.equal(twin.weight, own.weight)  # a module of an author stays as it is


def test_mining_finds_what_is_taken_for_a_keyword() -> None:
    def recognise(features: np.ndarray) -> np.ndarray:
        band = features.mean(axis=1).argmax(axis=1)
        found = np.zeros((len(features), 4), np.float32)
        found[:, 0] = (band > 20) & (features.max(axis=(1, 2)) > 1)
        found[:, 2] = 1 - found[:, 0]
        return found

    part = bank()
    loud = lay_out([tone(2_400), tone(300)], FRONTEND)
    mined = mine(replace(part, alike=loud, others=loud), FRONTEND, LABELS, recognise)
    assert mined.alike.tolist() == [1.0, 0.0]
    assert len(mined.running.scores) == len(mined.running.sounds) == len(mined.running.frames)
    assert mined.together.scores.size == 0
    places = draw(np.array([0.0, 0.5, 0.25], np.float32), 20_000, np.random.default_rng(0))
    shares = np.bincount(places, minlength=3) / 20_000
    assert shares == pytest.approx(np.array([0.02, 0.5, 0.25]) / 0.77, abs=0.01)
    again = Mined.from_arrays(mined.arrays())
    before, after = ({name: values.tolist() for name, values in m.arrays().items()} for m in (mined, again))
    assert after == before


SETTINGS = LiveSettings(epochs=3, steps=24, batch=32, judged=1, mined=1, rate=5e-3)


@pytest.mark.slow
def test_a_model_learns_tones_and_is_kept_by_what_it_hears_in_streams(tmp_path: Path) -> None:
    seen: list[Epoch] = []
    done = train_live("resnet-lite", pack(), toy_corpus(), toy_streams(), SETTINGS, tmp_path, report=seen.append)
    assert [epoch.number for epoch in seen] == [1, 2, 3]
    assert seen[-1].loss < seen[0].loss
    assert done.weights.shape == (pack().table("resnet-lite").size,)
    assert np.array_equal(done.weights, done.weights.astype(np.float16).astype(np.float32))
    right, judged = judge_clips(heard(), LABELS, FRONTEND, recogniser_of("resnet-lite", pack(), done.weights))
    assert judged == 12 and right >= 8  # chance is 3


@pytest.mark.slow
def test_a_model_learns_tones_from_pairs_and_from_another_that_knows_them(tmp_path: Path) -> None:
    known = train_live("resnet-lite", pack(), toy_corpus(), toy_streams(), SETTINGS, tmp_path / "teacher")
    start = Start(file="weights/x.safetensors", data="tones", clips=12, speakers=4, accuracy=1.0, judged_clips=12)
    listening = listening_from(toy_streams(), toy_streams().posteriors(_by_tone), None, None, (), open_rate=300)
    teacher = with_starts(pack(), {"resnet-lite": start}, {"resnet-lite": known}, listening)
    settings = replace(SETTINGS, steady=1.0, windows=replace(SETTINGS.windows, shift=(3, 20)))
    given = ("resnet-lite", pack(), toy_corpus(), toy_streams(), settings)
    seen: list[Epoch] = []
    done = train_live(*given, tmp_path / "taught", teachers=[Taught(teacher, "resnet-lite")], report=seen.append)
    assert seen[-1].loss < seen[0].loss
    right, _ = judge_clips(heard(), LABELS, FRONTEND, recogniser_of("resnet-lite", pack(), done.weights))
    assert right >= 8
    with pytest.raises(SettingsError, match="another training"):
        train_live(*given, tmp_path / "taught")


@pytest.mark.slow
def test_an_interrupted_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = train_live("resnet-lite", pack(), toy_corpus(), toy_streams(), SETTINGS, tmp_path / "whole")
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 36

    with pytest.raises(TrainingInterrupted):
        train_live("resnet-lite", pack(), toy_corpus(), toy_streams(), SETTINGS, tmp_path / "cut", stopped=stopped)
    again = train_live("resnet-lite", pack(), toy_corpus(), toy_streams(), SETTINGS, tmp_path / "cut")
    assert np.array_equal(whole.weights, again.weights)


def _by_tone(features: np.ndarray) -> np.ndarray:
    """A recogniser that knows the two tones: by the band that stands out most in the loudest frame."""
    frames = features - np.median(features, axis=1, keepdims=True)
    loudest = frames[np.arange(len(frames)), frames.mean(axis=2).argmax(axis=1)]
    band, loud = loudest.argmax(axis=1), loudest.max(axis=1) > 0.4
    found = np.full((len(features), 4), 0.02, np.float32)
    found[np.arange(len(features)), np.where(~loud, 3, np.where(band > 22, 0, np.where(band < 8, 1, 2)))] = 0.94
    return found


def _silent(features: np.ndarray) -> np.ndarray:
    """A recogniser that never hears anything."""
    return np.tile(np.array([0, 0, 0, 1], np.float32), (len(features), 1))


def test_thresholds_and_curve_of_a_model_that_knows_its_words() -> None:
    streams = toy_streams()
    counts = streams.counts(_by_tone)
    assert hits_at(counts, 600) > 0.3 > hits_at(streams.counts(_silent), 600) == 0.0
    listening = listening_from(streams, streams.posteriors(_by_tone), None, None, (), open_rate=300)
    assert set(listening.thresholds) == {"high", "low"} and not listening.wake
    hearing = hearing_of(counts, "tones")
    shares = [point.hits["noise"] for point in hearing.curve]
    assert shares == sorted(shares) and hearing.words == len(counts.words)


def test_a_wake_word_and_its_commands_get_thresholds_of_their_own() -> None:
    streams = toy_streams()
    commands = command_streams(heard(), streams, ("high",), 0)
    heard_of, commanded = streams.posteriors(_by_tone), commands.posteriors(_by_tone)
    listening = listening_from(streams, heard_of, commands, commanded, ("high",), wake_rate=300)
    assert listening.wake == ("high",) and set(listening.thresholds) == {"high"}
    assert set(listening.commands) == {"low"} and 0.5 <= listening.commands["low"] <= 0.98
    assert listening.command_drop == 4.0


@pytest.mark.slow
def test_trained_weights_come_with_thresholds(tmp_path: Path) -> None:
    short = replace(SETTINGS, epochs=1, steps=2)
    done = train_live("resnet-lite", pack(), toy_corpus(), toy_streams(), short, tmp_path)
    listening = listening_from(toy_streams(), toy_streams().posteriors(_by_tone), None, None, (), open_rate=300)
    start = Start(file="weights/x", data="tones", clips=12, speakers=4, accuracy=1.0, judged_clips=12)
    with pytest.raises(SettingsError, match="rate"):  # the state of another training
        train_live("resnet-lite", pack(), toy_corpus(), toy_streams(), replace(short, rate=1e-3), tmp_path)
    made = with_starts(pack(), {"resnet-lite": start}, {"resnet-lite": done}, listening)
    found = carried(toy_streams(), seconds=2)
    assert {kind for kind, _ in found} == {"speech", "words", "run together", "noise"}
    assert all(len(energies) == 200 for _, energies in found)
    assert made.listening == listening and made.manifest.start["resnet-lite"] == start


@pytest.mark.parametrize(("rate", "hours", "seen"), [(1.0, 6.0, 1), (5.0, 6.0, 20), (1.0, 1.0, 1), (2.0, 10.0, 12)])
def test_of_a_rate_so_many_false_accepts_may_be_seen(rate: float, hours: float, seen: int) -> None:
    """One-sided 95 % bounds of Poisson: 4.74 for 1 and 6.30 for 2, 29.06 for 20 and 30.24 for 21, 19.44 for 12."""
    assert seen_for(rate, hours) * hours == pytest.approx(seen)
