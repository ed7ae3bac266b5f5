"""A suite as a file says it: methods and conditions by name, each with settings of a fleet run, and seeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from auricle.errors import SettingsError, nearest
from auricle.settings import from_mapping, read_toml
from auricle_fleet.engines import require_engine
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.left_open import with_choices
from auricle_fleet.settings.start_from import require_model
from auricle_fleet.suite.figures import CURVES, NAMES, OWN_CLIPS
from auricle_fleet.suite.parts import (
    Claim,
    Condition,
    Devices,
    Full,
    Method,
    Name,
    PackTable,
    Seeds,
    Targets,
    Tuning,
    Values,
)
from auricle_fleet.suite.targets import TargetFigure, is_to_target, rounds_to, seconds_to

SHIPPED = Path(__file__).parent / "shipped"
"""Suites that come with this package, a file each."""
MOST_CELLS = 100_000
TABLES = ("method_options", "buffer", "detection", "limits", "privacy", "secure_sum", "partition")
"""Settings that are tables: what is told later is put over what was told before, name by name; one with a `kind` of its
own takes the place of what was told before."""


class Suite(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A suite: every method in every condition with every seed."""

    about: Annotated[str, Meta(max_length=2000)] = ""
    """What it shows, and how it differs from what it repeats."""
    seeds: Seeds = (0,)
    settings: Values = {}
    """Of every run. Without `engine` it is the virtual one."""
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    conditions: Annotated[tuple[Condition, ...], Meta(min_length=1)] = (Condition(name="as it is"),)
    reference: str | None = None
    """The method that the others are compared with, seed by seed; without, the first one."""
    target: Targets | None = None
    """One, or several, 0 to 1: the rounds until it is reached are counted."""
    target_figure: Name = "unseen"
    """What reaches it, by the names of docs/suites.md: a figure that has a value in each round."""
    target_seconds: bool = False
    """Count the seconds of the machine's rounds until then, too."""
    target_devices: Devices = ()
    """Count the seconds until the own models of so many devices have the first target."""
    packs: dict[str, PackTable] = {}
    """That the suite builds for itself: a setting `pack` may name one."""
    tuning: Tuning | None = None
    full: Full | None = None
    """What its full size has otherwise (sizes.py)."""
    claims: tuple[Claim, ...] = ()
    """Orderings of a print that the suite shows or refutes."""
    figures: Annotated[tuple[str, ...], Meta(min_length=1)] = ("unseen", "personal")
    """What is shown of the runs, by the names of docs/suites.md; of the first, which method is best is said."""

    def __post_init__(self) -> None:
        """Refuse names that are used twice or do not exist."""
        for what, names in (
            ("method", [method.name for method in self.methods]),
            ("condition", [condition.name for condition in self.conditions]),
            ("seed", list(map(str, self.seeds))),
            ("figure", list(self.figures)),
            ("number of devices", list(map(str, self.target_devices))),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise SettingsError(f'The suite has the {what} "{twice}" twice.')
        unknown = next((name for name in self.figures if name not in NAMES), None)
        if unknown is not None:
            raise SettingsError(f'There is no figure "{unknown}" of a suite: {nearest(unknown, NAMES)}')
        if self.target_figure not in CURVES:
            raise SettingsError(
                f'The target_figure "{self.target_figure}" has no value in each round: '
                f"{nearest(self.target_figure, CURVES)}"
            )
        if self.target is None and (self.target_seconds or self.target_devices):
            raise SettingsError("The suite would count the seconds to a target, and has none: set target.")
        for name in self.packs:
            if not re.fullmatch("[a-z0-9][a-z0-9-]{0,39}", name):
                raise SettingsError(f'"{name}" is not a valid name of a pack: take letters a to z, digits and "-".')
        names = [method.name for method in self.methods]
        if self.reference is not None and self.reference not in names:
            raise SettingsError(f'The reference "{self.reference}" is not a method: {nearest(self.reference, names)}')
        if self.tuning is not None and self.tuning.seed in self.seeds:
            raise SettingsError(f"The suite would tune on seed {self.tuning.seed}, by which it judges: name another.")
        if self.tuning is not None and self.tuning.figure not in (None, *OWN_CLIPS):
            figure = str(self.tuning.figure)
            raise SettingsError(f'A suite does not tune by the figure "{figure}": {nearest(figure, OWN_CLIPS)}')
        for method in self.methods:
            if self.tuning is None and method.constant is not None:
                raise SettingsError(f'The method "{method.name}" has a constant to tune, and the suite no [tuning].')
            if self.tuning is not None:
                self.tuning.first_values(method)
        if len(self.methods) * len(self.conditions) * len(self.seeds) > MOST_CELLS:
            raise SettingsError(f"The suite has more than {MOST_CELLS:,} runs.")
        for claim in self.claims:
            self._check_claim(claim, names)

    def _check_claim(self, claim: Claim, methods: Iterable[str]) -> None:
        """SettingsError where a claim names what the suite does not have."""
        said = f'The claim "{claim.text}"'
        for named in filter(None, (claim.better, claim.worse)):
            if named not in methods:
                raise SettingsError(f'{said} names the method "{named}": {nearest(named, methods)}')
        if claim.better == claim.worse:
            raise SettingsError(f'{said} compares "{claim.better}" with itself: name another method.')
        conditions = [condition.name for condition in self.conditions]
        if claim.condition and claim.condition not in conditions:
            raise SettingsError(
                f'{said} names the condition "{claim.condition}": {nearest(claim.condition, conditions)}'
            )
        if is_to_target(claim.figure) and self.target is None:
            raise SettingsError(f"{said} is of the way to a target, and the suite has none: set target.")
        shown = (*self.figures, *(figure.name for figure in self.target_figures))
        if claim.figure not in shown:
            raise SettingsError(
                f'{said} is of the figure "{claim.figure}", which the suite does not show: '
                f"{nearest(claim.figure, shown)}"
            )

    @property
    def target_figures(self) -> tuple[TargetFigure, ...]:
        """The rounds to each of its targets, and the seconds where it counts them."""
        if self.target is None:
            return ()
        targets = (self.target,) if isinstance(self.target, float) else self.target
        places = [(target, self.target_figure, place) for place, target in enumerate(targets, 1)]
        return (
            *(rounds_to(*each) for each in places),
            *(seconds_to(*each) for each in places if self.target_seconds),
            *(seconds_to(targets[0], self.target_figure, devices=count) for count in self.target_devices),
        )

    @property
    def compared_with(self) -> str:
        """The name of the reference."""
        return self.reference or self.methods[0].name

    def run_settings(
        self, method: Method, condition: Condition, seed: int, over: Mapping[str, object], place: str
    ) -> Values:
        """What a run is told; `over` counts above all.

        Raises
        ------
        SettingsError
            A table has a setting under an earlier name and today's; the message names `place`.
        """
        first: Values = {"engine": "virtual", **({} if self.tuning is None else {"validation": True})}
        return overlaid([first, self.settings, method.settings, condition.settings, over, {"seed": seed}])


def overlaid(tables: Iterable[Mapping[str, object]]) -> Values:
    """Settings of one table put over those of the tables before it."""
    told: Values = {}
    for more in tables:
        for name, value in more.items():
            before = told.get(name)
            both = name in TABLES and isinstance(before, dict) and isinstance(value, dict) and "kind" not in value
            told[name] = {**before, **value} if both else value  # type: ignore[dict-item]
    return told


@dataclass(frozen=True)
class Cell:
    """One run of a suite."""

    method: str
    condition: str
    seed: int
    settings: FleetSettings
    tried: str | None = None
    """The value that is tried, of a run that tunes."""

    @property
    def name(self) -> str:
        """For its folder, in letters that every file system takes."""
        parts = (self.method, self.condition, *([] if self.tried is None else [f"tunes-{self.tried}"]))
        return "-".join(map(plain_name, parts)) + f"-s{self.seed}"


def plain_name(text: str) -> str:
    """A name in letters that every file system takes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")[:40]


def cells(suite: Suite, where: str, tuned: Mapping[str, Values] | None = None) -> list[Cell]:
    """All runs that the tables are made of, seeds outermost: an unfinished suite has all methods for a few seeds.

    Parameters
    ----------
    suite
        Says which.
    where
        Its file, for messages.
    tuned
        What tuning kept, settings by method; methods that are not among these have no runs.

    Raises
    ------
    SettingsError
        A run would be refused; the message names method and condition. Or two would have the same name.
    """
    found: list[Cell] = []
    for seed in suite.seeds:
        for condition in suite.conditions:
            for method in suite.methods:
                if tuned is not None and method.name not in tuned:
                    continue
                over = {} if tuned is None else tuned[method.name]
                found.append(cell_of(suite, method, condition, seed, over, where))
    require_apart(found, where)
    return found


def require_apart(found: Iterable[Cell], where: str) -> None:
    """SettingsError where two runs that are not the same would have one name, and so one folder."""
    known: dict[str, Cell] = {}
    for cell in found:
        other = known.setdefault(cell.name, cell)
        if other.settings != cell.settings:
            one, two = (f'"{each.method}" in condition "{each.condition}"' for each in (other, cell))
            raise SettingsError(
                f"{where}: the runs of method {one} and of {two} would share the folder {cell.name}: give them names "
                "that differ in letters a to z or digits."
            )


def cell_of(
    suite: Suite,
    method: Method,
    condition: Condition,
    seed: int,
    over: Mapping[str, object],
    where: str,
    tried: str | None = None,
) -> Cell:
    """A run of a suite; `over` counts above all, SettingsError as of `cells`."""
    place = f'{where}, method "{method.name}", condition "{condition.name}"'
    try:
        settings = from_mapping(FleetSettings, suite.run_settings(method, condition, seed, over, place), place)
        require_engine(settings)
        require_model(settings.start)
        if chosen := with_choices(settings)[1]:
            raise SettingsError(f"A suite says all that its runs need. {chosen[0]}")
        if suite.tuning is not None and not settings.validation:
            raise SettingsError("The suite tunes on validation speakers: leave validation = false out.")
    except SettingsError as error:
        raise error if str(error).startswith(place) else SettingsError(f"{place}: {error}") from error
    return Cell(method.name, condition.name, seed, settings, tried)


def shipped() -> dict[str, Path]:
    """The suites that come with this package, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def read_suite(named: str) -> tuple[Suite, Path]:
    """Read a suite from a file, or a shipped one by its name.

    Raises
    ------
    SettingsError
        There is no such file or name, or it says what a suite cannot have.
    """
    known = shipped()
    path = Path(named)
    if not path.exists() and path.suffix != ".toml":
        if named not in known:
            raise SettingsError(f'There is no suite "{named}": name a file, or {nearest(named, known)}')
        path = known[named]
    elif path.is_dir():
        raise SettingsError(f"{path} is a folder: name a file of a suite.")
    return from_mapping(Suite, read_toml(path), str(path)), path
