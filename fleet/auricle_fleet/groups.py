"""Groups of emulated devices that are not like the others: their models, networks, rooms, habits and attacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from auricle.errors import SettingsError
from auricle.settings import from_mapping

Positive = Annotated[float, Meta(gt=0, le=1e9)]
Attack = Literal["label-flip", "sign-flip", "scale", "noise", "free-ride", "loss", "samples"]
STRENGTHS: dict[str, float] = {
    "label-flip": 1.0,
    "sign-flip": 1.0,
    "scale": 10.0,
    "noise": 1.0,
    "free-ride": 0.0,
    "loss": 1e3,
    "samples": 1e3,
}
"""What `Group.strength` is where it is left open."""


class Network(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `network` of a group: what is between its devices and the broker."""

    latency: Annotated[float, Meta(ge=0, le=60, description="Seconds that everything takes, each way.")] = 0.0
    kilobits: Annotated[Positive | None, Meta(description="Thousand bits a second, each way [no limit].")] = None
    cut: Annotated[Positive | None, Meta(description="Seconds until a connection is cut, on average [never].")] = None

    @property
    def is_perfect(self) -> bool:
        """Whether it changes nothing."""
        return self == Network()


class Group(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `[[groups]]`: so many devices that share what stands in it."""

    name: Annotated[str, Meta(min_length=1, max_length=40, description="Of the group, for the report.")]
    count: Annotated[int, Meta(ge=1, le=100_000, description="Devices in it, drawn by the seed.")] = 1
    local: Annotated[str | None, Meta(description="Their own model, as --local names one [that of --local].")] = None
    delay: Annotated[
        float, Meta(ge=0, le=1e6, description="Seconds that a round takes longer, half to one and a half times this.")
    ] = 0.0
    drop_out: Annotated[
        float, Meta(ge=0, le=1, description="Share of rounds that it takes on and never answers; 1: it is mute.")
    ] = 0.0
    noise_db: Annotated[
        Annotated[float, Meta(ge=-30, le=60)] | None,
        Meta(description="Decibels of its clips' words over the noise of a room [as they are]."),
    ] = None
    attack: Annotated[
        Attack | None,
        Meta(
            description="label-flip, sign-flip, scale, noise, free-ride, or what it lies about: loss, samples [none]."
        ),
    ] = None
    strength: Annotated[Positive | None, Meta(description="Of the attack, see docs/emulation.md.")] = None
    network: Network = Network()

    def __post_init__(self) -> None:
        """Refuse a strength of nothing."""
        if self.strength is not None and self.attack in (None, "label-flip", "free-ride"):
            raise SettingsError(f'The group "{self.name}" has a strength, and no attack that takes one.')

    @property
    def force(self) -> float:
        """The strength of the attack."""
        return self.strength if self.strength is not None else STRENGTHS.get(self.attack or "", 0.0)


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
