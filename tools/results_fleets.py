"""Which method for which fleet: the first table of docs/results/, drawn from results by docs/results/fleets.toml."""

from __future__ import annotations

import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from auricle.errors import SettingsError, nearest
from auricle_fleet.suite.paired import interval
from auricle_fleet.suite.plan import Method, Suite
from auricle_fleet.suite.record import SuiteRecord
from auricle_fleet.suite.targets import kind_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEAD = ["fleet", "take", "with", "it reaches", "FedAvg", "practical preset", "measured as"]
NOT_SHOWN = "no difference shown: take FedAvg"


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `[[fleets]]`: where the answer for a fleet is found."""

    fleet: str
    """What is particular about it."""
    suite: str
    condition: str
    figure: str
    fedavg: str = "FedAvg"
    """The suite's name for it."""
    practical: str = "practical"
    """The suite's name for the preset that a run has without options."""


class Fleets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    fleets: tuple[Fleet, ...] = ()


def read_fleets(path: Path) -> tuple[Fleet, ...]:
    """The fleets of a file; SettingsError where it says what cannot be read."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Fleets).fleets
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SettingsError(f"{path.name} is not a list of fleets: {error}") from error


def fleet_row(fleet: Fleet, record: SuiteRecord, suite: Suite) -> list[str]:
    """A row of the table: the best method by the mean, or FedAvg where the interval beside it holds 0.

    Raises
    ------
    SettingsError
        The suite has no such condition or figure, or no FedAvg.
    """
    figure = _one(fleet, "figure", fleet.figure, dict.fromkeys(each.figure for each in record.tables.entries))
    condition = _one(fleet, "condition", fleet.condition, record.conditions)
    plain = _one(fleet, "method", fleet.fedavg, record.methods)
    values = {each: record.tables.entry(figure, each, condition).values for each in record.methods}
    sense = 1 if kind_of(figure).higher_is_better else -1
    means = {name: statistics.fmean(known) for name, of in values.items() if (known := _known(of))}
    if plain not in means:
        raise SettingsError(f'{_place(fleet)}: no run of "{plain}" tells {figure} in the condition "{condition}".')
    best = max(means, key=lambda name: sense * means[name])
    pairs = zip(values[best], values[plain], strict=True)
    differences = [sense * (a - b) for a, b in pairs if a is not None and b is not None]
    beside = interval(differences)
    take = best if best != plain and beside is not None and beside[0] > 0 else plain
    said = f"**{take}**"
    if take != best:
        said += f" ({best} is {_amount(figure, abs(means[best] - means[plain]))} better; {NOT_SHOWN})"
    return [
        fleet.fleet,
        said,
        options(next(method for method in suite.methods if method.name == take)),
        _share(figure, means.get(take)),
        _share(figure, means.get(plain)),
        _share(figure, means.get(fleet.practical)),
        f"[{record.name}]({record.name}.md), {condition}: {figure}",
    ]


def options(method: Method) -> str:
    """A method's settings as options of `auricle fleet run`; those that only a file can say, in its words."""
    words: list[str] = []
    files: list[str] = []
    for name, value in method.settings.items():
        option = f"--{name.replace('_', '-')}"
        if name == "method_options" and isinstance(value, dict):
            words += [part for key, given in value.items() for part in ("--method-option", f"{key}={_plain(given)}")]
        elif isinstance(value, bool):
            words += [option] if value else []
        elif isinstance(value, str | int | float):
            words += [option, _plain(value)]
        else:
            files.append(f"in its file `{name} = {_toml(value)}`")
    called = [f"`auricle fleet run {shlex.join(words)}`"] if words else []
    return "; ".join([*called, *files]) or "-"


def _toml(value: object) -> str:
    """A table of a suite's file as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return msgspec.json.encode(value).decode()


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _one(fleet: Fleet, what: str, name: str, known: Sequence[str] | Mapping[str, None]) -> str:
    if name not in known:
        raise SettingsError(f'{_place(fleet)}: the suite has no {what} "{name}": {nearest(name, known)}')
    return name


def _place(fleet: Fleet) -> str:
    return f'fleets.toml, fleet "{fleet.fleet}", suite {fleet.suite}'


def _share(figure: str, value: float | None) -> str:
    return "-" if value is None else _amount(figure, value)


def _amount(figure: str, value: float) -> str:
    unit = kind_of(figure).unit
    return f"{100 * value:.1f} %" if unit == "share" else f"{value:.1f} {unit}"
