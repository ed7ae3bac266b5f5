"""The vote of a pack on a device: its own windows of the same sound, the same hop by hop and of a whole sound."""

from __future__ import annotations

import wave
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.export.frozen_toy import LABELS, STRIDE, toy_network_pack

from auricle.errors import SettingsError
from auricle.hearing.vote import add_vote
from auricle.packs.manifest import Task
from auricle.packs.pack import load_pack, pack_bytes
from auricle.packs.start import start_weights
from auricle.packs.vote import with_vote
from auricle.process.cli import main
from auricle.speech.features import FrozenNetwork, LogMel, VectorStream, stream_energies, window_begin
from auricle_edge.commands import calibrate_commands
from auricle_edge.evaluate.listeners import listeners_of
from auricle_edge.evaluate.windows import judge_windows, waiting_levels
from auricle_edge.listening.detect import Cascade, Detector, DetectSettings, DetectTable, detect_settings
from auricle_edge.listening.detect.calibration import read_posteriors
from auricle_edge.listening.detect.settings import VoteUse
from auricle_edge.listening.detect.vote import Voter, load_voter, vote_hop
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.ota.pack_shelf import prove
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_edge.service.answers import HeardVote
from auricle_edge.service.parts import Hooks, Parts
from auricle_edge.service.status import status
from auricle_edge.settings import EdgeSettings
from auricle_edge.training.own_model import own_model
from auricle_learning.runtimes import StepRuntime, frontend_of, recogniser

HEAD = toy_network_pack()
RUNTIME = StepRuntime(HEAD)
VOTER = Voter(
    frontend_of(RUNTIME), recogniser(RUNTIME, HEAD.manifest.plugin, HEAD.plugin_table.initial(4) * 3), share=0.4
)
FRONTEND = LogMel(Task(LABELS))
SOUND = (np.random.default_rng(0).normal(0, 1, 5 * RATE) * np.repeat([20, 6000, 20, 4000, 6000], RATE)).astype(np.int16)
TASK = HEAD.manifest.task
FRAME = TASK.frontend.hop


def by_level(features: np.ndarray, *, over: float = 0.0) -> np.ndarray:
    """Posteriors that change from window to window."""
    logits = 40 * np.stack([features[:, -20:, band].mean(axis=1) for band in (3, 17, 30)], axis=1)
    logits[:, 0] += over
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    posteriors: np.ndarray = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return posteriors


@pytest.mark.parametrize("vad", ["off", "energy"])
@pytest.mark.parametrize("hop", [0.1, 0.08, 0.05])
def test_of_a_whole_sound_it_is_what_it_is_hop_by_hop(hop: float, vad: str) -> None:
    settings = DetectSettings(hop=hop, vad=vad, hangover=0.2)  # type: ignore[arg-type]
    alone = read_posteriors(SOUND, FRONTEND, LABELS, by_level, settings)
    found = read_posteriors(SOUND, FRONTEND, LABELS, by_level, settings, VOTER)
    first, other = (
        said.first for said in judge_windows(SOUND, FRONTEND, [by_level] * 2, settings, len(LABELS), [VOTER, None])
    )
    assert np.abs(found - first).max() <= 1e-5 and np.abs(alone - other).max() <= 1e-5
    judged = np.asarray(found.any(axis=1))
    assert np.array_equal(judged, alone.any(axis=1)) and judged.sum() > 30
    assert (vad == "off") == bool(judged[round(1 / hop) :].all())
    assert np.abs(found - alone)[judged].max() > 0.05


def test_its_window_is_the_newest_that_ends_with_a_unit_of_its_own() -> None:
    assert window_begin(TASK, np.array([0, 49, 50, 51, 52, 60])).tolist() == [-50, -2, -2, -2, 2, 10]
    assert (vote_hop(TASK, 0.1), vote_hop(TASK, 0.08), vote_hop(TASK, 0.02)) == (0.04, 0.08, 0.04)
    seen: list[np.ndarray] = []

    def keep(features: np.ndarray) -> np.ndarray:
        seen.append(features[0])
        return np.full((1, len(LABELS)), 1 / 3, np.float32)

    read_posteriors(SOUND, FRONTEND, LABELS, by_level, DetectSettings(vad="off"), Voter(VOTER.frontend, keep, 0.4))
    ends = np.arange(100, 501, 10)  # frames at which the plug-in's windows end
    begins = ends // STRIDE * STRIDE - TASK.frames
    due = VOTER.frontend.windows(stream_energies(TASK, SOUND), begins)
    assert np.abs(np.stack(seen) - due).max() <= 1e-5


def test_after_a_gap_it_remembers_nothing_and_waits_for_a_whole_window_of_its_own() -> None:
    short = LogMel(Task(LABELS, clip_samples=8_000, frames=50))
    settings = DetectSettings(vad="off", hop=0.05)
    detector = Detector(short, LABELS, by_level, settings, vote=VOTER)
    detector.feed(Block(SOUND[: 2 * RATE], 0, 0.0))
    before = detector.figures.windows
    assert before == 40 - 10  # from 0.55 s on: at 0.5 s the vote's newest whole unit ends at 0.48 s
    second, heard = SOUND[2 * RATE :], list[np.ndarray]()

    def keep(features: np.ndarray) -> np.ndarray:
        heard.append(features[0])
        return VOTER.recognise(features)

    detector = Detector(short, LABELS, by_level, settings, vote=Voter(VOTER.frontend, keep, 0.4))
    detector.feed(Block(SOUND[: 2 * RATE], 0, 0.0))
    del heard[:]
    detector.feed(Block(second, 5 * RATE, 0.0))
    again: list[np.ndarray] = heard.copy()
    del heard[:]
    detector = Detector(short, LABELS, by_level, settings, vote=Voter(VOTER.frontend, keep, 0.4))
    detector.feed(Block(second, 0, 0.0))
    assert len(again) == len(heard) > 0 and np.abs(np.stack(again) - np.stack(heard)).max() <= 1e-6


class CountedNetwork:
    """The toy network, and how many vectors its streams were asked for."""

    def __init__(self, network: FrozenNetwork) -> None:
        self._network, self.steps = network, 0

    def vectors(self, mels: np.ndarray) -> np.ndarray:
        return self._network.vectors(mels)

    def stream(self) -> VectorStream:
        run = self._network.stream()

        def step(mels: np.ndarray) -> np.ndarray:
            self.steps += 1
            return run(mels)

        return step


def test_each_frame_is_embedded_once_and_none_while_the_gate_is_closed() -> None:
    counted = CountedNetwork(VOTER.frontend.network)
    voter = Voter(LogMel(TASK, counted), VOTER.recognise, 0.4)
    read_posteriors(SOUND, FRONTEND, LABELS, by_level, DetectSettings(vad="off"), voter)
    kept = -(-TASK.frames // STRIDE)  # vectors under its first window; all else is new from hop to hop
    assert counted.steps == kept + (len(SOUND) // FRAME - 100) // STRIDE
    detector, silence = Detector(FRONTEND, LABELS, by_level, DetectSettings(), vote=voter), np.zeros(5 * RATE, np.int16)
    detector.feed(Block(silence, 0, 0.0))
    assert not detector.speaking
    counted.steps = 0
    detector.feed(Block(silence, 5 * RATE, 0.0))
    assert counted.steps == 0


def test_a_second_stage_judges_what_the_plug_in_and_the_vote_propose_together() -> None:
    keywords = np.array([True, False, False])
    cascade = Cascade(partial(by_level, over=14), partial(by_level, over=20), keywords, 0.5)
    settings = DetectSettings(threshold=0.7, vad="off", smoothing=1, patience=1)
    found = read_posteriors(SOUND, FRONTEND, LABELS, cascade, settings, VOTER)
    (said,) = judge_windows(SOUND, FRONTEND, [cascade], settings, len(LABELS), [VOTER])
    levels = waiting_levels(LABELS, settings)
    assert np.abs(found - said.counted(levels, 1)).max() <= 1e-5
    asked = said.proposed(levels, 1)
    assert said.second is not None and 0 < asked.sum() < len(asked)
    np.testing.assert_allclose(found[asked], ((said.first + said.second) / 2)[asked], atol=1e-5)


def test_clips_that_stand_alone_are_heard_to_their_end() -> None:
    clips = np.stack([SOUND[RATE : 2 * RATE], SOUND[3 * RATE : 4 * RATE]])
    first = by_level(FRONTEND(clips))
    ends = VOTER.recognise(VOTER.frontend(clips[:, -TASK.clip_samples :]))
    assert np.array_equal(VOTER.join(first, clips), add_vote(first, ends, 0.4))
    padded = np.pad(clips[:, :4_000], ((0, 0), (TASK.clip_samples - 4_000, 0)))
    assert np.array_equal(VOTER.join(first, clips[:, :4_000]), VOTER.join(first, padded))


def test_a_device_hears_the_vote_of_its_pack_unless_it_is_told_not_to() -> None:
    plain = load_pack("gsc12-res")
    pack = with_vote(plain, load_pack("gsc12"), 0.3)
    runtime = StepRuntime(pack)
    choose = partial(vote_runtime, runtime, 1)
    voter = load_voter(pack, choose)
    assert voter is not None and voter.share == 0.3 and voter.model == "crnn-lite"
    assert voter.weights == load_pack("gsc12").plugin_table.size
    assert load_voter(pack, choose, "off") is None and load_voter(plain, choose) is None
    with pytest.raises(SettingsError, match="vote is on, and the pack gsc12-res has none"):
        load_voter(plain, choose, "on")
    use: VoteUse = "off"
    assert detect_settings(DetectTable(vote=use), pack).vote == "off"
    assert detect_settings(DetectTable(), pack).vote == "auto"


def test_a_vote_of_log_mels_is_what_its_own_pack_says_of_the_window() -> None:
    plain, other = load_pack("gsc12-res"), load_pack("gsc12")
    pack, settings = with_vote(plain, other, 0.3), DetectSettings(vad="off")
    sound = SOUND[: round(2.5 * RATE)]
    found = []
    for each in (plain, other):
        runs, model = StepRuntime(each), each.manifest.plugin
        recognise = recogniser(runs, model, start_weights(each, model))
        found.append(read_posteriors(sound, frontend_of(runs), each.labels, recognise, settings))
    runs, model = StepRuntime(pack), pack.manifest.plugin
    recognise = recogniser(runs, model, start_weights(pack, model))
    vote = load_voter(pack, partial(vote_runtime, runs, 1))
    together = read_posteriors(sound, frontend_of(runs), pack.labels, recognise, settings, vote)
    judged = found[0].any(axis=1)
    assert judged.sum() == 16
    np.testing.assert_allclose(together[judged], add_vote(found[0][judged], found[1][judged], 0.3), atol=1e-5)


def test_evaluation_listens_with_the_vote_as_it_is_told() -> None:
    plain = load_pack("gsc12-res")
    pack = with_vote(plain, load_pack("gsc12"), 0.3)
    runtime = choose_runtime("step", pack, training=False).runtime
    listen = partial(listeners_of, pack=pack, choose=lambda: runtime, choose_vote=partial(vote_runtime, runtime, 1))
    model, size = pack.manifest.plugin, pack.plugin_table.size
    given = [f"a={model}", f"b={model},vote", f"c={model},vote:0.25"]
    a, b, c = listen(given)
    assert a.vote is None and b.vote is not None and c.vote is not None
    assert (b.vote.share, c.vote.share, a.weights) == (0.3, 0.25, size)
    assert b.weights == size + load_pack("gsc12").plugin_table.size and b.vote.recognise is c.vote.recognise
    (usual,) = listen([])
    assert usual.vote is not None and usual.vote.share == 0.3
    staged = listen([f"d={model},second:{model},vote:0.5"])[0]
    assert isinstance(staged.recognise, Cascade) and staged.vote is not None
    for wrong in (f"a={model},vote:", f"a={model},vote:1", f"a={model},vote:x", f"a={model},votes", "a=,vote"):
        with pytest.raises(SettingsError, match="is not NAME=MODEL"):
            listen([wrong])
    with pytest.raises(SettingsError, match="gsc12-res has no vote"):
        listeners_of([f"a={model},vote"], plain, lambda: runtime, partial(vote_runtime, runtime, 1))


@pytest.mark.slow
def test_the_service_hears_with_the_vote_of_its_pack(tmp_path: Path) -> None:
    pack = with_vote(load_pack("gsc12-res"), load_pack("gsc12"), 0.3)
    prove(pack)
    path = tmp_path / "voted.tar.zst"
    path.write_bytes(pack_bytes(pack))
    heard: dict[VoteUse, dict[str, float]] = {}
    uses: tuple[VoteUse, ...] = ("auto", "off")
    for use in uses:
        detect = DetectTable(vote=use, vad="off")
        settings = EdgeSettings(device="a", state=str(tmp_path / use), pack=str(path), runtime="step", detect=detect)
        held = load_pack(path)
        held.hold_only((own_model(held), held.manifest.plugin))
        parts = Parts(settings, held, Mock(Hooks(*[Mock() for _ in range(7)])))
        try:
            parts.detector.feed(Block(SOUND[: 2 * RATE], 0, 0.0))
            heard[use] = parts.detector.posteriors
            named = status(parts, 2.0, None).vote
            assert named == (HeardVote(model="crnn-lite", share=0.3) if use == "auto" else None)
        finally:
            parts.close()
    runs, model = StepRuntime(pack), pack.manifest.plugin
    recognise = recogniser(runs, model, start_weights(pack, model))
    for use in uses:
        vote = load_voter(pack, partial(vote_runtime, runs, 1), use)
        detector = Detector(
            frontend_of(runs), pack.labels, recognise, detect_settings(DetectTable(vad="off"), pack), vote=vote
        )
        detector.feed(Block(SOUND[: 2 * RATE], 0, 0.0))
        assert heard[use] == pytest.approx(detector.posteriors, abs=1e-5)
    assert max(abs(heard["auto"][label] - heard["off"][label]) for label in pack.labels) > 1e-3


@pytest.mark.slow
def test_calibrate_hears_with_the_vote_of_the_pack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pack, path, shares = with_vote(load_pack("gsc12-res"), load_pack("gsc12"), 0.3), tmp_path / "voted.tar.zst", []
    path.write_bytes(pack_bytes(pack))

    def spy(samples: np.ndarray, vote: Voter | None, **more: Any) -> np.ndarray:
        shares.append(None if vote is None else vote.share)
        return read_posteriors(samples, vote=vote, **more)

    monkeypatch.setattr(calibrate_commands, "read_posteriors", spy)
    with wave.open(str(tmp_path / "room.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(SOUND.tobytes() * 6)
    for use, name in (("auto", str(path)), ("off", str(path)), ("on", "gsc12-res")):
        config = tmp_path / f"{use}.toml"
        config.write_text(f'runtime = "step"\n[detect]\nvote = "{use}"\n')
        asked = ("--pack", name, "--state", str(tmp_path / f"state-{use}"), "--config", str(config), "--json")
        code = main(["edge", "calibrate", str(tmp_path / "room.wav"), "--false-accepts", "1000", *asked])
        assert (code == 0) == (use != "on")
    assert shares == [0.3, None]
    assert "vote is on, and the pack gsc12-res has none" in capsys.readouterr().err
