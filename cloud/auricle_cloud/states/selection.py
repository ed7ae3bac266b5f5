"""Who is invited to a round: who may be, and among them whoever took part least often."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any


def unfit(row: Mapping[str, Any], pack: str) -> str | None:
    """Say why a device cannot be invited now; None when it can.

    Parameters
    ----------
    row
        The device as the database has it.
    pack
        Identity of the task's pack; empty as long as there is no task.
    """
    if row["standing"] != "approved":
        if row["standing"] == "pending":
            return "waits for an operator's approval"
        why = f": {row['reason']}" if row["reason"] else ""
        return f"is quarantined{why}" if row["standing"] == "quarantined" else f"was revoked{why}"
    if pack and row["pack"] != pack:
        return f"has pack {row['pack'][:12]}, the task is of pack {pack[:12]}"
    if not row["online"]:
        return "is offline"
    if row["gate"] != "train":
        return f"does not want to train now{': ' + row['gate_reason'] if row['gate_reason'] else ''}"
    return None


def choose(rows: Iterable[Mapping[str, Any]], size: int, seed: str) -> list[str]:
    """Choose a cohort among devices that can be invited.

    Fair over time: whoever was selected least often comes first; the seed decides among equals. The same rows and seed
    give the same cohort in any order of the rows.

    Parameters
    ----------
    size
        How many; all of them when there are fewer.

    Returns
    -------
    list of str
        Device names in ascending order.
    """
    able = sorted((row["selected"], row["device"]) for row in rows)
    draw = random.Random(seed)
    tickets = {name: draw.random() for _, name in sorted(able, key=lambda row: row[1])}
    ranked = sorted(able, key=lambda row: (row[0], tickets[row[1]], row[1]))
    return sorted(name for _, name in ranked[:size])
