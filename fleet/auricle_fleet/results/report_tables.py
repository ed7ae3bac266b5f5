"""Tables of `report.html`: each word, device, group and round, and what the run was told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.speech.sound_faults import FindingCount
from auricle.wire.kinds import escape
from auricle_fleet.results.result import DeviceRow, RoundRow
from auricle_fleet.settings.units import false_accepts, percent, size

WORST_DEVICES = 5
"""Devices that are named at most, of the worse half."""
AGAIN = "auricle fleet run --config THIS_FOLDER/settings.json"

ONE_LINE = 30
"""Characters of a cell that is not broken, on a phone too."""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are escaped here."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _cell(text: str) -> str:
    """A cell: names and numbers stay on one line, a sentence does not."""
    return f"<td{' class=long' if len(text) > ONE_LINE else ''}>{escape(text)}</td>"


def by_finding(findings: Sequence[FindingCount]) -> str:
    """Files that were not used, or not as they stand, by reason; empty where there was none."""
    if not findings:
        return ""
    rows = [
        (f"{row.files:,}", row.reason if row.is_used else f"not used: {row.reason}", row.example) for row in findings
    ]
    return f"<h2>Files</h2>{_table(('files', 'what was found', 'the first'), rows)}"


def by_word(words: Sequence[str], confusion: Sequence[Sequence[int]] | None) -> str:
    """How many clips of each word are right, and what they are taken for; nothing where that is not known.

    Parameters
    ----------
    words
        (L,) labels.
    confusion
        (L, L) clips of unseen speakers: said, then taken for.
    """
    if not confusion:
        return ""
    counts = np.array(confusion)
    rows = []
    for i, word in enumerate(words):
        said, wrong = int(counts[i].sum()), counts[i].copy()
        wrong[i] = 0
        most = [j for j in np.argsort(-wrong, kind="stable")[:3] if wrong[j]]
        share = percent(counts[i, i] / said if said else None)
        rows.append([word, str(said), share, ", ".join(f"{words[j]} {wrong[j]}" for j in most) or "-"])
    head = ("word", "clips", "right", "most often taken for")
    return f"<h2>By word, unseen speakers</h2>{_table(head, rows)}{_matrix(words, counts)}"


def _matrix(words: Sequence[str], counts: NDArray[np.int64]) -> str:
    """The confusion matrix, darker the more."""
    head = "".join(f"<th>{escape(word)}</th>" for word in words)
    rows = ""
    for i, word in enumerate(words):
        said = max(1, int(counts[i].sum()))
        cells = "".join(
            f'<td style="background: color-mix(in srgb, var(--{"a" if i == j else "b"}) '
            f'{round(70 * int(counts[i, j]) / said)}%, transparent)">{int(counts[i, j]) or ""}</td>'
            for j in range(len(words))
        )
        rows += f"<tr><td>{escape(word)}</td>{cells}</tr>"
    return (
        "<p>What was said, by row, and what it was taken for, by column:</p>"
        f'<div class="scroll"><table><tr><th></th>{head}</tr>{rows}</table></div>'
    )


def by_device(devices: Sequence[DeviceRow]) -> str:
    """Quantiles of the accuracy of the devices' own models, and the worst of them; nothing where none is known."""
    known = sorted(
        (device.accuracy, device.device, i) for i, device in enumerate(devices) if device.accuracy is not None
    )
    if not known:
        return ""
    quantiles = np.quantile([accuracy for accuracy, _, _ in known], [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])
    head = ("least", "10 %", "25 %", "median", "75 %", "90 %", "most")
    worst = []
    for accuracy, name, i in known[: min(WORST_DEVICES, (len(known) + 1) // 2)]:
        device = devices[i]
        worst.append(
            [name, device.speaker, device.model, str(device.training_clips), str(device.rounds), percent(accuracy)]
        )
    columns = ("worst devices", "speaker", "own model", "training clips", "rounds counted", "own model right")
    return (
        f"<h2>By device, own models on own held-out clips</h2>{_table(head, [[percent(q) for q in quantiles]])}"
        f"{_table(columns, worst)}"
    )


def told(settings: Mapping[str, object] | None, otherwise: str = "") -> str:
    """What the run was told that is not the default, and the command that repeats it."""
    if settings is None:
        return ""
    rows = [[name, _setting_text(value)] for name, value in settings.items()]
    table = _table(("setting", "value"), rows) if rows else "<p>All settings are the defaults.</p>"
    note = f"<p>{escape(otherwise)}</p>" if otherwise else ""
    return f"<h2>Settings</h2>{table}<p>The same run again, typed where this one was: <code>{AGAIN}</code></p>{note}"


def _setting_text(value: object) -> str:
    """A setting as a person writes it: a group only with what it was told."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_setting_text(each)}" for name, each in value.items() if each is not None)
    if isinstance(value, list | tuple):
        plain = not all(isinstance(each, dict) for each in value)
        return " ".join(map(_setting_text, value)) if plain else "; ".join(map(_group, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _group(told: Mapping[str, object]) -> str:
    others = _setting_text({name: value for name, value in told.items() if name != "name"})
    return f"{told['name']}: {others}" if others else str(told["name"])


def by_group(devices: Sequence[DeviceRow], rounds: int) -> str:
    """A row for each group of devices, those in none last; nothing where there are no groups."""
    if all(device.group is None for device in devices):
        return ""
    head = "".join(
        f"<th>{name}</th>"
        for name in ("group", "devices", "rounds counted, mean", "left out of a layer", "blamed", "own models")
    )
    rows = ""
    for name in sorted({device.group for device in devices}, key=lambda group: (group is None, group)):
        mine = [device for device in devices if device.group == name]
        heard = [device.accuracy for device in mine if device.accuracy is not None]
        rows += (
            f"<tr><td>{escape(name or 'all others')}</td><td>{len(mine)}</td>"
            f"<td>{sum(device.rounds for device in mine) / len(mine):.1f} of {rounds}</td>"
            f"<td>{sum(device.left_out for device in mine) / len(mine):.1f}</td>"
            f"<td>{sum(device.harmful for device in mine) / len(mine):.1f}</td>"
            f"<td>{percent(sum(heard) / len(heard) if heard else None)}</td></tr>"
        )
    return f'<h2>Groups, rounds a device</h2><div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


ALWAYS: tuple[tuple[str, Callable[[RoundRow], str]], ...] = (
    ("round", lambda r: str(r.round)),
    ("unseen", lambda r: percent(r.plugin_accuracy_unseen)),
    ("personal", lambda r: percent(r.personal_accuracy)),
    ("loss", lambda r: "-" if r.inference_loss is None else f"{r.inference_loss:.3f}"),
    ("false accepts", lambda r: false_accepts(r.false_accepts, r.negative_seconds, r.false_accepts_per_hour)),
    ("refused", lambda r: str(len(r.refused))),
    ("counted", lambda r: f"{r.counted}/{r.invited}"),
    ("up so far", lambda r: size(r.bytes_up)),
    ("down so far", lambda r: size(r.bytes_down)),
    ("seconds", lambda r: f"{r.seconds:.1f}"),
)
"""Columns of the table of rounds."""
SOME: tuple[tuple[str, Callable[[RoundRow], str | None]], ...] = (
    ("backdoor works", lambda r: None if r.backdoor is None else percent(r.backdoor)),
    ("clock, s", lambda r: None if r.clock is None else f"{r.clock:,.0f}"),
    ("could be invited", lambda r: None if r.available is None else str(r.available)),
    ("models made", lambda r: str(len(set(r.groups.values()))) if r.groups else None),
    ("left out by the rule", lambda r: str(r.left_out_by_rule) if r.left_out_by_rule else None),
    ("counted for less", lambda r: str(len(r.bounded)) if r.bounded else None),
    ("blamed after an alarm", lambda r: (", ".join(r.harmful) or "nobody") if r.alarm else None),
    ("epsilon", lambda r: None if r.epsilon is None else f"{r.epsilon:.3g}"),
)
"""Columns of a second table, of runs that have one such value at least."""
WHOLE_ROUNDS = 20
"""Rounds of a run, up to which its table shows all of them at once."""
ENDS_ROUNDS = 5
"""Rounds at either end that are seen of a longer run."""


def by_round(rounds: Sequence[RoundRow]) -> str:
    """A row for each round, and again for what only some rules, attacks and engines have, where the run has it.

    Of more than `WHOLE_ROUNDS` rounds the first and the last `ENDS_ROUNDS` are seen, and all of them unfold.
    """
    some = [column for column in SOME if any(column[1](row) is not None for row in rounds)]

    def shown(part: Sequence[RoundRow]) -> str:
        return _columns(ALWAYS, part) + (_columns([ALWAYS[0], *some], part) if some else "")

    if len(rounds) <= WHOLE_ROUNDS:
        return shown(rounds)
    return (
        f"<p>The first {ENDS_ROUNDS} and the last "
        f"{ENDS_ROUNDS}.</p>{shown([*rounds[:ENDS_ROUNDS], *rounds[-ENDS_ROUNDS:]])}"
        f"<details><summary>All {len(rounds):,} rounds</summary>{shown(rounds)}</details>"
    )


def _columns(columns: Sequence[tuple[str, Callable[[RoundRow], str | None]]], rounds: Sequence[RoundRow]) -> str:
    return _table([name for name, _ in columns], [[shown(row) or "-" for _, shown in columns] for row in rounds])
