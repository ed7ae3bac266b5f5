"""An execution engine: what every one of them gives a run, and the constants that a forecast computes with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Protocol

import msgspec
from msgspec import Meta, Struct

from auricle.errors import SettingsError
from auricle.settings import from_mapping, read_toml
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import RoundDone
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.start import Start
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group

FILE = Path(__file__).with_name("engine_constants.toml")
"""A table an engine; `bench/fleet_growth.py --write` writes what it measures of them."""

Amount = Annotated[float, Meta(ge=0)]
Number = Annotated[int, Meta(ge=0)]


class EngineFigures(Struct, frozen=True, kw_only=True):
    """Figures of one engine, as `FILE` has them."""

    base_memory_bytes: Amount
    """A run of hardly any devices: Python, onnxruntime, graphs, the report at the end."""
    process_memory_bytes: Amount
    """Each process that trains beside the run's own, where it has any."""
    device_memory_bytes: Amount
    """A device beyond its clips and what it has learnt."""
    update_memory_ratio: Amount
    """An answer while a round closes, in bytes of its weights as float32."""
    broker_memory_bytes: Amount
    """The broker's process, without its devices."""
    broker_device_bytes: Amount
    """The broker's memory for each device."""
    client_seconds: Amount
    """Of the processor, a client's round beyond training, of one core however many there are."""
    start_seconds: Amount
    """Until the first round, without speech."""
    base_files: Number
    """Open files of a run without devices."""
    device_files: Amount
    """Open files for each device."""
    broker_files: Number
    """The broker's own open files."""
    sent_once_bytes: Amount
    """What a device sends once: registration and what else it says of itself."""
    received_once_bytes: Amount
    """What it receives once."""
    sent_round_bytes: Amount
    """What a device sends in a round besides weights: headers, signatures, topics."""
    received_round_bytes: Amount
    """What it receives in a round besides the model: invitation, acknowledgement, topics."""
    sent_asking_bytes: Amount
    """What it sends each time it asks what is next, whether invited or not, every `ask_every` seconds."""
    received_asking_bytes: Amount
    """The answer."""
    base_disk_bytes: Amount
    """A run's folder besides devices and models."""
    device_disk_bytes: Amount
    """A device's folder besides its states."""
    row_disk_bytes: Amount
    """What a device adds in each of its rounds: a row here and there."""


class Constants(EngineFigures, frozen=True, kw_only=True):
    """These, and what follows from how the engine is made."""

    links: bool
    """Whether devices have connections: through a broker, and relays where a network is emulated."""
    all_train: bool
    """Whether everybody invited trains, those whose answers will be too late as well."""
    states_room_bytes: float
    """What devices have learnt that stays in memory at most; those that never trained have nothing then."""
    states_kept: int
    """How many states of a device lie on the disk."""
    models_kept: int
    """How many models do at most, each with what the server's optimizer or the rule keeps for the next round."""
    weights_kept: int = 0
    """How many more do at most, without that."""


def read_figures(engine: str, file: Path = FILE) -> EngineFigures:
    """The figures of an engine.

    Raises
    ------
    SettingsError
        The file has no table of that name, or one of its figures is missing, unknown or below 0.
    """
    table = read_toml(file).get(engine)
    if not isinstance(table, dict):
        raise SettingsError(f"{file} has no table [{engine}]: write one with bench/fleet_growth.py.")
    return from_mapping(EngineFigures, table, f"{file}, [{engine}]")


def constants_of(figures: EngineFigures, **made: object) -> Constants:
    """An engine's constants: what was measured of it, and how it is made; names are those of `Constants`."""
    return msgspec.convert({**msgspec.structs.asdict(figures), **made}, Constants)


class Engine(Protocol):
    """Carries out the rounds of one run.

    Parameters
    ----------
    settings, data, judging
        Of the run.
    state
        Folder for what the run goes on with: an engine made over the same folder takes up the rounds there.
    """

    constants: ClassVar[Constants]
    """What a forecast cannot measure quickly."""
    lighter: ClassVar[str | None]
    """The engine to take where a run does not fit this one; None: there is no smaller one."""

    def __init__(self, settings: FleetSettings, data: FleetData, judging: FleetJudging, state: Path) -> None: ...

    @staticmethod
    def refusal(settings: FleetSettings) -> str | None:
        """Why a run of these settings cannot be with this engine, a sentence; None where it can."""

    @staticmethod
    async def require(settings: FleetSettings) -> None:
        """See that what the engine needs beside this machine is there, before any speech is made; AuricleError."""

    @property
    def names(self) -> Sequence[str]:
        """Of the devices."""

    @property
    def groups(self) -> Sequence[Group | None]:
        """Of each device; None: it is in none."""

    @property
    def models(self) -> Sequence[str]:
        """Architecture of each device's own model."""

    @property
    def coordinator(self) -> Coordinator | None:
        """The coordinator to ask about rounds, from the first one on; None of an engine without one."""

    @property
    def bytes_sent(self) -> int:
        """By all devices since this process began."""

    @property
    def bytes_received(self) -> int:
        """By all devices since this process began."""

    async def run(
        self, start: Start, watch: Callable[[RoundDone], Awaitable[None]], say: Callable[[str], None]
    ) -> None:
        """Run the rounds that are not done yet; cancelling it ends it cleanly.

        Parameters
        ----------
        start
            The first model.
        watch
            Called after every round, which waits for it. The round's report has `updates`, of each device that counted
            its `device`, `samples`, `loss` and `personal_accuracy`, and `layers`, what `Aggregate.explain` gives; what
            else a coordinator reports is entered where it is there.
        say
            Told in a sentence what the devices run on.

        Raises
        ------
        AuricleError
            The rounds cannot go on.
        """
