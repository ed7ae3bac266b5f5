"""An execution engine in one file: devices train one after the other, and no clock, link or file is between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from auricle_cloud.settings import RoundDone
from auricle_fleet import FleetSettings
from auricle_fleet.engine import Constants
from auricle_fleet.population.behaviour import FleetDevices
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.start import Start
from auricle_fleet.virtual.fleet import VirtualFleet
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.aggregation.next_model import next_model, optimizer_in
from auricle_learning.methods import get_rule
from auricle_learning.training.train import RoundResult


class SequentialFleet:
    """Everybody takes part in every round; a run that was interrupted begins again. Parameters as of `Engine`."""

    constants: ClassVar[Constants] = msgspec.structs.replace(VirtualFleet.constants, all_train=True, states_kept=0)
    lighter: ClassVar[str | None] = "virtual"
    coordinator = None

    def __init__(self, settings: FleetSettings, data: FleetData, judging: FleetJudging, state: Path) -> None:
        self._settings, self._table = settings, data.pack.plugin_table
        devices = FleetDevices(settings, data, judging)
        self.names, self.groups, self.models = devices.names, devices.groups, devices.models
        self._trainers = [devices.trainer(place) for place in range(len(devices.names))]
        self._states = [trainer.first_state() for trainer in self._trainers]
        self.bytes_sent = self.bytes_received = 0

    @staticmethod
    def refusal(settings: FleetSettings) -> str | None:
        """What it has nothing of, in a sentence."""
        if settings.groups or settings.participation < 1:
            return "--engine sequential has neither groups nor a share: take --engine virtual."
        return None

    @staticmethod
    async def require(settings: FleetSettings) -> None:
        """Nothing: it runs in this process alone."""

    async def run(
        self, start: Start, watch: Callable[[RoundDone], Awaitable[None]], say: Callable[[str], None]
    ) -> None:
        """Run all rounds; parameters as of `Engine.run`."""
        say(f"{len(self.names)} devices, one after the other")
        settings, preset, kept = self._settings, start.preset, None
        rule = BoundedRule(
            get_rule(preset.rule, **preset.rule_options), settings.limits.share, settings.limits.prune_few
        )
        layers = layers_of((spec.name, spec.size, spec.layer) for spec in self._table.specs)
        model = self._table.initial(settings.seed) if start.weights is None else start.weights
        for number in range(1, settings.rounds + 1):
            began, plan = time.monotonic(), preset.plan_for(number, settings.rounds, settings.seed)
            results: list[RoundResult] = []
            for place, trainer in enumerate(self._trainers):
                results.append(await asyncio.to_thread(trainer.run, plan, number, model, self._states[place]))
                self._states[place] = results[-1].local
            cohort = Cohort.build(
                ids=self.names,
                weights=np.stack([result.plugin for result in results]),
                samples=[result.samples for result in results],
                losses=[result.loss for result in results],
                start=model,
                layers=layers,
                registered=[len(trainer.data.train) for trainer in self._trainers],
            )
            optimizer = optimizer_in(kept, model.size)
            following = next_model(cohort, rule, preset.server_for(number, settings.rounds), optimizer)
            model, kept = following.weights, following.kept
            self.bytes_sent += 4 * model.size * len(results)
            self.bytes_received += 4 * model.size * len(results)
            report = {
                "layers": following.aggregate.explain(),
                "updates": [_update(*pair) for pair in zip(self.names, results, strict=True)],
            }
            counted = len(results) - len(following.aggregate.left_out)
            seconds = time.monotonic() - began
            await watch(RoundDone(number, settings.rounds, "published", model, seconds, len(results), counted, report))


def _update(device: str, result: RoundResult) -> dict[str, object]:
    told = {"samples": result.samples, "loss": result.loss, "personal_accuracy": result.personal_accuracy}
    return {"device": device, **told}
