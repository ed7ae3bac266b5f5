"""Groups of emulated devices that are not like the others: their models, networks, rooms, habits and attacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from auricle.errors import SettingsError
from auricle.settings import CheckedMeta, from_mapping

Positive = Annotated[float, Meta(gt=0, le=1e9)]
Need = Literal["online", "charging", "idle"]
Attack = Literal[
    "label-flip",
    "backdoor",
    "sign-flip",
    "scale",
    "replace",
    "noise",
    "alie",
    "inner-product",
    "free-ride",
    "loss",
    "samples",
    "steps",
]
STRENGTHS: dict[str, float] = {
    "backdoor": 1.0,
    "sign-flip": 1.0,
    "scale": 10.0,
    "noise": 1.0,
    "inner-product": 1.1,
    "loss": 1e3,
    "samples": 1e3,
    "steps": 1e3,
}
"""What `Group.strength` is where it is left open; of `replace` and `alie` it follows from the number of devices."""
WEAK: tuple[Attack, ...] = ("label-flip", "free-ride")
"""Attacks that have no strength."""


class Network(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Table `network` of a group: what is between its devices and the broker."""

    latency: Annotated[float, Meta(ge=0, le=60, description="Seconds that everything takes, each way.")] = 0.0
    kilobits: Annotated[Positive | None, Meta(description="Thousand bits a second, each way [no limit].")] = None
    cut: Annotated[Positive | None, Meta(description="Seconds until a connection is cut, on average [never].")] = None

    @property
    def is_perfect(self) -> bool:
        """Whether it changes nothing."""
        return self == Network()


class Trace(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Table `trace` of a group: a recording of when devices were there, which its devices follow."""

    file: Annotated[str, Meta(min_length=1, max_length=4096, description="CSV, or JSON a line where it ends .jsonl.")]
    needs: Annotated[
        tuple[Need, ...], Meta(min_length=1, max_length=3, description="What a device has to be to take part [all].")
    ] = ("online", "charging", "idle")
    repeat: Annotated[
        Annotated[float, Meta(ge=1, le=1e9)] | None,
        Meta(description="Seconds after which it begins again [its last rows hold on]."),
    ] = None


class Group(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A table `[[groups]]`: so many devices that share what stands in it."""

    name: Annotated[str, Meta(min_length=1, max_length=40, description="Of the group, for the report.")]
    count: Annotated[int, Meta(ge=1, le=100_000, description="Devices in it, drawn by the seed.")] = 1
    local: Annotated[str | None, Meta(description="Their own model, as --local names one [that of --local].")] = None
    delay: Annotated[
        float, Meta(ge=0, le=1e6, description="Seconds that a round takes longer, half to one and a half times this.")
    ] = 0.0
    compute: Annotated[
        float,
        Meta(gt=0, le=1e6, description="How many times as long as --step-seconds a step of training takes."),
    ] = 1.0
    drop_out: Annotated[
        float, Meta(ge=0, le=1, description="Share of rounds that it takes on and never answers; 1: it is mute.")
    ] = 0.0
    noise_db: Annotated[
        Annotated[float, Meta(ge=-30, le=60)] | None,
        Meta(description="Decibels of its clips' words over the noise of a room [as they are]."),
    ] = None
    labelled_share: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Share of its clips with labels [--labelled-share]."),
    ] = None
    label_errors: Annotated[
        float, Meta(ge=0, le=1, description="Share of the clips that it trains on with another label than theirs.")
    ] = 0.0
    attack: Annotated[
        Attack | None,
        Meta(
            description="label-flip, backdoor, sign-flip, scale, replace, noise, alie, inner-product, free-ride, or "
            "what it lies about: loss, samples, steps [none]."
        ),
    ] = None
    strength: Annotated[Positive | None, Meta(description="Of the attack, see docs/emulation.md.")] = None
    attack_rounds: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=1_000_000)], ...],
        Meta(max_length=1000, description="Rounds in which it attacks; in others it is honest [all]."),
    ] = ()
    network: Network = Network()
    trace: Trace | None = None

    def __post_init__(self) -> None:
        """Refuse what the group's attack has no use for."""
        if self.strength is not None and (self.attack is None or self.attack in WEAK):
            raise SettingsError(f'The group "{self.name}" has a strength, and no attack that takes one.')
        if self.attack_rounds and self.attack in (None, "loss"):
            why = "no attack" if self.attack is None else "the attack loss, which is in every round"
            raise SettingsError(f'The group "{self.name}" has attack_rounds, and {why}: leave attack_rounds out.')
        if self.attack == "alie" and self.count < 2:
            raise SettingsError(
                f'The group "{self.name}" has the attack alie, which measures how far its own devices are apart: give '
                "it a count of at least 2."
            )

    def attacks_in(self, round_number: int) -> bool:
        """Whether it does what its attack says in a round."""
        return self.attack is not None and (not self.attack_rounds or round_number in self.attack_rounds)


def assigned(groups: Sequence[Group], devices: int, seed: int) -> list[Group | None]:
    """Which group each device is in, drawn by the seed; None: in none.

    Raises
    ------
    SettingsError
        There are fewer devices than the groups ask for.
    """
    require_room(groups, devices)
    found: list[Group | None] = [None] * devices
    places = iter(np.random.default_rng([seed, 23]).permutation(devices))
    for group in groups:
        for _ in range(group.count):
            found[next(places)] = group
    return found


def require_room(groups: Sequence[Group], devices: int) -> None:
    """SettingsError where the groups ask for more devices than there are."""
    wanted = sum(group.count for group in groups)
    if wanted > devices:
        raise SettingsError(f"The groups have {wanted} devices together, and this run has {devices}: raise --devices.")


def check_groups(groups: Sequence[Group]) -> None:
    """SettingsError for two groups of one name, or a value that a file could not have."""
    for group in groups:
        from_mapping(Group, msgspec.to_builtins(group), f'the group "{group.name}"')
    names = [group.name for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f'Two groups are called "{name}": give each a name of its own.')
