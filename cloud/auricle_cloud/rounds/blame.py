"""What detection says of single devices, noted in the transaction that enters a round's verdict."""

from __future__ import annotations

import sqlalchemy as sa

from auricle.process.times import how_many
from auricle_cloud.states.report import Document
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.schema import devices


def note_set_aside(tx: sa.Connection, task: str, number: int, detection: Document) -> None:
    """Enter an event for each device whose loss was not believed."""
    for name in detection["set_aside"]:
        detail = f"a loss of {detection['losses'][name]:.4g}, far from all others'"
        note(tx, "loss set aside", device=name, task=task, number=number, detail=detail)


def note_verdict(tx: sa.Connection, task: str, number: int, detection: Document, limit: int) -> None:
    """Enter an alarm, count a verdict for each harmful device, and quarantine the devices that have too many.

    Parameters
    ----------
    tx
        The transaction that enters the verdict.
    task, number
        The round.
    detection
        What was found in all.
    limit
        Verdicts after which a device is quarantined; 0: never.
    """
    note(tx, "alarm", task=task, number=number, detail=detection["sentence"])
    for name in detection.get("bad", ()):
        row = devices.c.device == name
        tx.execute(sa.update(devices).where(row).values(harmful_count=devices.c.harmful_count + 1))
        value = detection["shapley"][name]["value"]
        about: Document = {"device": name, "task": task, "number": number}
        note(tx, "verdict", **about, detail=f"Shapley value {value:.4f} in round {detection['judged_round']}")
        verdicts = tx.execute(sa.select(devices.c.harmful_count).where(row)).scalar() or 0
        if is_barred(verdicts, limit):
            here = row & (devices.c.standing == "approved")
            tx.execute(sa.update(devices).where(here).values(standing="quarantined", reason=barred_for(verdicts)))
            note(tx, "quarantined", **about, who="policy", detail=barred_for(verdicts))


def is_barred(verdicts: int, limit: int) -> bool:
    """Whether a device that was harmful so often takes no more part; parameters as of `note_verdict`."""
    return bool(limit) and verdicts >= limit


def barred_for(verdicts: int) -> str:
    """Why it does not."""
    return f"harmful in {how_many(verdicts, 'round')}"
