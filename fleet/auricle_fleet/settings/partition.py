"""Table `partition` of a run's file: who of the devices has which clips."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from auricle.errors import SettingsError
from auricle.settings import CheckedMeta

Kind = Literal["speaker", "split", "dirichlet", "labels", "voices"]
Tail = Literal["fleet", "device"]
DEALT_AFRESH = ("dirichlet", "labels")
"""Kinds that deal all clips out, whoever said them."""


class Fresh(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `fresh` of a partition: labels that devices begin to have only after some rounds."""

    labels: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | None,
        Meta(description="How many of its own, drawn for each device; one stays."),
    ] = None
    share: Annotated[
        Annotated[float, Meta(gt=0, lt=1)] | None,
        Meta(description="Or that share of all labels, the last of --words, on all devices, dealt out apart."),
    ] = None
    round: Annotated[int, Meta(ge=2, le=1_000_000, description="The first round in which it has the first of them.")]
    every: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Rounds between one of them and the next; 0: all come at once.")
    ] = 0

    def __post_init__(self) -> None:
        """Refuse both ways to say which, and none."""
        if (self.labels is None) == (self.share is None):
            raise SettingsError("Labels come late by number on each device or as a share of all: say labels or share.")

    def late_labels(self, labels: int) -> int:
        """How many of all labels are fresh on every device: the share to the nearest, at least one, and one stays."""
        return 0 if self.share is None else min(labels - 1, max(1, round(self.share * labels)))


class Partition(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the clips of the speakers that may be devices are dealt out; those held out are dealt to nobody."""

    kind: Annotated[
        Kind,
        Meta(
            description="speaker: a speaker is a device; split: speakers are divided among --devices; dirichlet: every "
            "device has a share of each label, drawn by alpha; labels: every device has so many labels; voices: "
            "devices beyond the speakers are speakers with another voice, drawn by warp."
        ),
    ] = "speaker"
    alpha: Annotated[
        float, Meta(gt=0, le=1e4, description="Of dirichlet: the smaller, the fewer labels a device has.")
    ] = 0.5
    labels: Annotated[int, Meta(ge=1, le=100, description="Of labels: how many each device has.")] = 2
    sigma: Annotated[
        float,
        Meta(
            ge=0,
            le=10,
            description="Of labels: standard deviation of a label's clips on a device, in multiples of their mean.",
        ),
    ] = 0.0
    clips: Annotated[
        int, Meta(ge=5, le=10_000, description="Of voices: how many each device has at most, drawn of its speaker's.")
    ] = 16
    warp: Annotated[
        float,
        Meta(ge=0, le=0.5, description="Of voices: by how much of itself the mel axis is stretched or shrunk at most."),
    ] = 0.15
    imbalance: Annotated[
        float,
        Meta(ge=1, le=1e4, description="So many times the clips of the last label has the first; 1: as they are."),
    ] = 1.0
    tail: Annotated[
        Tail,
        Meta(
            description="Of imbalance: fleet: over all devices together, labels in their order; device: on each "
            "device, labels in an order drawn for it."
        ),
    ] = "fleet"
    fresh: Fresh | None = None

    def __post_init__(self) -> None:
        """Refuse what this kind has no use for."""
        usual = {"alpha": 0.5, "labels": 2, "sigma": 0.0, "clips": 16, "warp": 0.15}
        used = {"dirichlet": {"alpha"}, "labels": {"labels", "sigma"}, "voices": {"clips", "warp"}}.get(
            self.kind, set()
        )
        for name in usual.keys() - used:
            if getattr(self, name) != usual[name]:
                raise SettingsError(f"The partition {self.kind} has no {name}: leave it out.")
        if self.fresh is not None and self.fresh.share is not None and self.kind not in DEALT_AFRESH:
            raise SettingsError(
                f"A share of fresh labels is dealt out apart, and the partition {self.kind} deals none out: say "
                "labels of fresh, or the kind dirichlet or labels."
            )
        if self.tail == "device" and self.imbalance == 1:
            raise SettingsError("A long tail of each device needs an imbalance above 1: add it, or leave tail out.")

    @property
    def deals(self) -> bool:
        """Whether a device has something else than all of one speaker's clips."""
        return self.kind != "speaker"
