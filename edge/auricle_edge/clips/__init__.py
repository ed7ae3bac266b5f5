"""The clips that a device keeps: labelled sound on its own disk, which never leaves it."""

from auricle_edge.clips.choice import ClipSettings
from auricle_edge.clips.record import Clip, NewClip, Source
from auricle_edge.clips.store import ClipStore, NoRoomError

__all__ = ["Clip", "ClipSettings", "ClipStore", "NewClip", "NoRoomError", "Source"]
