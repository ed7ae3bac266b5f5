"""A live secure sum of ten devices, one of which lies, while two drop out: the others' mean is the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from auricle.wire.messages import Invite
from auricle.wire.secure_sum.messages import JoinSum, SumQuestion
from auricle.wire.secure_sum.quantised import quantise, sum_of
from auricle.wire.tensors import Flat, decode
from auricle_cloud.states.report import RoundReport, read_report
from auricle_cloud.storage.blobs import Blobs
from auricle_edge.fleet.agent import Agent
from auricle_learning.aggregation.buckets import combine_buckets
from auricle_learning.aggregation.cohort import Float64Array
from tests.system.checker import check, open_store
from tests.system.killed_coordinator import TASK
from tests.system.toy_fleet import ToyFleet, succeeded, toy_fleet

TEN = tuple(f"dev-{letter}" for letter in "abcdefghij")
LIAR, KEYLESS, GONE = TEN[2], TEN[5], TEN[8]
Record = Callable[[str, object], None]
BOUND = 0.5
"""The setting of secure sums."""


class Misbehaving(Agent):
    """One lies in every round; in round 1 one gives no keys, and another sends no update."""

    trained: ClassVar[dict[tuple[int, str], Float64Array]] = {}
    """Updates as they would be without a lie, by round and device."""

    def __init__(self, *told: Any, **more: Any) -> None:
        super().__init__(*told, **more)
        name, answer, take_part, masked = (
            self.settings.device,
            self._sums.answer,
            self.rounds.take_part,
            self._sums.masked,
        )

        async def answering(asked: SumQuestion) -> None:
            if not (name == KEYLESS and asked.round == 1 and isinstance(asked, JoinSum)):
                await answer(asked)

        async def taking_part(invite: Invite) -> None:
            if not (name == GONE and invite.round == 1):
                await take_part(invite)

        async def masking(invite: Invite, sum_told: Any, received: Flat, made: Flat) -> bytes:
            self.trained[invite.round, name] = made.astype(np.float64) - received
            sent = received + np.float32(1000) if name == LIAR else made
            return await masked(invite, sum_told, received, sent)

        self._sums.answer, self._sums.masked = answering, masking  # type: ignore[method-assign]
        self.rounds.take_part = taking_part  # type: ignore[method-assign]


@pytest.mark.reliability("C3", load="ten devices in a secure sum, one at the far end of the range, two drop out")
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_liar_and_two_that_drop_out_of_a_secure_sum_cost_their_buckets(
    tmp_path: Path, record_property: Record
) -> None:
    trained = Misbehaving.trained
    trained.clear()
    async with toy_fleet(tmp_path, TEN) as fleet:
        fleet.agent_type = Misbehaving
        told: dict[str, Any] = {"secure": True, "quorum": 0.7, "sum_wait": 10.0, "least_wait": 30.0}
        await succeeded(await fleet.coordinator(2, **told), 240)
        reports, moved = _read(fleet)

    first, second = (report.secure_sum for report in reports)
    assert first is not None and second is not None
    assert first.dropped == {KEYLESS: "keys", GONE: "update"} and second.dropped == {}
    assert sorted(bucket.size for bucket in first.buckets) == [3, 3, 3]
    assert sorted(bucket.size for bucket in second.buckets) == [3, 3, 4]
    lost = [bucket for bucket in first.buckets if bucket.state == "lost"]
    assert len(lost) == 1 and len(lost[0].devices) == 2 and first.devices == 6
    bad = [bucket for bucket in second.buckets if LIAR in bucket.devices]
    assert [bucket.state for bucket in bad] == ["left out"] and second.devices == 10 - bad[0].size
    momentum: Float64Array | float = 0.0  # of the coordinator's optimizer: m <- m / 2 + update, w <- w + m / 2
    for number, report in enumerate(reports, 1):
        assert report.secure_sum is not None
        buckets = [each.devices for each in report.secure_sum.buckets if each.state != "lost"]
        honest, lied = (_update(trained, number, buckets, liar) for liar in ("", LIAR))
        momentum = 0.5 * momentum + lied
        assert np.abs(moved[number] - 0.5 * momentum).max() <= 1e-6
        updates = [trained[number, name] for each in buckets for name in each]
        usual = np.mean([np.linalg.norm(update) for update in updates]) / len(updates)
        far = np.linalg.norm(lied - honest) / usual
        plain = np.linalg.norm(np.full_like(updates[0], BOUND) - updates[0]) / len(updates) / usual
        record_property(f"round {number}, liar over honest", f"{far:.1f}, without buckets {plain:.0f}")
        assert far <= 3 < plain


def _mean(updates: list[Float64Array]) -> Float64Array:
    words = np.stack([quantise(update, BOUND) for update in updates])
    return sum_of(words.sum(axis=0, dtype=np.uint32), len(words), BOUND) / len(words)


def _update(
    trained: dict[tuple[int, str], Float64Array], number: int, buckets: list[list[str]], liar: str
) -> Float64Array:
    """What the round's buckets make of what devices trained, with a liar among them or with nobody who lies."""
    sent = {name: update for (of, name), update in trained.items() if of == number}
    if liar:
        sent[liar] = np.full_like(sent[liar], BOUND)
    return combine_buckets(np.stack([_mean([sent[name] for name in each]) for each in buckets])).update


def _read(fleet: ToyFleet) -> tuple[list[RoundReport], dict[int, Float64Array]]:
    """The rounds' reports, and how far each model is from the one before."""
    fleet.read_said()
    blobs, size = Blobs(fleet.state / "blobs"), fleet.pack.plugin_table.size
    with open_store(fleet.database) as store:
        check(store, TASK, fleet.log)
        rows = [store.rounds.get(TASK, number) for number in (1, 2)]
        assert [row.state for row in rows] == ["published", "published"], [row.report for row in rows]
        reports = [read_report(row.report or {}) for row in rows]
        after = {n: decode(blobs.get(store.models.get(TASK, n).blob), size).astype(np.float64) for n in (1, 2)}
        moved = {n: after[n] - decode(blobs.get(row.begun.base), size) for n, row in enumerate(rows, 1)}
    return reports, moved
