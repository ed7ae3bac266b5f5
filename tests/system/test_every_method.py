"""Every method by its name on live devices: a broker, six agents, a coordinator for each method, three rounds each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from auricle.wire.plan import Plan
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_learning.methods import METHODS, MethodSettings, get_method
from auricle_learning.methods.vectors import GRADIENTS, MAPS
from auricle_learning.presets import Preset
from tests.nightly import nightly_but
from tests.system.killed_coordinator import FLEET, TASK
from tests.system.toy_fleet import ToyFleet, toy_fleet, watching

pytestmark = pytest.mark.slow

NAMES = tuple(f"dev-{letter}" for letter in "abcdef")
ROUNDS = 3
PLAN = Plan(rate=0.02, local_rate=0.02)
STAYING = {"local", "fedkad"}
"""Methods whose model is w^t, whatever comes."""
OPTIONS: dict[str, dict[str, object]] = {
    "acmu": {"pkcf": True, "pkcf_features": 5},
    "mupfl": {"bavd": False, "pkcf_features": 5},
    "zeno": {"epsilon": 10.0},
}
"""What a method takes here beside its defaults. Dropped activations (`bavd`) need a pack that is built with layers that
drop some; those in the wheel are not. Clips of noise agree with nobody, so Zeno++ is told to accept everybody."""
DEADLINE = 60.0
KINDS = ("fedavg", "fedmlac", "fedvsa", "fedrpo", "mupfl", "scaffold", "median")
"""One of each kind for the gate: the four papers, state on the device, and a rule without weights."""


class Site:
    """A fleet whose agents stay, and coordinators one after the other that go on with its state."""

    def __init__(self, fleet: ToyFleet, labelled: Path) -> None:
        self.fleet, self.labelled, self.rounds = fleet, labelled, 0

    async def played(self, name: str) -> tuple[list[RoundDone], dict[int, dict[str, Any]]]:
        """Three rounds of a method, and their reports by number; agents are started with the first coordinator."""
        done: list[RoundDone] = []

        async def watch(finished: RoundDone) -> None:
            done.append(finished)

        method = get_method(name, **OPTIONS.get(name, {}))
        settings = RunSettings(
            FLEET,
            self.fleet.broker.address("coordinator"),
            self.fleet.state,
            self.rounds + ROUNDS,
            preset=Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings(name, OPTIONS.get(name, {}))),
            devices=len(NAMES),
            quorum=1.0,
            deadline=DEADLINE,
            gather=DEADLINE,
            least_wait=0.0,
            patience=0.0,
            labelled=self.labelled if "labelled-clips" in method.rule.needs else None,
        )
        coordinator = Coordinator(settings, self.fleet.pack, watch)
        if not self.fleet.agents:
            self._start_agents(coordinator)
        try:
            await asyncio.wait_for(coordinator.run(), DEADLINE)
        finally:
            with watching(self.fleet) as store:
                self.rounds = max((row.round for row in store.rounds.listed(TASK, limit=3)), default=0)
                numbers = [one.number for one in done]
                reports = {number: dict(store.rounds.report(TASK, number) or {}) for number in numbers}
        return done, reports

    def _start_agents(self, coordinator: Coordinator) -> None:
        """Agents whose owners let everything leave that a method asks for."""
        self.fleet.start_agents(coordinator.identity.public)
        asked = {each.allowed_by for method in METHODS.values() for each in (*method.needs.up, MAPS, GRADIENTS)}
        for agent in self.fleet.agents.values():
            trainer = agent.rounds._trainer
            names = tuple(sorted(name for name in asked if name is not None))
            trainer.settings = msgspec.structs.replace(trainer.settings, vectors=names)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One for all tests of this file, between which agents live on."""
    found = asyncio.new_event_loop()
    yield found
    found.close()


@pytest.fixture(scope="module")
def site(loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A broker and six devices, and a folder of labelled clips."""
    soundfile = pytest.importorskip("soundfile")
    pytest.importorskip("onnxruntime", reason="the devices of these rounds train on it")
    labelled, rng = tmp_path_factory.mktemp("labelled"), np.random.default_rng(0)
    for word in ("one", "two", "three"):
        (labelled / word).mkdir()
        for take in range(3):
            soundfile.write(labelled / word / f"anna_nohash_{take}.wav", rng.uniform(-0.1, 0.1, 12_000), 16_000)
    around = toy_fleet(tmp_path_factory.mktemp("fleet"), NAMES)
    yield Site(loop.run_until_complete(around.__aenter__()), labelled)
    loop.run_until_complete(around.__aexit__(None, None, None))


@pytest.mark.parametrize("name", nightly_but(METHODS, KINDS))
def test_three_rounds_of_six_live_devices(site: Site, loop: asyncio.AbstractEventLoop, name: str) -> None:
    done, reports = loop.run_until_complete(site.played(name))

    assert [finished.state for finished in done] == ["published"] * ROUNDS
    for finished in done:
        report = reports[finished.number]
        assert report["rule"] == name
        assert sorted(update["device"] for update in report["updates"]) == list(NAMES)
        assert finished.counted + finished.left_out == finished.invited == len(NAMES)
        assert finished.counted > 0 and report["flag"] is None
        assert not any(report.get(field) for field in ("failed", "refused", "dropped"))
        assert np.isfinite(finished.model).all()
    models = {finished.model.tobytes() for finished in done}
    assert len(models) == (1 if name in STAYING else ROUNDS)


def test_methods_that_stay_are_there() -> None:
    assert STAYING | set(OPTIONS) <= set(METHODS)
