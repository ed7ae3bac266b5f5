"""What becomes of a device in a round: one table, of which answers, sentences, tables and the page's words are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal[
    "not_invited", "silent", "failed", "declined", "late", "refused", "dropped", "counted", "left_out", "elsewhere"
]
"""What became of a device in a round. `dropped`: weights not finite; `left_out`: the rule gave its update the weight 0
in every layer; `elsewhere`: its update went into a later round."""
Tone = Literal["good", "bad", "wait", "idle", "busy"]
"""The colour of a badge."""


@dataclass(frozen=True)
class OutcomeKind:
    """One of them."""

    sentence: str
    """Of a device: `device` in round `round`, and `why`."""
    sign: str
    """On its badge, beside its name: colour never tells alone."""
    tone: Tone
    counts: bool = False
    """Whether its update is in the round's model."""
    state: str | None = None
    """Of the invitation; None where that does not tell it."""
    missing: bool = False
    """Whether the device neither counted nor said why not."""
    gave_up: bool = False
    """Whether it put an end to its invitation itself."""
    against: bool = False
    """Whether that speaks against it, whatever became of the round."""
    named: str = ""
    """What a round says before the names of these devices; empty where it names none."""
    event: str = ""
    """What is noted of a device of which that is so in rounds running; empty: nothing."""


OUTCOMES: Mapping[Outcome, OutcomeKind] = {
    "counted": OutcomeKind("{device} counted in round {round} with {why}", "✓", "good", counts=True),
    "left_out": OutcomeKind(
        "{device} was left out by the rule in round {round} with {why}", "–", "wait", event="left out"
    ),
    "silent": OutcomeKind(
        "{device} was invited to round {round}, and no update of it arrived {why}.",
        "○",
        "wait",
        state="invited",
        missing=True,
        named="Nothing arrived from",
        event="too slow",
    ),
    "failed": OutcomeKind(
        "{device} was invited to round {round} and failed: {why}",
        "✕",
        "bad",
        state="failed",
        gave_up=True,
        against=True,
        named="Failed or declined",
        event="not in quorum",
    ),
    "declined": OutcomeKind(
        "{device} declined round {round}: {why}",
        "○",
        "idle",
        state="declined",
        gave_up=True,
        named="Failed or declined",
    ),
    "late": OutcomeKind(
        "{device} sent its update after round {round} had closed.",
        "○",
        "wait",
        state="late",
        missing=True,
        named="Refused or late",
        event="too slow",
    ),
    "refused": OutcomeKind(
        "{device} sent an update to round {round} that was refused: {why}",
        "✕",
        "bad",
        state="refused",
        against=True,
        named="Refused or late",
        event="not in quorum",
    ),
    "dropped": OutcomeKind(
        "{device} sent an update to round {round} that was left out: some of its weights are not finite.",
        "✕",
        "bad",
        named="Left out because some weights are not finite",
    ),
    "elsewhere": OutcomeKind(
        "{device} was invited to round {round}, and its update went into round {why}.", "✓", "good", counts=True
    ),
    "not_invited": OutcomeKind("{device} was not invited to round {round}.{why}", "•", "idle"),
}
"""In the order in which they are offered to choose from."""


def states_of(which: Literal["missing", "gave_up", "against"]) -> tuple[str, ...]:
    """States of the invitations of which this is so."""
    return tuple(about.state for about in OUTCOMES.values() if about.state is not None and getattr(about, which))


def sentence_of(outcome: Outcome, device: str, number: int, why: object = "") -> str:
    """The sentence about a device in a round; `why` as the outcome's sentence has it."""
    return OUTCOMES[outcome].sentence.format(device=device, round=number, why=why)
