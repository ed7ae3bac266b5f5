"""What `coordinator.toml` and the options of `auricle cloud serve` may say: one struct, a table for each matter."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from auricle.errors import SettingsError
from auricle.mqtt_link.private_link import IdentityFiles, broker_of, require_private
from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.shipped import DEFAULT_PACK
from auricle.settings import from_mapping, list_settings, read_toml
from auricle.wire.kinds import WORKERS, Count, FleetName
from auricle.wire.kinds import Token as Name
from auricle.wire.tensors import Flat
from auricle_cloud.api.api_settings import ApiSettings, ConnectionLimits, listen_address
from auricle_cloud.commands.coordinator_tables import (
    ApiTable,
    DetectionTable,
    Options,
    Positive,
    RoundSettings,
    StorageTable,
)
from auricle_cloud.settings import NAME, Buffer, Limits, Privacy, RunSettings, SecureSum
from auricle_learning.presets import Preset, get_preset

WORKER_PASSWORD = "AURICLE_WORKER_PASSWORD"
"""Environment variable with a worker's password for the broker, so that it stands on no command line."""
AMONG_STRANGERS: Options = {"prune_low": 0.0, "prune_high": 0.3}
"""What rules that prune leave out where nobody says otherwise: with 0.1 and 0.1 a fifth of the devices decides a model
(`bench/attacks.py`)."""


class CoordinatorSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that a coordinator may be told."""

    fleet: Annotated[FleetName | None, Meta(description="Name of the fleet.")] = None
    broker: Annotated[
        str | None,
        Meta(description="mqtt://user:password@host:port, the password may be left to AURICLE_PASSWORD; or embedded."),
    ] = None
    worker: Annotated[
        str | None,
        Meta(description="Be one of several coordinators of one PostgreSQL: mqtts://worker-0@host:port, up to 8."),
    ] = None
    region: Annotated[
        str | None,
        Meta(description="Have rounds joined with those of other regions: https://host:port of auricle cloud regions."),
    ] = None
    state: Annotated[str | None, Meta(description="Folder for key, database and models.")] = None
    pack: Annotated[
        str, Meta(description="home, home-more, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst.")
    ] = DEFAULT_PACK
    pack_key: Annotated[str | None, Meta(description="Public key in hex: refuse a pack that it has not signed.")] = None
    task: Annotated[Name, Meta(description="Name of what is trained.")] = "keywords"
    approval: Annotated[
        Literal["manual", "claimed", "auto"],
        Meta(description="manual: new devices wait for an operator; claimed: not one that used a token; auto: none."),
    ] = "manual"
    start: Annotated[
        str | None,
        Meta(description="First model: pack (its trained weights) or scratch (seeded noise) [pack where it has some]."),
    ] = None
    seed: Annotated[Count, Meta(description="Decides the first model and who is invited.")] = 0
    compute: Annotated[str, Meta(description="Where methods and evaluation compute: auto, cpu or cuda.")] = "auto"
    validation: Annotated[
        str | None, Meta(description="Folder of your labelled clips, <word>/<speaker>_nohash_<n>.wav.")
    ] = None
    labelled: Annotated[
        str | None,
        Meta(description="Folder of your labelled clips that a method learns from: zeno, fedlaw, fedrpo."),
    ] = None
    connect_timeout: Annotated[Positive, Meta(description="Seconds to wait for the broker at the start.")] = 30.0
    rounds: RoundSettings = RoundSettings()
    detection: DetectionTable = DetectionTable()
    buffer: Buffer = Buffer()
    limits: Limits = Limits()
    privacy: Privacy = Privacy()
    secure_sum: SecureSum = SecureSum()
    api: ApiTable = ApiTable()
    storage: StorageTable = StorageTable()

    def require(self) -> None:
        """SettingsError that names what is missing, where fleet, broker or state folder are not known."""
        missing = [name for name in ("fleet", "broker", "state") if getattr(self, name) is None]
        if missing:
            raise SettingsError(
                f"A coordinator needs {', '.join(missing)}: give --{missing[0]}, or --config with a file that has it."
            )

    def preset_for(self, *, trained: bool) -> Preset:
        """The preset with the method and the rates that were asked for; SettingsError where it cannot take them."""
        chosen, wanted = get_preset(self.rounds.preset), self.rounds
        if wanted.method is not None or wanted.method_options:
            chosen = chosen.with_method(wanted.choose_method(chosen.method))
        method = chosen.method
        prunes = wanted.preset != "paper" and method.get_rule().pruning is not None
        if prunes and not {*AMONG_STRANGERS} & {*method.options}:
            chosen = replace(chosen, method=method.with_options(AMONG_STRANGERS))
        chosen = replace(chosen, plan=msgspec.structs.replace(chosen.plan, codec=wanted.codec))
        return chosen.fitted(trained=trained, server_rate=wanted.server_rate)

    def api_settings(self) -> ApiSettings | None:
        """How API and page are served; None: not at all."""
        address, said = listen_address(self.api.listen), self.api
        if address is None:
            return None
        limits = ConnectionLimits(said.connections, said.connections_each)
        return ApiSettings(
            *address,
            _path(said.certificate),
            _path(said.key),
            said.metrics_open,
            said.device_broker,
            connections=limits,
            strict_transport=said.strict_transport,
        )

    def run_settings(self, start: Flat | None) -> RunSettings:
        """What the coordinator runs with.

        Parameters
        ----------
        start
            (P,) weights of the first model; None: drawn from the seed.

        Raises
        ------
        SettingsError
            Fleet, broker or state folder is missing, or settings exclude each other.
        """
        self.require()
        assert self.fleet is not None
        assert self.broker is not None
        assert self.state is not None
        told, folder = self.rounds, Path(self.state)
        return RunSettings(
            fleet=self.fleet,
            broker=broker_of(self.broker, NAME, folder),
            folder=folder,
            rounds=told.rounds,
            task=self.task,
            preset=self.preset_for(trained=start is not None),
            participation=told.participation,
            over_selection=told.over_selection,
            quorum=told.quorum,
            deadline=told.deadline,
            patience=told.patience,
            least_wait=told.least_wait,
            devices=told.devices,
            gather=told.gather,
            connect_timeout=self.connect_timeout,
            seed=self.seed,
            start=start,
            horizon=told.horizon,
            mode=told.mode,
            buffer=self.buffer,
            detection=self.detection if self.detection.enabled else None,
            validation=_path(self.validation),
            labelled=_path(self.labelled),
            approval=self.approval,
            worker=None if self.worker is None else worker_of(self.worker, folder),
            region=self.region,
            database=self.storage.database,
            blobs=self.storage.blobs,
            limits=self.limits,
            privacy=self.privacy,
            secure_sum=self.secure_sum,
            compute=self.compute,
            keep_models=self.storage.keep_models,
            keep_events=self.storage.keep_events,
            keep_audit=self.storage.keep_audit,
            keep_hearing=self.storage.keep_hearing,
            backups=_path(self.storage.backups),
            keep_backups=self.storage.keep_backups,
        )


def worker_of(url: str, folder: Path) -> BrokerAddress:
    """The broker as a worker reaches it, with the certificate of `FOLDER/WORKER` where there is one; SettingsError."""
    address = require_private(BrokerAddress.parse(url))
    name = address.username or ""
    if name not in WORKERS:
        raise SettingsError(
            f'A worker connects as worker-0 to worker-7, not as "{name}": write --worker mqtts://worker-0@HOST:PORT.'
        )
    address = IdentityFiles(folder / name).lend(address)
    if address.password is None and WORKER_PASSWORD in os.environ:
        return address.as_user(name, os.environ[WORKER_PASSWORD])
    return address


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


TABLES: dict[str, type[Struct]] = {
    "rounds": RoundSettings,
    "detection": DetectionTable,
    "buffer": Buffer,
    "limits": Limits,
    "privacy": Privacy,
    "secure_sum": SecureSum,
    "api": ApiTable,
    "storage": StorageTable,
}
STRUCTS: dict[str, type[Struct]] = {"": CoordinatorSettings, **TABLES}
"""By table; those outside of tables under ""."""


def read_coordinator(config: Path | None, given: Mapping[str, Mapping[str, object]]) -> CoordinatorSettings:
    """Settings of a file, where one is named, with those of the command line over them.

    Parameters
    ----------
    given
        Values by table and name; those outside of tables under "". None: not given.

    Raises
    ------
    SettingsError
        A name that does not exist, with a hint; a value that is not allowed, with the file or option it stands in.
    """
    values = {} if config is None else read_toml(config)
    for table, kind in TABLES.items():
        mine = values.get(table, {})
        if not isinstance(mine, dict):
            raise SettingsError(f"{config}: {table} is a table: write [{table}] and its settings below.")
        values[table] = from_mapping(kind, mine, f"{config}, table [{table}]")
    found = from_mapping(CoordinatorSettings, values, str(config))
    for table, over in given.items():
        wanted = {name: value for name, value in over.items() if value is not None}
        if not wanted:
            continue
        before = found if table == "" else getattr(found, table)
        kept = {name: getattr(before, name) for name in before.__struct_fields__}
        if table == "rounds" and wanted.get("method", kept["method"]) != kept["method"]:
            kept["method_options"] = {}  # those of another method
        made = from_mapping(type(before), kept | wanted, "command line")
        found = made if table == "" else msgspec.structs.replace(found, **{table: made})
    return found


class TableSetting(NamedTuple):
    """One that may be set."""

    table: str
    """Empty: outside of tables."""
    name: str
    default: object
    description: str


def all_settings() -> Iterator[TableSetting]:
    """Every setting there is, in the order of a file."""
    for table, struct in STRUCTS.items():
        for each in list_settings(struct):
            if table or each.name not in TABLES:
                yield TableSetting(table, each.name, each.default, each.description)


def template() -> str:
    """A `coordinator.toml` with every setting at its default, each behind a `#`."""
    lines, table = ["# Settings of a coordinator: auricle cloud serve --config coordinator.toml"], ""
    for each in all_settings():
        if each.table != table:
            table = each.table
            lines += ["", f"[{table}]"]
        value = "" if each.default is None else _in_toml(each.default)
        lines += [f"# {each.description}", f"# {each.name} = {value}".rstrip()]
    return "\n".join(lines) + "\n"


def _in_toml(value: object) -> str:
    return "{}" if value == {} else json.dumps(value)
