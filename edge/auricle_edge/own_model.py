"""Which of a pack's models is the device's own: the one that never leaves it."""

from __future__ import annotations

from auricle.pack import Pack

LARGER = ("crnn-base", "resnet-base")
"""The larger models of the shipped packs; the first of them that a pack has is taken."""


def own_model(pack: Pack, asked: str | None = None) -> str:
    """Name of the device's own model.

    Parameters
    ----------
    pack
        What the device runs.
    asked
        The model that its settings name; None: the pack's larger model, or its plug-in where it has no such model.

    Raises
    ------
    PackError
        The pack has no model of the name that was asked for; with a hint.
    """
    if asked is not None:
        pack.table(asked)
        return asked
    return next((name for name in LARGER if name in pack.tables), pack.manifest.plugin)
