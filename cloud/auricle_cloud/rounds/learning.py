"""Every ten rounds a sentence says whether they helped."""

from __future__ import annotations

import sqlalchemy as sa

from auricle_cloud.states.learning import EVERY_ROUNDS, FAR_ROUNDS, learnt
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.update_records import held_out


def note_learning(tx: sa.Connection, task: str, number: int) -> str | None:
    """Enter what the rounds up to this one brought, in the transaction that ends it; the sentence.

    None where it is not time to, or where fewer than two rounds brought a device's word of clips that it holds out.
    """
    if number % EVERY_ROUNDS:
        return None
    first = max(1, number - FAR_ROUNDS + 1)
    found = learnt(list(held_out(tx, task, first, number).values()))
    if found is None:
        return None
    sentence = found.sentence(f"rounds {first} to {number}")
    note(tx, "learning", task=task, number=number, detail=sentence)
    return sentence
