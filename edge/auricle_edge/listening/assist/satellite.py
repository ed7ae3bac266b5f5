"""The satellite as an output of the device: wake words begin runs, commands that the device knows end them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from aioesphomeapi import api_pb2 as pb
from aioesphomeapi.model import VoiceAssistantFeature, VoiceAssistantTimerEventType
from google.protobuf.message import Message

from auricle import __version__
from auricle.mqtt_link.private_link import is_loopback
from auricle.mqtt_link.tasks import start_task
from auricle_edge.listening.assist.announcer import Announcer
from auricle_edge.listening.assist.badge import Badge
from auricle_edge.listening.assist.choices import OwnerChoices
from auricle_edge.listening.assist.connection import HomeConnection
from auricle_edge.listening.assist.conversation import Conversation
from auricle_edge.listening.assist.entities import COMMANDS, Controls, Entities
from auricle_edge.listening.assist.mdns import MdnsService
from auricle_edge.listening.assist.player import Player
from auricle_edge.listening.assist.server import AssistServer
from auricle_edge.listening.assist.settings import AssistSettings, noise_key
from auricle_edge.listening.assist.state_hook import AssistState, StateHook
from auricle_edge.listening.assist.stream import Recent, SoundStream, first_sample
from auricle_edge.listening.events.outputs import tcp_place
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.listening_thread import AudioBroadcast
from auricle_edge.listening.sound import Detection, Event

log = logging.getLogger("auricle.events")

MOST_TEXTS = 32
"""Names and values of an event that are looked at."""


@dataclass(frozen=True)
class DeviceEars:
    """What the satellite has of the device that listens."""

    name: str
    model: str
    """Name of its pack."""
    wake: Sequence[str]
    """Its wake words."""
    recent: Recent
    taps: AudioBroadcast
    capture: Callable[[], CaptureState]
    folder: Path
    """Its state folder."""
    mute: Callable[[bool], object]
    """Closes or opens the microphone; from a thread of its own."""


class Satellite:
    """An output that is a satellite of Home Assistant's assistant.

    Parameters
    ----------
    settings
        With an address.
    ears
        Sound and microphone.
    """

    name = "assist"

    def __init__(self, settings: AssistSettings, ears: DeviceEars) -> None:
        assert settings.listen is not None
        self._settings, self._ears = settings, ears
        host, port = tcp_place(settings.listen, "assist.listen", 6053)
        self._badge, key = Badge(ears.name), noise_key(settings)
        self._encrypted = key is not None
        self._server = AssistServer(host, port, self._badge, key, self._take, self._leave)
        self._host = host
        self._choices = OwnerChoices(ears.folder)
        volume = self._choices.now.volume
        self._player = Player(settings.player, settings.volume if volume is None else volume)
        self._hook = StateHook(settings.hook, settings.hook_seconds, ears.name)
        stream = SoundStream(ears.taps, ears.recent)
        self._conversation = Conversation(settings, stream, self._player, self._on_state)
        self._announcer = Announcer(self._conversation, self._player, self._tell_states)
        self._entities = Entities(self._controls(), speaks=not self._player.silent)
        self._mdns: MdnsService | None = None
        self._work: set[asyncio.Task[object]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def port(self) -> int:
        """Where it listens, also when it was asked for any free port (0)."""
        return self._server.port

    @property
    def state(self) -> AssistState:
        """What it does."""
        return self._conversation.state

    async def open(self) -> None:
        """Listen; SettingsError when the address cannot be had."""
        self._loop = asyncio.get_running_loop()
        if not self._ears.wake:
            log.warning("No wake word is set (wake in [detect]): only Home Assistant's button begins a conversation.")
        self._hook.open()
        await self._server.open()
        if self._settings.discovery and not is_loopback(self._host):
            self._mdns = MdnsService(self._badge, self._host, self.port, self._ears.model, encrypted=self._encrypted)
            self._mdns.open()
        self._microphone(self._ears.capture())

    async def deliver(self, event: Event) -> None:
        """Begin a run with a wake word, and end it with a command of the device's own."""
        if not isinstance(event, Detection):
            return
        if event.kind == "wake" and event.word not in self._choices.now.off:
            self._conversation.begin(first_sample(event, self._settings.pre_roll), event.word, event.id)
        elif event.kind == "detection":
            self._conversation.device_command(event.word, event.wake)

    async def close(self) -> None:
        """Hang up."""
        self._conversation.close()
        if self._mdns is not None:
            await self._mdns.close()
        await self._server.close()
        await self._hook.close()
        await self._choices.close()

    def on_capture(self, state: CaptureState) -> None:
        """The microphone was closed, opened or lost; from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._microphone, state)

    def _microphone(self, state: CaptureState) -> None:
        self._conversation.microphone(muted=state.muted, running=state.running)
        self._tell_states()

    # -- what others see

    def _controls(self) -> Controls:
        conversation, player, announcer = self._conversation, self._player, self._announcer

        def turn(volume: float) -> None:
            player.volume = volume
            self._choices.change(volume=volume)
            self._tell_states()

        def silence(on: bool) -> None:
            player.muted = on
            self._tell_states()

        return Controls(
            muted=lambda: self._ears.capture().muted,
            volume=lambda: player.volume,
            silenced=lambda: player.muted,
            playing=lambda: announcer.music or conversation.state in ("answering", "timer"),
            mute=self._mute,
            start=lambda: conversation.begin(None, ""),
            set_volume=turn,
            silence=silence,
            stop=conversation.stop,
        )

    def _mute(self, on: bool) -> None:
        work = start_task(asyncio.to_thread(self._ears.mute, on), log, "The mute switch")
        self._work.add(work)
        work.add_done_callback(self._work.discard)

    def _on_state(self, state: AssistState) -> None:
        self._hook.say(state)
        self._tell_states()

    def _tell_states(self) -> None:
        for client in self._server:
            if client.wants_states:
                client.send(*self._entities.states())

    # -- what Home Assistant says

    def _leave(self, client: HomeConnection) -> None:
        self._conversation.lose(client)

    def _take(self, client: HomeConnection, message: Message) -> None:
        answer = self._ANSWERS.get(type(message))
        if answer is not None:
            answer(self, client, message)

    def _tell_device(self, client: HomeConnection, _: Message) -> None:
        features = VoiceAssistantFeature.VOICE_ASSISTANT | VoiceAssistantFeature.API_AUDIO
        if not self._player.silent:
            features |= VoiceAssistantFeature.ANNOUNCE | VoiceAssistantFeature.START_CONVERSATION
            features |= VoiceAssistantFeature.TIMERS
        client.send(
            pb.DeviceInfoResponse(
                name=self._badge.name,
                friendly_name=self._badge.device,
                mac_address=self._badge.mac,
                esphome_version=__version__,
                project_name=f"Auricle.{self._ears.model}",
                project_version=__version__,
                manufacturer="Auricle",
                model=self._ears.model,
                voice_assistant_feature_flags=features,
                api_encryption_supported=self._encrypted,
            )
        )

    def _list_entities(self, client: HomeConnection, _: Message) -> None:
        client.send(*self._entities.listing())

    def _subscribe_states(self, client: HomeConnection, _: Message) -> None:
        client.wants_states = True
        client.send(*self._entities.states())

    def _subscribe_assistant(self, client: HomeConnection, message: pb.SubscribeVoiceAssistantRequest) -> None:
        before = self._conversation.assistant
        if not message.subscribe:
            if before is client:
                self._conversation.lose(client)
            return
        if before is not None and before is not client:
            log.warning(
                "Home Assistant at %s asks for the sound after a wake word, and gets it from now on; the one at %s, "
                "which is connected too, does not any more.",
                client.address,
                before.address,
            )
        self._conversation.assistant = client
        log.info("Home Assistant at %s is the assistant.", client.address)

    def _tell_words(self, client: HomeConnection, _: Message) -> None:
        words = [pb.VoiceAssistantWakeWord(id=word, wake_word=word) for word in self._ears.wake]
        active = [word for word in self._ears.wake if word not in self._choices.now.off]
        client.send(
            pb.VoiceAssistantConfigurationResponse(
                available_wake_words=words, active_wake_words=active, max_active_wake_words=max(1, len(words))
            )
        )

    def _choose_words(self, _: HomeConnection, message: pb.VoiceAssistantSetConfiguration) -> None:
        active = frozenset(message.active_wake_words)
        self._choices.change(off=tuple(word for word in self._ears.wake if word not in active))

    def _event(self, client: HomeConnection, message: pb.VoiceAssistantEventResponse) -> None:
        data = {each.name: each.value for each in message.data[:MOST_TEXTS]}
        self._conversation.event(client, message.event_type, data)

    def _response(self, client: HomeConnection, message: pb.VoiceAssistantResponse) -> None:
        if message.error:
            self._conversation.refuse(client)

    def _announce(self, client: HomeConnection, message: pb.VoiceAssistantAnnounceRequest) -> None:
        urls = [url for url in (message.preannounce_media_id, message.media_id) if url]
        self._announcer.announce(client, urls, listen=message.start_conversation)

    def _timer(self, _: HomeConnection, message: pb.VoiceAssistantTimerEventResponse) -> None:
        if message.event_type == VoiceAssistantTimerEventType.VOICE_ASSISTANT_TIMER_FINISHED:
            self._announcer.ring()

    def _command(self, client: HomeConnection, message: Message) -> None:
        def play(url: str, announcement: bool) -> None:
            if announcement:
                self._announcer.announce(client, [url], tell=False)
            else:
                self._announcer.play(client, url)

        self._entities.command(message, play)

    _ANSWERS: ClassVar[Mapping[type[Message], Callable[[Satellite, HomeConnection, Message], None]]] = {
        pb.DeviceInfoRequest: _tell_device,
        pb.ListEntitiesRequest: _list_entities,
        pb.SubscribeStatesRequest: _subscribe_states,
        pb.SubscribeVoiceAssistantRequest: _subscribe_assistant,
        pb.VoiceAssistantConfigurationRequest: _tell_words,
        pb.VoiceAssistantSetConfiguration: _choose_words,
        pb.VoiceAssistantEventResponse: _event,
        pb.VoiceAssistantResponse: _response,
        pb.VoiceAssistantAnnounceRequest: _announce,
        pb.VoiceAssistantTimerEventResponse: _timer,
        **dict.fromkeys(COMMANDS, _command),
    }
