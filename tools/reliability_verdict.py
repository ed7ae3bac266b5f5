"""Whether what was recorded of a row is what the row asks for.

`limits` of a row in `reliability.toml` bound figures by name; each value that was recorded has to be inside, at every
size. `sizes` are the loads that the row asks for, as figures too: of each, some run has to reach all. Figures in `SUMS`
are those of all cases of a test together, others those of each case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "below": ("below", lambda value, bound: value < bound),
    "at_most": ("at most", lambda value, bound: value <= bound),
    "at_least": ("at least", lambda value, bound: value >= bound),
}
SUMS = ("kills", "inputs", "counted", "acknowledged", "cases", "tried")
"""Figures that are added over the cases of a test."""
HELD, MISSED, SMALLER = "held", "MISSED", "shown at a smaller size than the aim"
UNRECORDED, UNTESTED = "not recorded", "without a test"


class LimitError(Exception):
    """A limit or a size that says nothing."""


@dataclass(frozen=True)
class Verdict:
    """What became of a row, and why it is not held."""

    word: str
    why: str = ""

    def __str__(self) -> str:
        return f"**{self.word}**" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True)
class Run:
    """A test that ran, at one size."""

    test: str
    record: Mapping[str, Any]

    def values(self, name: str) -> list[object]:
        """What a figure was: one value, the least and the most of its cases, or their sum; nothing if there is none."""
        figures = self.record.get("figures", {})
        if name not in figures:
            return []
        value = figures[name]
        if not isinstance(value, dict):
            return [value]
        return [value["sum"]] if name in SUMS else [value["least"], value["most"]]


def runs(test: str, recorded: Mapping[str, Any]) -> Iterator[Run]:
    """Both sizes of a test, as far as they ran."""
    record = recorded.get(test, {})
    small = {name: value for name, value in record.items() if name != "full"}
    yield from (Run(test, each) for each in (small, record.get("full", {})) if each and not is_skipped(each))


def is_skipped(record: Mapping[str, Any]) -> bool:
    """Whether no case of a test ran."""
    return str(record["outcome"]).startswith("skipped")


def judge(told: Mapping[str, Any], tests: Sequence[str], recorded: Mapping[str, Any]) -> Verdict:
    """What was recorded of a row, of its tests.

    Raises
    ------
    LimitError
        A limit has no bound that there is, or a size no figure.
    """
    limits: Mapping[str, Mapping[str, float]] = told.get("limits", {})
    if not tests:
        return Verdict(UNTESTED)
    ran = {test: list(runs(test, recorded)) for test in dict.fromkeys(tests)}
    every = [run for each in ran.values() for run in each]
    missed = [f"`{_name(run.test)}` failed" for run in every if run.record["outcome"] == "failed"]
    missed += [said for name, bounds in limits.items() for said in _outside(name, bounds, every)]
    if missed:
        return Verdict(MISSED, "; ".join(dict.fromkeys(missed)))
    gaps = [gap for test, each in ran.items() if (gap := _gap(test, each, recorded))]
    if gaps:
        return Verdict(UNRECORDED, "; ".join(gaps))
    sizes: Sequence[Mapping[str, float]] = told.get("sizes", ())
    smaller = [said for size in sizes if (said := _smaller(size, every))]
    if smaller:
        return Verdict(SMALLER, "; ".join(smaller))
    large = [run for run in every if not sizes or any(_reaches(run, size) for size in sizes)]
    unsaid = [name for name in limits if not any(run.values(name) for run in large)]
    if not any(run.record["figures"] for run in every):
        return Verdict(UNRECORDED, "no figure")
    return Verdict(UNRECORDED, f"no figure {', '.join(unsaid)}") if unsaid else Verdict(HELD)


def _name(test: str) -> str:
    return test.rpartition("::")[2]


def _outside(name: str, bounds: Mapping[str, float], every: Sequence[Run]) -> Iterator[str]:
    if not bounds or not bounds.keys() <= BOUNDS.keys():
        raise LimitError(f"The limit of {name!r} is one of {', '.join(BOUNDS)}, not {dict(bounds)}.")
    for run in every:
        for value in run.values(name):
            for kind, bound in bounds.items():
                words, inside = BOUNDS[kind]
                if not isinstance(value, int | float) or not inside(value, bound):
                    yield f"{name} {value}, where it has to be {words} {bound:g} (`{_name(run.test)}`)"


def _gap(test: str, ran: Sequence[Run], recorded: Mapping[str, Any]) -> str:
    """Why a test shows nothing, or not all it has to; empty where it does."""
    if not ran:
        record = recorded.get(test, {})
        return f"`{_name(test)}` {record.get('outcome', '') or record.get('full', {}).get('outcome', 'did not run')}"
    lacking = ran[-1].record.get("skipped", {})
    return f"`{_name(test)}` skipped {sum(lacking.values())} cases: {', '.join(lacking)}" if lacking else ""


def _reaches(run: Run, size: Mapping[str, float]) -> bool:
    return all(_most(run, name) >= least for name, least in size.items())


def _most(run: Run, name: str) -> float:
    return max((value for value in run.values(name) if isinstance(value, int | float)), default=float("-inf"))


def _smaller(size: Mapping[str, float], every: Sequence[Run]) -> str:
    """What the largest run lacks; empty where one has all."""
    if not size:
        raise LimitError("A size names a figure and how large it has to be.")
    if any(_reaches(run, size) for run in every):
        return ""
    most = {name: max((_most(run, name) for run in every), default=float("-inf")) for name in size}
    said = (
        f"{name} {'not told' if most[name] < 0 else f'{most[name]:g}'} of {least:g}" for name, least in size.items()
    )
    return ", ".join(said)
