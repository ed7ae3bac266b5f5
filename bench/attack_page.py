"""The tables of methods under attack: on a terminal, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from bench.attack_moves import MOVES
from bench.attack_rounds import SERVE, Played

SHORT = {
    None: "none",
    "label flip": "flip",
    "sign flip": "sign",
    "scaling": "x10",
    "hundredfold": "x100",
    "noise": "noise",
    "replacement": "repl",
    "ALIE": "ALIE",
    "inner product": "inner",
    "min-max": "m-max",
    "zero model": "zero",
    "free rider": "free",
    "together": "close",
    "backdoor": "door",
    "flip and lie": "flip+",
    "zero and lie": "zero+",
}
"""Heads of columns."""
NOTHING, STAR = "-", "*"
WITHIN = 3.0
"""Points that the default of `auricle cloud serve` may lose to a fifth of attackers."""
WIDTH = 80
RIGHTS, NAMES = 8, 6
"""Columns of a table that has 80 characters: of accuracies, and of pairs."""


ABOUT = """# Methods under attack

Made by `python bench/attacks.py`; do not edit.

<!-- not run: needs recordings of people, and an hour -->

    python bench/attacks.py --data DIR --keep cells.jsonl
    python bench/attacks.py --data DIR --keep cells.jsonl --page FILE

{done}

{devices} devices, each a speaker of recorded digits with 8 to 20 clips, start
from the pack's weights and train for {rounds} rounds; seeds {seeds} decide the
order of batches and who attacks. What is right is counted on 287 clips of
speakers whom nobody trained on: a standard error is 1.3 points. Rules run as a
coordinator runs them, with its bound on one device's share
([rules](../rules.md)); an update that its limits refuse counts for nothing, and
a model that they refuse is not taken. Attackers see all honest uploads before
they make theirs, and have registered ten million clips.

- `serve` is what `auricle cloud serve` does: `lpa` without the farthest 30 % of
  each layer, and the practical preset as it is from trained weights: plug-in
  and own model learn mutually for 3 epochs, the plug-in at a rate of 0.001. All
  others train for an epoch by plain SGD at 0.02 on labels, as far as they do
  not train otherwise: FedMLAC learns mutually, FedProx, SCAFFOLD, FedDyn and
  FedDC have their term of the gradient, FedRep and Ditto their passes, FedRPO
  FixMatch (every other clip has no label then), FedKAD its class means; CReFF
  and MuPFL send gradients.
- Zeno++, FedLAW and FedRPO learn from 32 clips of further speakers. CReFF is
  judged with the classifier that it trains, FedKAD by the honest devices' own
  models, all others by the fleet's: own models and classifiers of FedRep, Ditto
  and MuPFL are not in it. MuPFL drops no activations, for which the pack has no
  layers.
- The pack's weights are right on 92.7 %, and learning adds two points or so: an
  attack that only stops it cannot cost three. `serve` moves little in six
  rounds, as do attackers who train as it says; its rule at the higher rate, the
  row `lpa 0/0.3`, is the harder test.
- Not here: `raf`, which is `geometric-median` by another name, and `local`,
  which takes nothing of what is sent.
- Liars (`flip+`, `zero+`) also say ten million clips, a loss of a million and
  one step; counts by class are ten million, and other vectors -1000 times their
  own.
- Left out is who counts for less than a tenth of what devices count for on
  average: whom `krum` did not choose, whose update `norm-clip` or `zeno` made
  that short. `median` and the like leave out coordinates, not devices.
"""


@dataclass(frozen=True)
class Cell:
    """What was run."""

    seed: int
    method: str
    attack: str | None
    fraction: float


Found = Mapping[Cell, Played]
Say = Callable[[Sequence[Played]], str]


def right(played: Sequence[Played]) -> str:
    """Percent right of the worst seed."""
    return f"{100 * min(p.right for p in played):.1f}"


def who(played: Sequence[Played]) -> str:
    """Percent of the attackers, and of the others, that were left out: the fewest and the most of the seeds."""
    return f"{100 * min(p.named for p in played):.0f}/{100 * max(p.wronged for p in played):.0f}"


def turned(played: Sequence[Played]) -> str:
    """Percent of clips that the trigger turns into the target, of the worst seed."""
    return f"{100 * max(p.turned for p in played):.1f}"


def of(found: Found, wanted: Sequence[Cell], method: str, attack: str | None, fraction: float) -> dict[int, Played]:
    """What came of one cell, by seed."""
    key = (method, attack, fraction if attack else 0.0)
    cells = [cell for cell in wanted if (cell.method, cell.attack, cell.fraction) == key]
    return {cell.seed: found[cell] for cell in cells if cell in found}


def tables(found: Found, wanted: Sequence[Cell]) -> Iterator[str]:
    """Lines of all tables, a fifth of attackers first."""
    methods = list(dict.fromkeys(cell.method for cell in wanted))
    attacks = [attack for attack in SHORT if attack in {cell.attack for cell in wanted}]
    for fraction in dict.fromkeys(cell.fraction for cell in wanted if cell.attack):
        there = {cell.method for cell in found if cell.fraction == fraction}
        ran, missing = [m for m in methods if m in there], [_name(m) for m in methods if m not in there]
        yield from ("", f"## {fraction:.0%} of the devices attack", "")
        if missing:
            yield fill(f"Not run yet: {', '.join(missing)}.", WIDTH)
        if ran:
            yield from ("", "Percent right, of the worst seed:")
            yield from _matrix(found, wanted, ran, attacks, fraction, right, RIGHTS)
            yield from ("", "Left out, percent of the attackers / of the others:")
            yield from _matrix(found, wanted, ran, attacks, fraction, who, NAMES)
    if "backdoor" in attacks:
        fractions = sorted({cell.fraction for cell in wanted if cell.attack})
        yield from (
            "",
            "## What the backdoor does",
            "",
            "Percent of other words with the trigger that pass for the target:",
            "",
        )
        yield from _head(["method", "none", *(f"{fraction:.0%}" for fraction in fractions)])
        for method in (m for m in methods if any((cell.method, cell.attack) == (m, "backdoor") for cell in found)):
            pairs = [(None, 0.0), *(("backdoor", fraction) for fraction in fractions)]
            yield _line([_name(method), *(_said(found, wanted, (method, *pair), turned) for pair in pairs)])


def _matrix(
    found: Found,
    wanted: Sequence[Cell],
    methods: Sequence[str],
    attacks: Sequence[str | None],
    fraction: float,
    say: Say,
    most: int,
) -> Iterator[str]:
    for first in range(0, len(attacks), most):
        columns = attacks[first : first + most]
        yield ""
        yield from _head(["method", *(SHORT[attack] for attack in columns)])
        for method in methods:
            cells = (_said(found, wanted, (method, attack, fraction), say) for attack in columns)
            yield _line([_name(method), *cells])


def _said(found: Found, wanted: Sequence[Cell], which: tuple[str, str | None, float], say: Say) -> str:
    """A cell; with a star where a seed is missing."""
    played = of(found, wanted, *which)
    star = "" if len(played) == len({cell.seed for cell in wanted}) else STAR
    return say(list(played.values())) + star if played else NOTHING


def _name(method: str) -> str:
    """A method in a narrow column: with the values of its options alone."""
    name, *options = method.split()
    values = "/".join(value for _, _, value in (each.partition("=") for each in options) if value != "false")
    return f"{name} {values}".strip()


def _head(names: Sequence[str]) -> list[str]:
    return [_line(names), _line(["---", *["--:"] * (len(names) - 1)])]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def losses(found: Found, wanted: Sequence[Cell], method: str, fraction: float) -> dict[str, list[float]]:
    """Points that a method loses to each attack, in each seed against the same seed without attackers."""
    plain = of(found, wanted, method, None, 0.0)
    lost: dict[str, list[float]] = {}
    for attack in dict.fromkeys(cell.attack for cell in wanted if cell.attack):
        played = of(found, wanted, method, attack, fraction)
        if each := [100 * (plain[seed].right - played[seed].right) for seed in plain if seed in played]:
            lost[attack] = each
    return lost


def headline(found: Found, wanted: Sequence[Cell], method: str, fraction: float = 0.2) -> str:
    """The most that a method loses to a fraction of attackers, as a sentence, and whether that is within the bound."""
    lost = losses(found, wanted, method, fraction)
    if not lost:
        return f"`{method}` has not been run yet."
    means = {attack: sum(each) / len(each) for attack, each in lost.items()}
    mean, one = max(means, key=lambda attack: means[attack]), max(lost, key=lambda attack: max(lost[attack]))
    whole = len({cell.seed for cell in wanted}) * len({cell.attack for cell in wanted if cell.attack})
    missing = whole - sum(map(len, lost.values()))
    within = "within" if max(map(max, lost.values())) <= WITHIN else "**not** within"
    rest = f" {missing} of {whole} runs are missing." if missing else ""
    return (
        f"At {fraction:.0%} `{method}` loses at most {means[mean]:.1f} points in the mean of the seeds ({mean}) and "
        f"{max(lost[one]):.1f} in the worst seed ({one}): {within} {WITHIN:.0f} points.{rest}"
    )


def served(found: Found, wanted: Sequence[Cell], method: str) -> Iterator[str]:
    """A table of what a method loses to each attack, mean and worst of the seeds."""
    fractions = sorted({cell.fraction for cell in wanted if cell.attack})
    lost = {fraction: losses(found, wanted, method, fraction) for fraction in fractions}
    yield from _head(["attack", *(f"{fraction:.0%}" for fraction in fractions)])
    for attack in (attack for attack in SHORT if attack in {cell.attack for cell in wanted} and attack):
        each = [lost[fraction].get(attack) for fraction in fractions]
        cells = [f"{sum(one) / len(one):.1f} ({max(one):.1f})" if one else NOTHING for one in each]
        yield _line([attack, *cells])


def page(found: Found, wanted: Sequence[Cell], rounds: int, devices: int) -> str:
    """For `docs/`."""
    seeds = sorted({cell.seed for cell in wanted})
    here = f"{len(found)} of {len(wanted)} runs are here: `*` misses a seed, `-` all; the first command goes on."
    done = here if len(found) < len(wanted) else f"All {len(wanted)} runs are here."
    about = ABOUT.format(devices=devices, rounds=rounds, seeds=", ".join(map(str, seeds)), done=fill(done, WIDTH))
    legend = [
        fill(f"- `{SHORT[name]}`, {name}: {(move.upload.__doc__ or '').splitlines()[0]}", WIDTH, subsequent_indent="  ")
        for name, move in MOVES.items()
    ]
    names = list(dict.fromkeys(cell.method for cell in wanted))
    default = [each for each in names if each == SERVE or "prune_high=0.3" in each]
    lines = [about, "## The default of `auricle cloud serve`", ""]
    for method in default:
        lines += [fill(headline(found, wanted, method), WIDTH), ""]
    for method in default:
        lines += [f"Points that `{method}` loses, mean (worst seed):", "", *served(found, wanted, method), ""]
    lines += ["## Attacks", "", *legend, *tables(found, wanted)]
    return "\n".join(lines) + "\n"
