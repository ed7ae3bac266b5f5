"""A whole round on one screen: devices train one after the other, and no clock, link or file is between them.

The smallest engine that makes the models of the others, for who wants to read what a round is or to write an engine.
`ENGINES["sequential"] = SequentialFleet` (`auricle_fleet.engines`) lets a run take it by `engine="sequential"`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from auricle.errors import SettingsError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.model_check import UnsoundModelError, make_model
from auricle_cloud.settings import RoundDone
from auricle_fleet.engine import Constants
from auricle_fleet.population.behaviour import FleetDevices
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.start import Start
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.fleet import VirtualFleet
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.aggregation.next_model import next_model
from auricle_learning.aggregation.rules.rule import check_needs
from auricle_learning.presets import get_preset
from auricle_learning.training.train import RoundResult


class SequentialFleet:
    """Everybody takes part in every round; a run that was interrupted begins again. Parameters as of `Engine`."""

    constants: ClassVar[Constants] = msgspec.structs.replace(VirtualFleet.constants, all_train=True, states_kept=0)
    lighter: ClassVar[str | None] = "virtual"
    coordinator = None

    def __init__(
        self,
        settings: FleetSettings,
        data: FleetData,
        judging: FleetJudging,
        state: Path,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings, self._table, self._clock = settings, data.pack.plugin_table, clock
        devices = FleetDevices(settings, data, judging)
        self.names, self.groups, self.models = devices.names, devices.groups, devices.models
        self._trainers = [devices.trainer(place) for place in range(len(devices.names))]
        self._states = [trainer.first_state() for trainer in self._trainers]
        self.bytes_sent = self.bytes_received = 0

    @staticmethod
    def refusal(settings: FleetSettings) -> str | None:
        """Say what it has nothing of; None where it can run the settings."""
        if settings.groups or settings.participation < 1:
            return "--engine sequential has neither groups nor a share: take --engine virtual."
        if settings.detect:
            return "--engine sequential looks for no harmful updates: take --engine virtual for --detect."
        if settings.privacy.clip is not None:
            return "--engine sequential adds no noise: take --engine virtual for --dp-clip."
        preset = settings.with_method(get_preset(settings.preset))
        try:
            check_needs(preset.method.get_rule(), given=())
        except SettingsError as error:
            return f"{error} --engine sequential has models and samples alone."
        return VirtualFleet.refusal(settings)

    @staticmethod
    async def require(settings: FleetSettings) -> None:
        """Need nothing: it runs in this process alone."""

    async def run(
        self, start: Start, watch: Callable[[RoundDone], Awaitable[None]], say: Callable[[str], None]
    ) -> None:
        """Run all rounds; parameters as of `Engine.run`."""
        say(f"{len(self.names)} devices, one after the other")
        settings, preset, optimizer = self._settings, start.preset, None
        rule = BoundedRule(preset.method.get_rule(), settings.limits.share, settings.limits.prune_few)
        layers = layers_of((spec.name, spec.size, spec.layer) for spec in self._table.specs)
        model: Flat = self._table.initial(settings.seed) if start.weights is None else start.weights
        for number in range(1, settings.rounds + 1):
            began, plan = self._clock.monotonic(), preset.plan_for(number, settings.rounds, settings.seed)
            # every device trains the model on its own clips, with the state of its round before
            results: list[RoundResult] = []
            for place, trainer in enumerate(self._trainers):
                results.append(await asyncio.to_thread(trainer.run, plan, number, model, self._states[place]))
                self._states[place] = results[-1].local
            # the coordinator sees weights, samples and losses, never sound
            cohort = Cohort.build(
                ids=self.names,
                weights=np.stack([result.plugin for result in results]),
                samples=[result.samples for result in results],
                losses=[result.loss for result in results],
                start=model,
                layers=layers,
                registered=[len(trainer.data.train) for trainer in self._trainers],
            )
            # the rule makes one model of them, and the server's optimizer, where there is one, a step towards it
            server = preset.server_for(number, settings.rounds)
            making = partial(next_model, cohort, rule, server, optimizer)
            report: dict[str, object]
            try:
                following = make_model(making, model, settings.limits, rule.name)
            except UnsoundModelError as error:  # the model stays
                state, counted, report = "aborted", 0, {"reason": str(error)}
                say(f"round {number}: {error}")
            else:
                model, optimizer = following.weights, following.optimizer
                state, counted = "published", len(results) - len(following.aggregate.left_out)
                report = {
                    "layers": following.aggregate.explain(),
                    "updates": [_update(*pair) for pair in zip(self.names, results, strict=True)],
                }
            self.bytes_sent += 4 * model.size * len(results)
            self.bytes_received += 4 * model.size * len(results)
            seconds = self._clock.monotonic() - began
            await watch(RoundDone(number, settings.rounds, state, model, seconds, len(results), counted, report))


def _update(device: str, result: RoundResult) -> dict[str, object]:
    facts = {"samples": result.samples, "loss": result.loss, "personal_accuracy": result.personal_accuracy}
    return {"device": device, **facts}
