"""Which of a pack's models is the device's own: the one that never leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

if TYPE_CHECKING:
    from auricle.packs.pack import Pack


LARGER = ("crnn-base", "resnet-base")
"""The larger models of the shipped packs; the first of them that a pack has is taken, where it names no other."""

WHEEL_NAMES = {"crnn-bi64": "crnn-base", "crnn-bi64-deep": "crnn-deep"}
"""What the wheel's packs call two CRNNs whose names there are others' in packs that are built now."""
_OF_HIDDEN, _HIDDEN = "gru.weight_hh_l0", 64
"""The tensor whose last axis is a GRU's hidden units, and how many those two have: the others have 128."""


def name_in(pack: Pack, asked: str) -> str:
    """The name that a pack has for a model; a name that it does not know is returned as it is."""
    earlier = WHEEL_NAMES.get(asked, asked)
    if asked in pack.tables or earlier not in pack.tables:
        return asked
    hidden = next((spec.shape[-1] for spec in pack.table(earlier).specs if spec.name == _OF_HIDDEN), None)
    return earlier if hidden == _HIDDEN else asked


def own_model(pack: Pack, asked: str | None = None, start: str | None = None) -> str:
    """Name of the device's own model.

    A model without trained weights would begin as noise. Beside a plug-in that comes trained it would teach noise: in
    mutual learning the plug-in follows it, and what the fleet gets from the device is worse than what it sent. So the
    plug-in's architecture is taken as long as the pack trains only that.

    Parameters
    ----------
    pack
        What the device runs.
    asked
        The model that its settings name; None: the second stage that the pack names, else its larger model, or its
        plug-in where it has no such model.
    start
        `--start` of the settings: with `scratch` every model begins as noise, and what was asked for is taken.

    Raises
    ------
    PackError
        The pack has no model of the name that was asked for; with a hint.
    """
    wanted = _model_name(pack, asked)
    return pack.manifest.plugin if _would_teach_noise(pack, wanted, start) else wanted


def why_not_larger(pack: Pack, asked: str | None = None, start: str | None = None) -> str | None:
    """Say why the device's own model is not the larger one, for its owner; None where it is what was wanted.

    Parameters
    ----------
    pack, asked, start
        As in `own_model`, and its errors.
    """
    wanted = _model_name(pack, asked)
    if not _would_teach_noise(pack, wanted, start):
        return None
    return (
        f"The device's own model is {pack.manifest.plugin}: the pack {pack.manifest.name} has no trained weights of "
        f"{wanted} yet, and noise would spoil what the device and its fleet learn."
    )


def _model_name(pack: Pack, asked: str | None) -> str:
    if asked is not None:
        named = name_in(pack, asked)
        pack.table(named)
        return named
    if pack.listening is not None and pack.listening.second_stage is not UNSET:
        return pack.listening.second_stage
    return next((name for name in LARGER if name in pack.tables), pack.manifest.plugin)


def _would_teach_noise(pack: Pack, model: str, start: str | None) -> bool:
    trained = pack.manifest.start
    return start != "scratch" and pack.manifest.plugin in trained and model not in trained
