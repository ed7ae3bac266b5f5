"""What `pack_means.py` measured, and its tables."""

from __future__ import annotations

from dataclasses import dataclass

NAME = 26
"""Columns of a name."""


@dataclass(frozen=True)
class Live:
    """What one model, or a mean of some, hears of words that always count."""

    name: str
    hits: dict[str, tuple[float, ...]]
    """By rate, of each kind of scene."""
    alone: float
    """Share of the recordings that are named rightly by themselves."""
    clear: float
    """Share of these that are heard in noise at five false accepts an hour."""


@dataclass(frozen=True)
class Commands:
    """What becomes of commands after a wake word at one threshold."""

    second: str
    level: float
    right: float
    wrong: float
    false: float


@dataclass(frozen=True)
class Own:
    """What becomes of wake words and commands as a pack listens: at its own thresholds, with its own second stage."""

    name: str
    woken: float
    """Share of the wake words that are heard."""
    right: float
    wrong: float
    false: float


@dataclass(frozen=True)
class Result:
    """Everything that was measured."""

    words: int
    people: int
    hours: float
    live: tuple[Live, ...]
    first: str
    commands: tuple[Commands, ...]
    own: tuple[Own, ...] = ()


def text_of(found: Result) -> str:
    """Tables in 80 columns."""
    lines = [
        f"{found.words} words by {found.people} people, {found.hours} h without them; % of the words heard",
        "in noise / over speech / after others at so many false accepts an hour; % named",
        "rightly alone, and of these heard in noise at five an hour",
        "",
        f"{'':{NAME}}{'at 10':>12}{'at 5':>12}{'at 1':>12}{'alone':>9}{'heard':>9}",
    ]
    for row in found.live:
        hits = "".join(f"{'/'.join(f'{100 * share:.0f}' for share in shares):>12}" for shares in row.hits.values())
        lines.append(f"{_shortened(row.name):{NAME}}{hits}{100 * row.alone:9.1f}{100 * row.clear:9.1f}")
    if found.commands:
        lines += ["", f"commands after a wake word, %: {found.first} proposes; what judges, too", ""]
        lines.append(f"{'':{NAME}}{'threshold':>12}{'right':>12}{'wrong':>12}{'false':>9}")
    for each in found.commands:
        shares = f"{100 * each.right:12.1f}{100 * each.wrong:12.1f}{100 * each.false:9.1f}"
        lines.append(f"{_shortened(each.second or 'nothing'):{NAME}}{each.level:12}{shares}")
    if found.own:
        lines += ["", "wake words heard, and commands after them, as each pack listens, %", ""]
        lines.append(f"{'':{NAME}}{'wake words':>12}{'right':>12}{'wrong':>12}{'false':>9}")
    for own in found.own:
        shares = f"{100 * own.woken:12.1f}{100 * own.right:12.1f}{100 * own.wrong:12.1f}{100 * own.false:9.1f}"
        lines.append(f"{_shortened(own.name):{NAME}}{shares}")
    return "\n".join(lines)


def _shortened(name: str) -> str:
    if len(name) < NAME:
        return name
    count = f"mean of {name.count('+') + 1}: " if "+" in name else ""
    return f"{count}{name[: NAME - len(count) - 4]}..."
