"""The clips that a device keeps: labelled sound on its own disk, which never leaves it."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_edge.clips.choice import ClipSettings
    from auricle_edge.clips.record import Clip, NewClip, Source
    from auricle_edge.clips.store import ClipStore, NoRoomError

__all__ = ["Clip", "ClipSettings", "ClipStore", "NewClip", "NoRoomError", "Source"]

if not TYPE_CHECKING:  # settings are read by commands that open no store
    __getattr__, __dir__ = promised(
        __name__,
        {
            "ClipSettings": "auricle_edge.clips.choice",
            **dict.fromkeys(("Clip", "NewClip", "Source"), "auricle_edge.clips.record"),
            **dict.fromkeys(("ClipStore", "NoRoomError"), "auricle_edge.clips.store"),
        },
    )
