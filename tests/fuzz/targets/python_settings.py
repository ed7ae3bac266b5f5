"""Settings and arrays that programs pass: what a researcher writes in Python instead of in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.settings import from_mapping, list_settings
from auricle.wire.plan import Plan
from auricle_cloud.commands.coordinator_settings import TABLES, read_coordinator
from auricle_cloud.settings import Buffer, Detection, Limits, Privacy, SecureSum
from auricle_edge.settings import read_settings
from auricle_fleet import FleetSettings, Group, Network, Trace
from auricle_fleet.settings.check import check_run
from auricle_fleet.settings.partition import Partition
from auricle_learning import METHODS, average
from auricle_learning.methods import MethodSettings
from tests.fuzz.python_values import read_document, with_python_values
from tests.fuzz.target import target

MODELS = np.array([[1.0, 2.0], [2.0, 2.5], [90.0, -90.0], [1.5, 2.0], [1.0, 1.0]], np.float32)
STRUCTS: dict[str, type[msgspec.Struct]] = {
    kind.__name__: kind for kind in (Buffer, Detection, Group, Limits, Network, Partition, Privacy, SecureSum, Trace)
}


def _document(make: str, values: Mapping[str, object]) -> bytes:
    return json.dumps({"make": make, "values": values}, default=str).encode()


def _defaults(kind: type[msgspec.Struct]) -> dict[str, object]:
    return {each.name: None if each.default is msgspec.NODEFAULT else each.default for each in list_settings(kind)}


@cache
def _examples() -> dict[str, bytes]:
    whole = {name: _document(name, _defaults(kind)) for name, kind in STRUCTS.items() if name not in ("Group", "Trace")}
    plain = msgspec.to_builtins(FleetSettings())
    return whole | {
        "Group": _document("Group", {"name": "slow", "count": 2, "compute": 2.0, "network": {"latency": 0.1}}),
        "fleet": _document("FleetSettings", {"devices": 4, "rounds": 3, "method": "median", "seed": 1}),
        "defaults": _document("FleetSettings", {name: plain[name] for name in list(plain)[:30]}),
        "others": _document("FleetSettings", {name: plain[name] for name in list(plain)[30:]}),
        "edge": _document("EdgeSettings", {"device": "kitchen", "state": "/nowhere", "threads": 1, "source": "mic"}),
        "coordinator": _document("CoordinatorSettings", {"": {"fleet": "home"}, "rounds": {"method": "lpa"}}),
        "plan": _document("Plan", msgspec.to_builtins(Plan())),
    }


def _fleet(values: dict[str, Any]) -> object:
    settings = FleetSettings(**values)
    check_run(settings)
    settings.preset_for(trained=True)
    msgspec.json.encode(settings)
    return settings.changed()


def _coordinator(values: dict[str, Any]) -> object:
    given = {name: table for name, table in values.items() if name in ("", *TABLES) and isinstance(table, dict)}
    return read_coordinator(None, given)


def _maker(name: object) -> Callable[[dict[str, Any]], object]:
    kinds: dict[str, Callable[[dict[str, Any]], object]] = {
        "FleetSettings": _fleet,
        "EdgeSettings": lambda values: read_settings(None, values),
        "CoordinatorSettings": _coordinator,
        "Plan": lambda values: msgspec.msgpack.encode(from_mapping(Plan, values, "the plan")),
    }
    kinds |= {each: partial(_made, kind) for each, kind in STRUCTS.items()}
    return kinds.get(name, _fleet) if isinstance(name, str) else _fleet


def _made(kind: type[msgspec.Struct], values: dict[str, Any]) -> object:
    return kind(**values)


@target(
    "python-settings",
    "auricle.settings auricle_fleet.settings.fleet_settings auricle_fleet.settings.check auricle_cloud.settings",
    "auricle_fleet.settings.groups auricle_fleet.settings.partition",
    examples=_examples,
    form="json",
    refusals=(SettingsError,),
    mend=with_python_values,
)
def python_settings(data: bytes) -> object:
    """Settings of runs, devices, coordinators and rounds by keyword: made, or refused in a sentence."""
    make, values = _read(data)
    return type(_sentence(lambda: _maker(make)(values))).__name__


def _read(data: bytes) -> tuple[Any, dict[str, Any]]:
    """What is to be made, and its values by keyword."""
    try:
        document = read_document(data)
    except (ValueError, RecursionError) as error:
        raise SettingsError("no document") from error
    values = document.get("values")
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise SettingsError("no keywords")
    return document.get("make"), values


def _sentence(make: Callable[[], object]) -> object:
    """What is made; of a refusal that the sentence can be printed."""
    try:
        return make()
    except AuricleError as error:
        assert str(error).encode("utf-8", "backslashreplace")
        raise


@cache
def _methods() -> dict[str, bytes]:
    options = {name: METHODS[name].rule.options for name in METHODS}
    return {
        name: _document(name, {} if each is None else msgspec.to_builtins(each)) for name, each in options.items()
    } | {"arrays": _document("fedavg", {"models": [[1.0, 2.0], [3.0, 4.0]], "samples": [1, 2], "start": [0.0, 0.0]})}


@target(
    "python-methods",
    "auricle_learning.aggregation.options auricle_learning.methods.method_settings auricle_learning.methods.average",
    "auricle_learning.aggregation.cohort auricle_learning.methods.registry",
    examples=_methods,
    form="json",
    refusals=(SettingsError, DataError),
    mend=with_python_values,
    seconds=3.0,
)
def python_methods(data: bytes) -> object:
    """Options of methods and arrays of models: averaged, or refused in a sentence."""
    make, values = _read(data)
    given = {"models": MODELS, **values, "method": make}

    def averaged() -> object:
        options = {name: each for name, each in values.items() if name not in _ARRAYS}
        if MethodSettings(make, options).get_rule().needs:
            return MODELS[0]  # more than arrays
        return average(given.pop("models"), **given)

    made = _sentence(averaged)
    assert isinstance(made, np.ndarray)
    return made.shape


_ARRAYS = ("models", "method", "samples", "losses", "start", "layers", "extras")
