"""What others on the network, or on the same machine, send to a device."""

from __future__ import annotations

import asyncio
import io
import logging
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import msgspec
import numpy as np

from auricle.errors import AuricleError, SettingsError, WireError
from auricle.mqtt_link.private_link import is_loopback
from auricle.mqtt_link.settings import BrokerAddress, Delivery, require_port, split_url
from auricle.speech.audio import read_audio
from auricle_edge.control.server import _Handler
from auricle_edge.evaluate.sources import read_labels
from auricle_edge.fleet.identity_claim import certificate, claim, claim_server
from auricle_edge.fleet.identity_claim.claim import ClaimRecord
from auricle_edge.listening.capture import child_parts
from auricle_edge.listening.capture.frames import FrameReader
from auricle_edge.listening.capture.settings import CaptureSettings, parse_source
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.events.home_mqtt import log as events
from auricle_edge.listening.events.sparse_log import SparseLog
from auricle_edge.listening.events.wyoming_client import LARGEST_LINE, Client, Offer
from auricle_edge.listening.sound import Feedback
from auricle_edge.settings import read_settings
from tests.fuzz.scratch import written
from tests.fuzz.target import target
from tests.fuzz.targets.wire import HASH


class _Writer:
    """Takes what is said to a client, of whom nothing is known."""

    transport = property(lambda self: self)
    get_extra_info = write = writelines = staticmethod(lambda _: None)

    async def drain(self) -> None:
        """At once."""


@cache
def quiet_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process."""
    return asyncio.new_event_loop()


QUIET: Any = SimpleNamespace(feed=lambda block: [])
"""A detector that hears nothing."""
OFFER = Offer(("yes", "no"), lambda: {"wake": []}, lambda: QUIET, 5.0, 5.0)
SOUND = b'{"rate": 16000, "width": 2, "channels": 1}'


def _event(kind: bytes, data: bytes = b"", payload: bytes = b"") -> bytes:
    head = b'{"type": "%s", "data_length": %d, "payload_length": %d}\n' % (kind, len(data), len(payload))
    return head + data + payload


@target(
    "wyoming",
    "auricle_edge.listening.events.wyoming_client auricle_edge.listening.events.wyoming_client",
    examples=lambda: {
        "describe": b'{"type": "describe"}\n' + _event(b"ping", b'{"text": "a"}'),
        "detect": _event(b"detect", b'{"names": ["yes"]}') + _event(b"audio-start", SOUND),
        "sound": _event(b"audio-chunk", SOUND, bytes(640)) + _event(b"audio-stop"),
    },
    refusals=(WireError, msgspec.ValidationError),
    tokens=(b'"data_length": ', b'"payload_length": ', b'{"type": "audio-chunk", "data": {}}\n', b"\n"),
)
def wyoming(data: bytes) -> object:
    """Events of a Wyoming client, answered one after the other; the server hangs up on these refusals."""

    async def talk() -> None:
        reader = asyncio.StreamReader(limit=LARGEST_LINE)
        reader.feed_data(data)
        reader.feed_eof()
        await Client(OFFER, reader, _Writer()).run()  # type: ignore[arg-type]

    quiet_loop().run_until_complete(talk())
    return True


class _Actions:
    """Takes everything."""

    status = staticmethod(lambda: {"well": True})
    answer = staticmethod(lambda feedback: {"word": feedback.word})
    mute = staticmethod(lambda muted: {"muted": muted})
    live = staticmethod(lambda: iter([{"level": -40}]))

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[Mapping[str, Any]]:
        """One line."""
        assert takes <= 100
        yield {"word": word}


def _request(path: bytes, body: bytes = b"") -> bytes:
    method = b"POST" if body else b"GET"
    return b"%s %s HTTP/1.1\r\nHost: local\r\nContent-Length: %d\r\n\r\n%s" % (method, path, len(body), body)


@target(
    "control",
    "auricle_edge.control.server",
    examples=lambda: {
        "status": _request(b"/v1/status"),
        "live": _request(b"/v1/live"),
        "feedback": _request(b"/v1/feedback", b'{"verdict": "confirm", "id": "0123456789ab"}'),
        "mute": _request(b"/v1/mute", b'{"muted": true}'),
        "enrol": _request(b"/v1/enrol", b'{"word": "yes", "takes": 3}'),
    },
    refusals=(),
    largest=16 << 10,
    tokens=(b"Content-Length: ", b"\r\n", b"HTTP/1.0", b"HTTP/9.9", b"Expect: 100-continue\r\n", b'{"verdict":'),
)
def control(data: bytes) -> object:
    """A request to the device, once the door has let it in: answered, or hung up on, and never an exception."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.shutdown(socket.SHUT_WR)
        try:
            _Handler.answer(theirs, data, _Actions())
        except OSError:
            return "gone"
        theirs.close()
        answer = ours.recv(1 << 16)
    assert b" 500 " not in answer[:20]
    return answer[:12]


TOKEN = "a-token-of-this-device"


class _Said(logging.Handler):
    """What a handler of feedback writes into the log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())


@cache
def _at_home() -> HomeMqtt:
    done: Future[msgspec.Struct] = Future()
    done.set_result(Feedback("confirm"))
    return HomeMqtt(BrokerAddress("127.0.0.1"), "home/{device}", "kitchen", lambda _: done, TOKEN)


@target(
    "home-feedback",
    "auricle_edge.listening.events.home_mqtt",
    examples=lambda: {
        "confirm": b'{"verdict": "confirm", "id": "0123456789ab", "token": "%s"}' % TOKEN.encode(),
        "word": b'{"verdict": "missed", "word": "yes", "token": "%s"}' % TOKEN.encode(),
        "stranger": b'{"verdict": "confirm", "token": "guess"}',
    },
    form="json",
    refusals=(),
    tokens=(b'"token": "', TOKEN.encode(), b"\\ud800"),
)
def home_feedback(data: bytes) -> object:
    """What anybody at the home's broker writes as feedback: taken, or left alone with one line in the log."""
    home, said = _at_home(), _Said()
    home._sparse = SparseLog(home._sparse._log)  # each input is the first of its minute

    async def hear() -> bool:
        events.addHandler(said)
        events.propagate = False
        try:
            await home._on_delivery(Delivery("home/kitchen/feedback", data, 1, False, False, 1, 1))
        finally:
            events.removeHandler(said)
            events.propagate = True
        heard = bool(home._telling)
        for telling in tuple(home._telling):
            telling.cancel()
        await asyncio.gather(*home._telling, return_exceptions=True)
        return heard

    heard = quiet_loop().run_until_complete(hear())
    assert all(line.isprintable() and len(line) < 300 for line in said.lines), said.lines
    assert heard != bool(said.lines)
    return heard


def _frames() -> bytes:
    opened = msgspec.json.encode({"device": "mic", "rate": 16000, "channels": 1})
    sound = child_parts.sound(bytes(64), 1, 16000, 0, False, 1.0)
    return child_parts.text(child_parts.OPENED, opened, 1.0) + sound + child_parts.text(child_parts.ENDED, b"{}", 1.0)


@target(
    "capture-frames",
    "auricle_edge.listening.capture.frames",
    examples=lambda: {"opened": _frames()},
    refusals=(WireError,),
    tokens=(child_parts.MAGIC,),
)
def capture_frames(data: bytes) -> object:
    """What the process writes that reads the microphone."""
    return [type(frame).__name__ for frame in FrameReader().feed(data)]


@target(
    "source",
    "auricle_edge.listening.capture.settings",
    examples=lambda: {"file": b"file:/a/b.wav?pace=fast&loop=1", "alsa": b"alsa:CARD=Device,DEV=0", "mic": b"mic"},
    form="text",
    refusals=(SettingsError,),
    tokens=(b"alsa:", b"?pace=", b"&loop=", b"usb=0d8c:0014"),
)
def source(data: bytes) -> object:
    """Where sound comes from, as people write it."""
    return parse_source(CaptureSettings(source=data.decode("utf-8", "replace"))).kind


@target(
    "url",
    "auricle.mqtt_link.settings auricle.mqtt_link.settings auricle.mqtt_link.private_link",
    examples=lambda: {"plain": b"mqtt://user:word@hub.lan:1883", "six": b"mqtts://[::1]:8883"},
    form="text",
    refusals=(SettingsError,),
    tokens=(b"mqtt://", b"mqtts://", b"@", b"[::1]", b":65536", b"%zz"),
)
def url(data: bytes) -> object:
    """A broker's address, as people write it, and a coordinator's."""
    text = data.decode("utf-8", "replace")
    with_port = split_url(text)
    require_port(with_port, "It")
    is_loopback(with_port.hostname or "")
    address = BrokerAddress.parse(text)
    assert 0 < address.port < 65536
    return address.tls


@target(
    "server-url",
    "auricle_edge.fleet.identity_claim.claim_server",
    examples=lambda: {"https": b"https://hub.lan:8443", "here": b"http://127.0.0.1:8080"},
    form="text",
    refusals=(SettingsError,),
    tokens=(b"https://", b"[", b"]", b":99999", b"?", b"#"),
)
def server_url(data: bytes) -> object:
    """Where a device claims its certificate."""
    claim_server.ClaimServer(data.decode("utf-8", "replace"), "ab" * 32)
    return True


@cache
def _answering() -> claim_server.ClaimServer:
    return claim_server.ClaimServer("https://hub.lan:8443", HASH)


NO_TLS = MagicMock()
"""Certificates that the system trusts are of no input, and take longer to read than all else."""


@target(
    "claim-answer",
    "auricle_edge.fleet.identity_claim.claim_server auricle_edge.fleet.identity_claim.certificate",
    examples=lambda: {"certified": _certified(), "root": b'{"certificate": %s}' % msgspec.json.encode(_pem())},
    form="json",
    tokens=(b"-----BEGIN CERTIFICATE-----",),
)
def claim_answer(data: bytes) -> object:
    """What a coordinator answers to a claim: a certificate for our key, a root with our pin, or a refusal."""
    server = _answering()
    server._ask = lambda *_: data  # type: ignore[method-assign]
    claim_server._detail(data)
    with patch.object(claim_server, "ssl", NO_TLS):
        try:
            given = server.certify("/v1/claim", None, _root())  # type: ignore[arg-type]
        except AuricleError:
            server.root()
            return "root"
    certificate.check_certificate(given, claim._key(_key_file()), _root())
    return "certified"


@cache
def _site() -> dict[str, bytes]:
    from tests.fuzz.certificates import site

    return site()


def _pem() -> str:
    return _site()["root"].decode()


def _root() -> Any:
    from cryptography import x509

    return x509.load_pem_x509_certificate(_site()["root"])


def _key_file() -> Path:
    return written(_site()["key"], "claimed.key")


def _certified() -> bytes:
    chain = (_site()["certificate"] + _site()["issuing"]).decode()
    told = {"device": "kitchen", "certificate": chain, "expires": 2e9, "renew_after": 1.9e9}
    return msgspec.json.encode(told)


@target(
    "claim-record",
    "auricle_edge.fleet.identity_claim.claim",
    examples=lambda: {
        "record": msgspec.json.encode(ClaimRecord(device="kitchen", server="https://hub", pin=HASH, renew_after=1.0))
    },
    form="json",
)
def claim_record(data: bytes) -> object:
    """What a device remembers of its claim."""
    return claim._read_record(written(data, "claim.json")).device


EDGE = b"""\
device = "kitchen"
state = "/nowhere"
fleet = "home"
broker = "mqtts://hub.lan:8883"
coordinator = "%s"
threads = 1
[capture]
source = "alsa:CARD=Device,DEV=0"
[detect]
threshold = 0.9
thresholds = { yes = 0.8 }
[control]
port = 0
[events]
mqtt = "mqtts://hub.lan"
[gate]
[clips]
"""


@target(
    "edge.toml",
    "auricle_edge.settings auricle.settings",
    examples=lambda: {"edge": EDGE % HASH.encode()},
    form="toml",
    refusals=(SettingsError,),
    tokens=(b"[labels]\n", b"[events]\n", b"thresholds = ", b"hook = ", b"[learn]\n", b"[report]\n", b"true", b"1e400"),
)
def edge_toml(data: bytes) -> object:
    """A device's settings."""
    return read_settings(written(data, "edge.toml"), {}).device


@target(
    "labels",
    "auricle_edge.evaluate.sources",
    examples=lambda: {"audacity": b"0.500000\t1.200000\tyes\n\\\t100\t2000\n3,5\t4,0\tno\n"},
    form="text",
    tokens=(b"\t", b"1e999\t", b"nan\t", b"\x1c", b"\xe2\x80\xa8"),
)
def labels(data: bytes) -> object:
    """Labels of a recording, from Audacity."""
    found = read_labels(written(data, "labels.txt"))
    assert all(0 <= start <= end for start, end, _ in found)
    return len(found)


def _wav(kind: str) -> bytes:
    import soundfile

    out = io.BytesIO()
    samples = (np.sin(np.arange(800) / 9) * 9000).astype(np.int16)
    soundfile.write(out, samples, 8000, format=kind, subtype="PCM_16")
    return out.getvalue()


@target(
    "sound",
    "auricle.speech.audio",
    examples=lambda: {kind.lower(): _wav(kind) for kind in ("WAV", "FLAC")},
    tokens=(b"RIFF", b"fLaC", b"data", b"fmt ", b"\xff\xff\xff\x7f"),
    seconds=3.0,
    megabytes=128,
)
def sound(data: bytes) -> object:
    """A recording that somebody dropped into a folder."""
    samples = read_audio(written(data, "clip.wav"))
    assert samples.ndim == 1 and len(samples) and np.isfinite(samples).all()
    return len(samples) == 1600
