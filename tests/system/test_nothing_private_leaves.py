"""Everything a listening, learning device sends is recorded; nothing that it heard, or was told, is in it."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from auricle.packs.pack import load_pack, pack_bytes
from auricle.speech.features import LogMel
from auricle.wire import messages
from auricle_edge.clips import ClipSettings, ClipStore, NewClip
from auricle_edge.control import ControlClient
from tests.system.command_lines import home, said
from tests.system.conftest import Command
from tests.system.network_proxy import NetworkProxy
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEVICE, ROUNDS = "kitchen-1", 8
CONFIG = "[labels]\nmissed_seconds = 30\n[detect]\nring = 60\n[gate]\nload = 100\n[learn]\njudge = false\n"
WORDS = ("marzipanschwein", "quokkaparade", "_unknown_", "_silence_")
"""Words that no other part of a message can hold by chance."""
PIECE = 24  # bytes of a secret that are looked for; by chance they are nowhere


class Wiretap(NetworkProxy):
    """Passes everything on and keeps a copy of what goes up."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.heard = bytearray()

    def seen(self, way: str, data: bytes) -> None:
        if way == "up":
            self.heard += data


def pieces(data: bytes) -> Iterator[bytes]:
    """Pieces of a secret at many places that are not constant."""
    for place in range(0, len(data) - PIECE, max(1, len(data) // 200)):
        piece = data[place : place + PIECE]
        if len(set(piece)) > PIECE // 3:
            yield piece


def forms(samples: NDArray[np.int16], frontend: LogMel) -> Iterator[tuple[str, bytes]]:
    """Sound and features in every form in which a program would hold them."""
    sound = samples.astype(np.float32)
    energies = frontend.energies(samples[None])
    yield "samples", samples.tobytes()
    yield "float samples", (sound / 32768).tobytes()
    yield "samples in base64", base64.b64encode(samples.tobytes())
    for name, features in (("energies", energies), ("log-mels", frontend.finish(energies))):
        yield name, features.tobytes()
        yield f"{name} as float16", features.astype(np.float16).tobytes()


def leaks(heard: bytes, clips: list[NDArray[np.int16]], files: list[bytes], frontend: LogMel) -> set[str]:
    """What of a device's secrets is in the traffic."""
    found = {word for word in WORDS[:2] if word.encode() in heard.lower()}
    for samples in clips:
        found |= {form for form, data in forms(samples, frontend) if any(p in heard for p in pieces(data))}
    found |= {"file" for data in files if any(piece in heard for piece in pieces(data))}
    return found | ({"a FLAC file"} if b"fLaC" in heard else set())


def connections(pid: int) -> set[int]:
    """Ports at the other end of a process's TCP connections."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # closed since it was listed
            continue
        found = re.match(r"socket:\[(\d+)\]", target)
        if found is not None:
            inodes.add(found[1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == "01":
                ports.add(int(fields[2].rpartition(":")[2], 16))
    return ports


def test_no_message_type_has_a_place_for_anything_private() -> None:
    for kind in messages.Uplink.__args__ + messages.Retained.__args__:
        for field in msgspec.structs.fields(kind):
            assert not re.search(r"audio|clip|label|word|feature|energ|sound|sample(?!s$)|local", field.name)


@pytest.mark.nightly
async def test_a_long_run_sends_no_sound_no_feature_and_no_word(
    tmp_path: Path, start: Callable[..., Command], speech_folder: Path
) -> None:
    import soundfile

    pack = load_pack("gsc12").with_labels(WORDS, "private")
    frontend = LogMel(pack.manifest.task)
    (tmp_path / "private.tar.zst").write_bytes(pack_bytes(pack))
    paths = [sorted((speech_folder / word).glob("*.wav")) for word in ("yes", "no")]
    recordings = [soundfile.read(path, dtype="int16")[0] for pair in zip(*paths, strict=False) for path in pair]
    state = tmp_path / "state"
    (state / "clips").mkdir(parents=True)
    store = ClipStore(state / "clips", ClipSettings(), frontend)
    for i, samples in enumerate(recordings):
        store.add(NewClip(samples, WORDS[i % 2], "enrolled", 1.0))
    config = tmp_path / "edge.toml"
    config.write_text(CONFIG)
    room = VirtualRoom(tmp_path / "microphone")

    async with home(start, tmp_path, DEVICE) as here, Wiretap(here.broker.port) as tap:
        packed = tmp_path / "private.tar.zst"
        coordinator = await here.coordinator(devices="1", rounds=ROUNDS, pack=packed)
        room.open()
        url = f"mqtt://{DEVICE}:{here.broker.address(DEVICE).password}@127.0.0.1:{tap.port}"
        about = {"config": config, "state": state, "source": room.source, "pack": packed, "local": "crnn-lite"}
        agent = await here.device(DEVICE, broker=url, **about)
        ports: set[int] = set()
        for number in range(1, ROUNDS + 1):
            await asyncio.to_thread(room.say, recordings[number])
            await said(coordinator, lambda line, number=number: line.get("round", 0) >= number)  # type: ignore[misc]
            ports |= connections(agent.process.pid)
        await asyncio.to_thread(room.say, recordings[0])
        await asyncio.to_thread(ControlClient(state).post, "/v1/feedback", {"verdict": "missed", "word": WORDS[0]})
        assert await asyncio.to_thread(coordinator.end, 120) == 0
        assert sum(line.get("counted", 0) for line in coordinator.lines) == ROUNDS, coordinator.lines
        heard, ports, port = bytes(tap.heard), ports, tap.port
    room.close()
    clips = [store.read(clip.id) for clip in store.list()]
    files = [path.read_bytes() for path in (state / "clips").rglob("*") if path.is_file()]
    store.close()

    assert ports == {port}
    assert leaks(heard, clips, files, frontend) == set()
    assert len(heard) < 2.5 * ROUNDS * 4 * pack.plugin_table.size
    for planted in (clips[3].tobytes(), frontend.energies(clips[5][None]).tobytes(), files[-1], WORDS[1].encode()):
        assert leaks(heard[:5000] + planted + heard[5000:], clips, files, frontend) != set()
