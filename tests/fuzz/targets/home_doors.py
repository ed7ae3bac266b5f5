"""What a home says to its devices: the assistant, other devices' bids, Home Assistant's buttons, the hub they join."""

from __future__ import annotations

import asyncio
import importlib.util
import io
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec

from auricle.errors import AuricleError, DataError, StorageError, WireError
from auricle.mqtt_link.settings import Delivery
from auricle.wire.join_codes import read_code, show_code
from auricle.wire.joining import CodeKeys, Grant, Join, is_proof, proof_of, seal, unseal
from auricle.wire.kinds import UNDECODABLE
from auricle_cloud.identity.joining import FILE as CODE_FILE
from auricle_cloud.identity.joining import JoinCodes, KeptCode
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.listening.events import bids
from auricle_edge.listening.events.announced import FILE as ANNOUNCED_FILE
from auricle_edge.listening.events.announced import Announced
from auricle_edge.listening.events.home_assistant import Topics
from auricle_edge.listening.events.presence import Presence
from auricle_edge.listening.events.sparse_log import SparseLog
from auricle_edge.listening.own_thresholds import FILE as THRESHOLDS_FILE
from auricle_edge.listening.own_thresholds import OwnThresholds
from tests.fuzz.scratch import scratch, written
from tests.fuzz.target import target
from tests.fuzz.targets.device_doors import _Writer, quiet_loop

KEYS = CodeKeys(bytes(32), bytes(range(32)))
KEY = b"key of this home"
HEX = "0123456789ab"


def _bids() -> dict[str, bytes]:
    made = (bids.Bid("kitchen", "yes", HEX, 12.5), bids.Close("kitchen", "yes", HEX), bids.Answer("hall", "yes", HEX))
    plain = {type(each).__name__.lower(): bids.encode(each, None) for each in made}
    return plain | {f"signed-{type(each).__name__.lower()}": bids.encode(each, KEY) for each in made}


@target("bids", "auricle_edge.listening.events.bids", examples=_bids, form="json", refusals=(DataError, *UNDECODABLE))
def devices_bids(data: bytes) -> object:
    """What devices of a home say to settle who answers, in a home with a key and in one without."""
    for key in (KEY, None):
        try:
            message = bids.decode(data, key)
        except (DataError, *UNDECODABLE):
            if key is None:
                raise
            continue
        if isinstance(message, bids.Bid):
            return bids.Answerers().first([message, bids.Bid("hall", "no", HEX, 1.0)]).device == "hall"
        return type(message).__name__
    return None


@target(
    "join",
    "auricle.wire.joining",
    examples=lambda: {"asked": msgspec.json.encode(Join(salt="0" * 32, proof=proof_of(KEYS, "hall"), device="hall"))},
    form="json",
    refusals=UNDECODABLE,
)
def join(data: bytes) -> object:
    """Who asks a hub for a token shows that the code is known, or is refused."""
    return is_proof(KEYS, msgspec.json.decode(data, type=Join))


@target(
    "join-answer",
    "auricle.wire.joining",
    examples=lambda: {"grant": msgspec.json.encode(Grant(token="A" * 43, device="hall"))},  # type: ignore[arg-type]
    form="json",
    refusals=(DataError,),
)
def join_answer(data: bytes) -> object:
    """What a hub that knows the code grants, under its key: a token and a name, whatever else is in it."""
    made = seal(KEYS, msgspec.Raw(data or b"null"))  # type: ignore[arg-type]
    return unseal(KEYS, made).device


@target("join-code", "auricle.wire.join_codes", examples=lambda: {"code": show_code("K7QM4T2X").encode()}, form="text")
def join_code(data: bytes) -> object:
    """A hub's code as somebody types it."""
    return len(read_code(data.decode("utf-8", "replace")))


@target(
    "kept-code",
    "auricle_cloud.identity.joining",
    examples=lambda: {"code": msgspec.json.encode(KeptCode(code="K7QM4T2X", expires=2e9, salts=["0" * 32]))},
    form="json",
    refusals=(StorageError,),
)
def kept_code(data: bytes) -> object:
    """A hub's code as it is kept."""
    written(data, CODE_FILE)
    return JoinCodes(scratch(), "ab" * 32, lambda: 1e9).current() is None


@target(
    "announced",
    "auricle_edge.listening.events.announced",
    examples=lambda: {"topics": b'{"hub.lan:1883": ["homeassistant/sensor/a/config", "auricle/kitchen/state"]}'},
    form="json",
    refusals=(),
)
def announced(data: bytes) -> object:
    """What a device left at its broker: a damaged file is as good as none."""
    written(data, ANNOUNCED_FILE)
    return len(Announced(scratch(), "hub.lan:1883")._read())


@target(
    "own-thresholds",
    "auricle_edge.listening.own_thresholds",
    examples=lambda: {"yes": b'{"yes": {"threshold": 0.7, "over": 0.8}}'},
    form="json",
    refusals=(StorageError,),
)
def own_thresholds(data: bytes) -> object:
    """Thresholds that the owner has set."""
    written(data, THRESHOLDS_FILE)
    found = OwnThresholds(scratch(), DetectSettings(threshold=0.8), ("yes", "no")).of(DetectSettings(threshold=0.8))
    assert all(0 < each < 1 for each in found.values())
    return found["yes"] == 0.8


@cache
def _presence() -> tuple[Presence, list[object]]:
    done: list[object] = []

    async def install() -> None:
        done.append("install")

    device: Any = SimpleNamespace(
        state=lambda: SimpleNamespace(thresholds={"yes": 0.5, "für": 0.5}),
        mute=done.append,
        set_threshold=lambda word, threshold: done.append((word, threshold)),
        install=install,
    )
    return Presence("homeassistant", Topics("auricle/kitchen"), device), done


TOPICS = Topics("auricle/kitchen")


@target(
    "home-buttons",
    "auricle_edge.listening.events.presence",
    examples=lambda: {
        "mute": f"{TOPICS.mute}\nON".encode(),
        "threshold": f"{TOPICS.threshold('yes')}\n0.75".encode(),
        "install": f"{TOPICS.install}\nINSTALL".encode(),
        "born": b"homeassistant/status\nonline",
    },
    refusals=(),
    tokens=(b"ON", b"OFF", b"INSTALL", b"online", b"0.5", b"nan", TOPICS.threshold("yes").encode()),
)
def home_buttons(data: bytes) -> object:
    """What anybody publishes for a device's buttons, after a line with its topic: done within limits, or left."""
    presence, done = _presence()
    presence._sparse = SparseLog(presence._sparse._log)
    topic, _, payload = data.partition(b"\n")
    told = topic.decode("utf-8", "replace")
    handlers = presence.handlers
    handler = handlers.get(told, handlers[TOPICS.threshold("+")])

    async def hear() -> None:
        await handler(Delivery(told, payload, 1, False, False, 1, 1))
        await asyncio.gather(*presence._begun)

    done.clear()
    quiet_loop().run_until_complete(hear())
    for each in done:
        assert each in (True, False, "install") or (isinstance(each, tuple) and 0 < each[1] < 1), each
    return len(done)


if importlib.util.find_spec("aioesphomeapi") is not None:  # the extra assist
    from aioesphomeapi import api_pb2 as pb

    from auricle_edge.listening.assist.answer_source import AnswerOrigin, AnswerSource, _connection
    from auricle_edge.listening.assist.choices import FILE as CHOICES_FILE
    from auricle_edge.listening.assist.choices import OwnerChoices
    from auricle_edge.listening.assist.connection import TYPES, HomeConnection
    from auricle_edge.listening.assist.frames import NoiseFrames, PlainFrames
    from tests.edge.assist_home import wav

    HELLO = pb.HelloRequest(client_info="ha", api_version_major=1, api_version_minor=10)
    SAID = (
        (pb.AuthenticationRequest(), pb.DeviceInfoRequest(), pb.ListEntitiesRequest(), pb.SubscribeStatesRequest()),
        (pb.SubscribeVoiceAssistantRequest(subscribe=True), pb.VoiceAssistantConfigurationRequest()),
        (
            pb.VoiceAssistantEventResponse(
                event_type=5, data=[pb.VoiceAssistantEventData(name="url", value="http://hub/a.wav")]
            ),
            pb.VoiceAssistantResponse(port=0, error=False),
        ),
        (
            pb.VoiceAssistantSetConfiguration(active_wake_words=["computer"]),
            pb.VoiceAssistantAnnounceRequest(media_id="http://hub/b.wav", text="Dinner"),
            pb.MediaPlayerCommandRequest(key=1, volume=0.5, has_volume=True),
        ),
        (pb.PingRequest(), pb.DisconnectRequest()),
    )

    SOCKET = SimpleNamespace(setsockopt=lambda *_: None)

    class _Client(_Writer):
        """A client's side of a connection, as far as a connection asks for it."""

        get_extra_info = staticmethod(
            lambda name: SimpleNamespace(setsockopt=lambda *_: None) if name == "socket" else ()
        )
        get_write_buffer_size = staticmethod(lambda: 0)
        is_closing = staticmethod(lambda: False)
        close = abort = staticmethod(lambda: None)

    def _frames(*messages: Any) -> bytes:
        pack = PlainFrames(asyncio.StreamReader(loop=quiet_loop())).pack
        return b"".join(pack(TYPES[type(each)], each.SerializeToString()) for each in (HELLO, *messages))

    @target(
        "assist",
        "auricle_edge.listening.assist.frames auricle_edge.listening.assist.connection",
        examples=lambda: {f"client-{number}": _frames(*each) for number, each in enumerate(SAID)},
        refusals=(WireError,),
        tokens=(_frames(), _frames(SAID[4][0])[-3:], b"\0\xff\xff\x03\x01", b"\x01\0\0", b"\x80\x80\x80"),
    )
    def assist(data: bytes) -> object:
        """What a client of the assistant's port sends, without a key and with one, until it is hung up on."""
        took: list[str] = []

        async def serve(frames: Any) -> None:
            client: Any = _Client()
            await HomeConnection(frames, client, "kitchen", lambda _, said: took.append(type(said).__name__)).run()

        async def talk() -> None:
            for encrypted in (True, False):
                reader = asyncio.StreamReader(limit=1 << 17)
                reader.feed_data(data)
                reader.feed_eof()
                if not encrypted:
                    await serve(PlainFrames(reader))
                elif data[:1] == b"\x01":
                    try:
                        await serve(NoiseFrames(reader, bytes(32), "kitchen", "aabbccddeeff"))
                    except WireError:
                        """Nobody here has the key."""

        quiet_loop().run_until_complete(talk())
        return tuple(took)

    @target(
        "assist-answer",
        "auricle_edge.listening.assist.answer_source",
        examples=lambda: {"wav": wav(_silence())},
        refusals=(AuricleError,),
        tokens=(b"RIFF", b"WAVE", b"data", b"fmt ", b"\xff\xff\xff\x7f"),
    )
    def assist_answer(data: bytes) -> object:
        """The sound of an answer, up to its samples."""
        source = object.__new__(AnswerSource)
        source._response = io.BytesIO(data)  # type: ignore[assignment]
        return source._read_format()

    def _silence() -> Any:
        import numpy as np

        return np.zeros(16, np.int16)

    @target(
        "assist-url",
        "auricle_edge.listening.assist.answer_source",
        examples=lambda: {"http": b"http://hub.lan:8123/api/tts/a.wav?token=1", "six": b"http://[::1]:80/"},
        form="text",
        refusals=(AuricleError,),
        tokens=(b"http://", b"@", b"[", b"]", b":99999", b"?", b"%0d%0a", b"//"),
    )
    def assist_url(data: bytes) -> object:
        """Where an answer is, as who is connected says."""
        return _connection(
            data.decode("utf-8", "replace").replace("https:", "http:"), AnswerOrigin("192.0.2.1", True)
        ).port

    @target(
        "assist-choices",
        "auricle_edge.listening.assist.choices",
        examples=lambda: {"choices": b'{"off": ["computer"], "volume": 0.5}'},
        form="json",
        refusals=(),
    )
    def assist_choices(data: bytes) -> object:
        """What was chosen in Home Assistant: a damaged file is as good as none."""
        written(data, CHOICES_FILE)
        return len(OwnerChoices(scratch()).now.off)
