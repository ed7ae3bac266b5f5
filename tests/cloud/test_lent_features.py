"""What a round of PKCF lends: kept with its record over restarts, fetched by real devices, taken back in the end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.cloud.coordinator_site import PLAN, TASK, Site, on_site

from auricle.packs.pack import load_pack
from auricle.wire.frames import CHUNK
from auricle.wire.identity import Identity
from auricle.wire.plan import Lent
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.tensors import digest, encode
from auricle_cloud.link.messenger import Messenger, chunks_of
from auricle_cloud.operations.group_explanation import about_prior
from auricle_cloud.states.report import read_report
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.rows import ModelRow
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset
from auricle_learning.training.train import Trainer


@on_site
@pytest.mark.slow
async def test_a_restarted_coordinator_lends_the_same_and_devices_that_give_nothing_still_count(site: Site) -> None:
    """One of three gives its gradients. The round after it and a restart lends what they made, and nothing stays."""
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(
        MethodSettings("acmu", {"pkcf": True, "pkcf_features": 5, "pkcf_epochs": 2})
    )
    first = site.coordinator(1, preset)
    site.start_agents(first)
    own = site.agents["dev-a"].trainer
    own.settings = msgspec.structs.replace(own.settings, gradients=True)
    fetched = note_lent(site)
    await first.run()
    second = site.coordinator(2, preset)
    await second.run()

    store, classes = site.store(), sorted({*own.data.train.targets.tolist()})
    assert [done.counted for done in site.done] == [3, 3]
    reports = [read_report(store.rounds.get(TASK, number).report or {}) for number in (1, 2)]
    assert [report.prior_knowledge is not None for report in reports] == [True, True]
    assert [(told.classes, told.clients) for r in reports if (told := r.prior_knowledge)] == [(classes, 1)] * 2
    known = [set(PriorKnowledge.from_bytes(data, *shape(site)).labels) for data in fetched]
    assert known == [set()] * 3 + [{*classes}] * 3, "what devices got in both rounds"
    lent = store.rounds.get(TASK, 2).lent
    assert lent == Lent(blob=digest(fetched[-1]), length=len(fetched[-1]), chunks=1)
    assert lent.blob not in [*second.blobs.names()]
    (said,) = about_prior(reports[1].prior_knowledge)
    assert "1 device;" in said


@pytest.mark.parametrize("aborted", [False, True])
@on_site
async def test_a_round_taken_up_with_another_rule_takes_back_what_it_lent(site: Site, aborted: bool) -> None:
    first = site.coordinator(
        1,
        Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("acmu", {"pkcf": True, "pkcf_features": 5})),
    )
    site.start_agents(first)
    goes_on, fetched = threading.Event(), note_lent(site)
    for agent in site.agents.values():
        own = agent.trainer
        own.settings = msgspec.structs.replace(own.settings, gradients=True)
        hold(agent.trainer, goes_on)
    running = asyncio.create_task(first.run())
    store = site.store()
    try:
        while len(fetched) < 2:  # those whose training has threads
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if aborted:
            store.rounds.request(TASK, 1, "abort", who="ana")
        second, cleared = site.coordinator(1), set()
        publish = second.site.messenger._publish

        async def noted(topic: str, payload: bytes, **more: Any) -> None:
            cleared.update([topic] if not payload else [])
            await publish(topic, payload, **more)

        second.site.messenger._publish = noted  # type: ignore[method-assign]
        lent = store.rounds.get(TASK, 1).lent
        assert lent is not None and lent.blob in [*second.blobs.names()], "kept over the restart"
        if not aborted:
            goes_on.set()
        await second.run()
    finally:
        goes_on.set()

    row = store.rounds.get(TASK, 1)
    assert row.state == ("aborted" if aborted else "published")
    assert len(store.updates.counted(TASK, 1)) == (0 if aborted else 3)
    assert not sum(second.inbox.refused.values()), second.inbox.refused
    assert second.site.messenger.topics.blob(lent.blob, 0) in cleared
    assert lent.blob not in [*second.blobs.names()]


def hold(trainer: Trainer, goes_on: threading.Event) -> None:
    """Have training end only once the event is set."""
    runs = trainer.run

    def held(*given: Any, **more: Any) -> Any:
        result = runs(*given, **more)
        goes_on.wait(20)
        return result

    trainer.run = held  # type: ignore[method-assign]


def shape(site: Site) -> tuple[int, int]:
    classes, width = site.pack.plugin_table.specs[-2].shape
    return classes, width


def note_lent(site: Site) -> list[bytes]:
    """What agents train with, as it was lent, from now on."""
    found: list[bytes] = []
    for agent in site.agents.values():
        runs = agent.trainer.run

        def noted(*given: Any, runs: Any = runs) -> Any:
            found.append(given[-1].prior.to_bytes())
            return runs(*given)

        agent.trainer.run = noted  # type: ignore[method-assign]
    return found


# -- chunks of models: on the broker while their round is open, and no longer


class Kept:
    """What a broker keeps, by topic, and how often it was told."""

    def __init__(self) -> None:
        self.retained: dict[str, bytes] = {}
        self.told = 0

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 1) -> None:
        self.told += 1
        if retain and payload:
            self.retained[topic] = payload
        elif retain:
            self.retained.pop(topic, None)

    def model(self, blob: str) -> bytes:
        """The chunks of a model, put together."""
        parts = {int(topic.rsplit("/", 1)[1]): data for topic, data in self.retained.items() if f"/{blob}/" in topic}
        return b"".join(parts[i] for i in sorted(parts))


Lending = tuple[Messenger, Kept, list[str]]


@pytest.fixture
def lending(tmp_path: Path) -> Lending:
    """A messenger, the broker, and three models."""
    blobs, kept, pack = Blobs(tmp_path / "blobs"), Kept(), load_pack("digits")
    names = blobs.put_all([encode(np.full(pack.plugin_table.size, value, np.float32)) for value in (1.0, 2.0, 3.0)])
    messenger = Messenger("f", "t", pack, Identity.create(), 1, "b", blobs)
    messenger.link = kept  # type: ignore[assignment]
    return messenger, kept, names


def row(blob: str, version: int) -> ModelRow:
    return ModelRow("t", version, blob, None, 1.0, None, "round", version, None, None)


def test_lent_models_come_once_and_go_with_their_round(lending: Lending, tmp_path: Path) -> None:
    messenger, kept, (first, second, _) = lending

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


def test_what_is_lent_beside_models_goes_with_its_own_number_of_chunks(lending: Lending, tmp_path: Path) -> None:
    messenger, kept, (first, _, _) = lending
    data = bytes(3 * CHUNK + 1)
    beside = Lent(blob=Blobs(tmp_path / "blobs").put(data), length=len(data), chunks=chunks_of(len(data)))

    async def case() -> None:
        await messenger.lend([first, beside.blob])
        assert kept.model(beside.blob) == data and beside.chunks == 4
        await messenger.recall([first], [beside])
        assert not kept.retained

    asyncio.run(case())


def test_what_is_offered_to_all_stays_whoever_else_has_it(lending: Lending) -> None:
    messenger, kept, (first, second, third) = lending

    async def case() -> None:
        await messenger.offer(row(first, 1))
        await messenger.lend([first, second])
        await messenger.offer(row(second, 2))
        await messenger.offer(row(third, 3))  # the first is not offered any more, and lent still
        assert kept.model(first) and kept.model(second) and kept.model(third)
        await messenger.recall([first, second])
        assert not kept.model(first) and kept.model(second) and kept.model(third)

    asyncio.run(case())
