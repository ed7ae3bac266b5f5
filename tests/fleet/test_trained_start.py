"""A fleet that starts from trained weights, with default settings: it takes small steps and loses nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from auricle.wire.tensors import Flat, decode
from auricle_cloud.storage.blobs import Blobs
from auricle_edge.training.judge.comparison import Heard, sign_test, worse_in
from auricle_fleet.results.result import FleetResult
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.presets import PRACTICAL
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.learn_settings import LearnSettings


def _run(out: Path, **changes: object) -> tuple[FleetRun, FleetResult]:
    values = {"pack": "gsc12-res", "devices": 3, "unseen": 3, "takes": 2, "min_clips": 10, "rounds": 5, "start": "pack"}
    run = FleetRun(FleetSettings(**{**values, "broker": "amqtt", **changes}), out)  # type: ignore[arg-type]
    return run, run.run()


def _last_model(out: Path, size: int) -> Flat:
    state = out / "state" / "coordinator"
    with sqlite3.connect(state / "coordinator.db") as database:
        (blob,) = database.execute("select blob from models, tasks where version = current").fetchone()
    return decode(Blobs(state / "blobs").get(blob), size)


def _right(run: FleetRun, weights: Flat) -> np.ndarray:
    """(N,) which of the unseen speakers' clips the plug-in recognises."""
    runtime = StepRuntime(run.data.pack)
    logits = runtime.logits(run.data.pack.manifest.plugin, weights, run.judging.features)
    return np.asarray(logits.argmax(axis=1) == run.data.unseen.targets)


def _heard(run: FleetRun, weights: Flat) -> Heard:
    """False accepts of the plug-in, second by second of the negatives that decide nothing."""
    negatives = run.judging._negatives_to_measure
    accepts = negatives.accepts(StepRuntime(run.data.pack), run.data.pack.manifest.plugin, weights)
    return Heard(accepts, np.zeros(0, np.uint8), negatives.streams.hours)


def test_the_start_decides_the_preset_and_a_rate_that_was_named_wins() -> None:
    scratch, pack = FleetSettings(), FleetSettings(start="pack")
    named = FleetSettings(start="pack", server_rate=0.02)
    assert scratch.preset_for(trained=False).server == PRACTICAL.server
    assert pack.preset_for(trained=True).server.kind == "none"
    assert named.preset_for(trained=True).server == PRACTICAL.server
    assert named.preset_for(trained=True).plan == scratch.preset_for(trained=False).plan


@pytest.mark.slow
def test_five_rounds_from_a_trained_pack_lower_no_hits_and_raise_no_false_accepts(tmp_path: Path) -> None:
    """Clip by clip and second by second, by the test that devices judge their own rounds by."""
    pytest.importorskip("espeakng_loader")
    run, result = _run(tmp_path)
    assert run.start.weights is not None
    last = _last_model(tmp_path, run.data.pack.plugin_table.size)
    assert result.summary.rounds == 5
    assert result.summary.rates == {"plugin": 0.001, "own": 0.001, "server": "none", "server_rate": None}
    assert not np.array_equal(run.start.weights, last)
    before, after = _right(run, run.start.weights), _right(run, last)
    assert sign_test(int((before & ~after).sum()), int((after & ~before).sum())) >= 0.05
    assert worse_in(_heard(run, run.start.weights), _heard(run, last), LearnSettings()) is None


@pytest.mark.slow
def test_the_steps_that_noise_needs_destroy_a_trained_pack(tmp_path: Path) -> None:
    """Why the start decides: the same fleet, with the server's rate for a start from scratch.

    Nine people judge: of the clips of three, last bits of another processor's sums decide.
    """
    pytest.importorskip("espeakng_loader")
    run, _ = _run(tmp_path, server_rate=0.02, judge="off", unseen=9)
    assert run.start.weights is not None
    last = _last_model(tmp_path, run.data.pack.plugin_table.size)
    before, after = _right(run, run.start.weights), _right(run, last)
    assert sign_test(int((before & ~after).sum()), int((after & ~before).sum())) < 0.05
