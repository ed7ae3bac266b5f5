"""What Home Assistant shows of the satellite beside its assistant: a media player, a mute switch, a start button."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from aioesphomeapi import api_pb2 as pb
from aioesphomeapi.model import (
    MediaPlayerCommand,
    MediaPlayerEntityFeature,
    MediaPlayerFormatPurpose,
    MediaPlayerState,
)
from google.protobuf.message import Message

from auricle_edge.listening.sound import RATE

PLAYER, MUTE, START = 1, 2, 3
"""Keys of the entities."""
VOLUME_STEP = 0.1
"""Of the volume, at one press."""
FEATURES = (
    MediaPlayerEntityFeature.VOLUME_SET
    | MediaPlayerEntityFeature.VOLUME_STEP
    | MediaPlayerEntityFeature.VOLUME_MUTE
    | MediaPlayerEntityFeature.PLAY_MEDIA
    | MediaPlayerEntityFeature.BROWSE_MEDIA
    | MediaPlayerEntityFeature.MEDIA_ANNOUNCE
    | MediaPlayerEntityFeature.STOP
)
COMMANDS = (pb.MediaPlayerCommandRequest, pb.SwitchCommandRequest, pb.ButtonCommandRequest)


@dataclass(frozen=True)
class Controls:
    """What the entities do, and show."""

    muted: Callable[[], bool]
    """Whether the microphone is closed."""
    volume: Callable[[], float]
    silenced: Callable[[], bool]
    """Whether the loudspeaker is silenced."""
    playing: Callable[[], bool]
    """Whether something is played; Home Assistant has no state of its own for announcements."""
    mute: Callable[[bool], None]
    start: Callable[[], None]
    """Listen without a wake word."""
    set_volume: Callable[[float], None]
    silence: Callable[[bool], None]
    stop: Callable[[], None]


class Entities:
    """The entities of a satellite.

    Parameters
    ----------
    controls
        What they do.
    speaks
        Whether there is a loudspeaker; without one there is no media player.
    """

    def __init__(self, controls: Controls, *, speaks: bool) -> None:
        self._controls, self._speaks = controls, speaks

    def listing(self) -> list[Message]:
        """The answer to who asks for them."""
        forms = [
            pb.MediaPlayerSupportedFormat(format="wav", sample_rate=RATE, num_channels=1, purpose=each, sample_bytes=2)
            for each in (MediaPlayerFormatPurpose.DEFAULT, MediaPlayerFormatPurpose.ANNOUNCEMENT)
        ]
        player = pb.ListEntitiesMediaPlayerResponse(
            object_id="loudspeaker", key=PLAYER, name="Loudspeaker", supported_formats=forms, feature_flags=FEATURES
        )
        mute = pb.ListEntitiesSwitchResponse(object_id="mute", key=MUTE, name="Mute", icon="mdi:microphone-off")
        start = pb.ListEntitiesButtonResponse(
            object_id="start", key=START, name="Listen now", icon="mdi:microphone-message"
        )
        return [*([player] if self._speaks else []), mute, start, pb.ListEntitiesDoneResponse()]

    def states(self) -> list[Message]:
        """How they are now."""
        mute = pb.SwitchStateResponse(key=MUTE, state=self._controls.muted())
        if not self._speaks:
            return [mute]
        player = pb.MediaPlayerStateResponse(
            key=PLAYER,
            state=MediaPlayerState.PLAYING if self._controls.playing() else MediaPlayerState.IDLE,
            volume=self._controls.volume(),
            muted=self._controls.silenced(),
        )
        return [player, mute]

    def command(self, message: Message, play: Callable[[str, bool], None]) -> None:
        """Do what somebody asks of one of them; what is not known is passed over.

        Parameters
        ----------
        play
            Plays for who asks what a URL has, as an announcement or not.
        """
        if isinstance(message, pb.SwitchCommandRequest) and message.key == MUTE:
            self._controls.mute(message.state)
        elif isinstance(message, pb.ButtonCommandRequest) and message.key == START:
            self._controls.start()
        elif isinstance(message, pb.MediaPlayerCommandRequest) and message.key == PLAYER and self._speaks:
            self._command_player(message, play)

    def _command_player(self, message: pb.MediaPlayerCommandRequest, play: Callable[[str, bool], None]) -> None:
        controls = self._controls
        if message.has_volume:
            self._turn(message.volume)
        if message.has_media_url:
            play(message.media_url, message.has_announcement and message.announcement)
        elif message.has_command:
            known: dict[int, Callable[[], None]] = {
                MediaPlayerCommand.STOP: controls.stop,
                MediaPlayerCommand.PAUSE: controls.stop,
                MediaPlayerCommand.MUTE: lambda: controls.silence(True),
                MediaPlayerCommand.UNMUTE: lambda: controls.silence(False),
                MediaPlayerCommand.VOLUME_UP: lambda: self._turn(controls.volume() + VOLUME_STEP),
                MediaPlayerCommand.VOLUME_DOWN: lambda: self._turn(controls.volume() - VOLUME_STEP),
            }
            known.get(message.command, lambda: None)()

    def _turn(self, volume: float) -> None:
        if math.isfinite(volume):
            self._controls.set_volume(min(1.0, max(0.0, volume)))
