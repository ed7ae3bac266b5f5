"""Chunks of models that single devices begin with: on the broker while their round is open, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from auricle.packs.pack import Pack, load_pack
from auricle.wire.frames import CHUNK
from auricle.wire.identity import Identity
from auricle.wire.plan import Lent
from auricle.wire.tensors import encode
from auricle_cloud.link.messenger import Messenger, chunks_of
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.rows import ModelRow


class Kept:
    """What a broker keeps, by topic, and how often it was told."""

    def __init__(self) -> None:
        self.retained: dict[str, bytes] = {}
        self.told = 0

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.told += 1
        if retain and payload:
            self.retained[topic] = payload
        elif retain:
            self.retained.pop(topic, None)

    def model(self, blob: str) -> bytes:
        """The chunks of a model, put together."""
        parts = {int(topic.rsplit("/", 1)[1]): data for topic, data in self.retained.items() if f"/{blob}/" in topic}
        return b"".join(parts[i] for i in sorted(parts))


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack("digits")


@pytest.fixture
def site(pack: Pack, tmp_path: Path) -> Iterator[tuple[Messenger, Kept, list[str]]]:
    """A messenger, the broker, and three models."""
    blobs, kept = Blobs(tmp_path / "blobs"), Kept()
    size = pack.plugin_table.size
    names = blobs.put_all([encode(np.full(size, value, np.float32)) for value in (1.0, 2.0, 3.0)])
    messenger = Messenger("f", "t", pack, Identity.create(), 1, "b", blobs)
    messenger.link = kept  # type: ignore[assignment]
    yield messenger, kept, names


def row(blob: str, version: int) -> ModelRow:
    return ModelRow("t", version, blob, None, 1.0, None, "round", version, None, None)


def test_lent_models_come_once_and_go_with_their_round(site: tuple[Messenger, Kept, list[str]], tmp_path: Path) -> None:
    messenger, kept, (first, second, _) = site

    async def case() -> None:
        await messenger.lend([first])
        once = kept.told
        await messenger.lend([first, second])
        assert kept.told == 2 * once
        assert kept.model(first) == Blobs(tmp_path / "blobs").get(first) and kept.model(second)
        kept.retained.clear()  # a broker that has lost all
        await messenger.lend_again()
        assert kept.model(first) and kept.model(second)
        await messenger.recall([first, second])
        assert not kept.retained
        await messenger.lend_again()
        assert not kept.retained

    asyncio.run(case())


def test_what_is_lent_beside_models_goes_with_its_own_number_of_chunks(
    site: tuple[Messenger, Kept, list[str]], tmp_path: Path
) -> None:
    messenger, kept, (first, _, _) = site
    data = bytes(3 * CHUNK + 1)
    beside = Lent(blob=Blobs(tmp_path / "blobs").put(data), length=len(data), chunks=chunks_of(len(data)))

    async def case() -> None:
        await messenger.lend([first, beside.blob])
        assert kept.model(beside.blob) == data and beside.chunks == 4
        await messenger.recall([first], beside)
        assert not kept.retained

    asyncio.run(case())


def test_what_is_offered_to_all_stays_whoever_else_has_it(site: tuple[Messenger, Kept, list[str]]) -> None:
    messenger, kept, (first, second, third) = site

    async def case() -> None:
        await messenger.offer(row(first, 1))
        await messenger.lend([first, second])
        await messenger.offer(row(second, 2))
        await messenger.offer(row(third, 3))  # the first is not offered any more, and lent still
        assert kept.model(first) and kept.model(second) and kept.model(third)
        await messenger.recall([first, second])
        assert not kept.model(first) and kept.model(second) and kept.model(third)

    asyncio.run(case())
