"""A run's forecast: each engine's needs and times beside what this machine has, and whether the run fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from auricle.errors import SettingsError
from auricle_edge.runtimes import choose_runtime
from auricle_fleet.engine import Constants
from auricle_fleet.engines import ENGINES, engine_name
from auricle_fleet.forecast.constants import SOURCE
from auricle_fleet.forecast.crowd import crowd_of, is_missing
from auricle_fleet.forecast.needs import Needed, Needs, Times
from auricle_fleet.forecast.speed import Speed, speed_of
from auricle_fleet.population.machine import Machine, this_machine, too_many_files
from auricle_fleet.population.traces import require_traces
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.left_open import with_choices
from auricle_fleet.settings.units import size
from auricle_fleet.training_runtime import training_runtime
from auricle_learning.training.learn_settings import LearnSettings

DOUBT = 1.5
"""A run is refused for memory or disk where even its need divided by this is not there: the forecast may be too high by
as much, and nobody shall be kept from a run that fits."""


class EngineForecast(Struct, frozen=True, kw_only=True):
    """Of one engine."""

    needs: Needs
    times: Times
    refused: str | None
    """Why the run cannot be with this engine, a sentence; None where it fits."""
    constants: Constants
    """Figures that were not measured now."""


class Forecast(Struct, frozen=True, kw_only=True):
    """What a run will take."""

    engine: str
    """That the settings name."""
    devices: int
    invited: int
    """To a round."""
    rounds: int
    training_clips: int
    unseen_clips: int
    weights: int
    """Of the plug-in."""
    machine: Machine
    runtime: str
    """What would train, whose speed this is."""
    runtime_reason: str
    """Why this one, a clause."""
    engines: dict[str, EngineForecast]
    speeds: dict[str, Speed]
    """Measured on this machine, by the devices' own model."""
    source: str = SOURCE
    """What the constants were printed by."""

    @property
    def refused(self) -> str | None:
        """Why the run cannot be with the engine that the settings name; None where it fits."""
        return self.engines[self.engine].refused


def forecast(
    settings: FleetSettings, out: Path, *, again: bool = False, say: Callable[[str], None] = lambda _: None
) -> Forecast:
    """Say what a run will take, before anything of it starts.

    Parameters
    ----------
    settings
        Of the run.
    out
        Where its folder would be.
    again
        Measure this machine's speed, whatever is remembered of it.
    say
        Told what is measured.

    Raises
    ------
    DataError, SettingsError, PackError
        As the run itself would.
    """
    settings, _ = with_choices(settings)
    chosen = engine_name(settings)
    require_traces(settings.groups)
    crowd = crowd_of(settings)
    needed, machine = Needed(settings, crowd), this_machine(out)
    learn = LearnSettings(clips=1, carried=settings.carried_share)
    kinds = sorted(set(crowd.models))
    by = training_runtime(settings.runtime, say)
    runtime = choose_runtime(by.name, crowd.pack).runtime
    speeds = {kind: speed_of(runtime, kind, needed.preset.plan, learn, again=again, say=say) for kind in kinds}
    engines = {}
    for name, engine in ENGINES.items():
        times = needed.times(name, speeds, machine.cores)
        needs = needed.needs(name, times.round)
        refused = engine.refusal(settings) or misfit(needs, machine, out, name)
        engines[name] = EngineForecast(needs=needs, times=times, refused=refused, constants=engine.constants)
    return Forecast(
        engine=chosen,
        devices=crowd.devices,
        invited=needed.invited,
        rounds=settings.rounds,
        training_clips=int(crowd.trained.sum()),
        unseen_clips=crowd.unseen,
        weights=crowd.pack.plugin_table.size,
        machine=machine,
        runtime=by.name,
        runtime_reason=by.reason,
        engines=engines,
        speeds=speeds,
    )


def require_fit(settings: FleetSettings, out: Path) -> None:
    """Refuse a run that cannot fit this machine; nothing is measured for it, and no sound made or read.

    Raises
    ------
    SettingsError
        It cannot fit.
    DataError, PackError
        As of the run itself.
    """
    require_traces(settings.groups)
    if is_missing(settings.data):
        return  # it is downloaded first
    chosen = engine_name(settings)
    reason = misfit(Needed(settings, crowd_of(settings)).needs(chosen), this_machine(out), out, chosen)
    if reason is not None:
        raise SettingsError(reason)


def misfit(needs: Needs, machine: Machine, out: Path, engine: str) -> str | None:
    """Why a run cannot fit; None where it can."""
    lighter = ENGINES[engine].lighter
    if machine.memory is not None and needs.memory / DOUBT > machine.memory:
        return (
            f"This run would need about {size(needs.memory)} of memory and {size(machine.memory)} are free: "
            f"take fewer devices{f', or --engine {lighter}, which needs less' if lighter else ''}."
        )
    if (crowded := too_many_files(max(needs.files, needs.broker_files), machine.files, lighter)) is not None:
        return crowded
    if needs.disk / DOUBT > machine.disk:
        return (
            f"This run would write about {size(needs.disk)} and the disk that holds {out} has {size(machine.disk)} "
            "free: free some space, choose another --out, or take fewer devices."
        )
    return None


def is_tight(need: float, there: float | None) -> bool:
    """Whether a need is nearer to what there is than the forecast is sure of."""
    return there is not None and need * DOUBT > there
