"""Which devices of a run attack, and in which rounds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from auricle_fleet.settings.groups import Group


class Attackers(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a group that attacks."""

    group: str
    devices: tuple[str, ...]
    rounds: tuple[int, ...] = ()
    """In which they attack; empty: in all."""

    def attack_in(self, number: int) -> bool:
        """Whether they attack in a round."""
        return not self.rounds or number in self.rounds


def attackers(names: Sequence[str], groups: Sequence[Group | None]) -> tuple[Attackers, ...]:
    """The devices (N,) of a run that attack, by their groups (N,), in the order of the devices."""
    found: dict[Group, list[str]] = {}
    for name, group in zip(names, groups, strict=True):
        if group is not None and group.attack is not None:
            found.setdefault(group, []).append(name)
    return tuple(
        Attackers(group=group.name, devices=tuple(devices), rounds=group.attack_rounds)
        for group, devices in found.items()
    )
