"""Rounds with a secure sum: the same model as the plain mean, and nothing of a single update at the coordinator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cloud.coordinator_site import DEVICES, FEDAVG, TASK, Site, keep_updates
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime

from auricle.wire.identity import Identity
from auricle.wire.secure_sum.quantised import words_of
from auricle.wire.secure_sum.sizes import LEVELS
from auricle.wire.tensors import Flat
from auricle_cloud.settings import Privacy, SecureSum

ON = SecureSum(on=True)


def watch_masking(site: Site) -> dict[tuple[int, str], Flat]:
    """What devices trained, by round and name, as they mask it."""
    trained: dict[tuple[int, str], Flat] = {}
    for name, agent in site.agents.items():
        masked = agent._sums.masked

        async def watched(
            invite: Any, told: Any, received: Flat, made: Flat, name: str = name, work: Any = masked
        ) -> Any:
            trained[invite.round, name] = made
            return await work(invite, told, received, made)

        agent._sums.masked = watched  # type: ignore[method-assign]
    return trained


@on_a_site
@pytest.mark.slow
async def test_the_model_is_that_of_the_plain_mean_and_an_older_agent_is_passed_over(site: Site) -> None:
    coordinator = site.coordinator(2, FEDAVG, devices=3, quorum=1.0, secure_sum=ON)
    keep_updates(coordinator)
    site.start_agents(coordinator)
    trained = watch_masking(site)
    async with site.scripted("dev-d", Identity.create()):
        await coordinator.run()

    store = site.store()
    passed: set[str] = set()
    for number in (1, 2):
        row = store.rounds.get(TASK, number)
        report = row.report or {}
        assert (row.state, report["invited"]) == ("published", list(DEVICES[:3]))
        old = {"dev-d": "has an agent that is too old for secure-sum: update it"}
        assert report["passed_over"] in (old, {})
        passed |= report["passed_over"].keys()
        about = {"bound": 0.5, "threshold": 2, "neighbours": 2, "devices": 3, "dropped": {}}
        assert report["secure_sum"] == about
        before = coordinator.weights(row.begun.base)
        after = coordinator.weights(store.models.get(TASK, number).blob)
        each = [trained[number, name].astype(np.float64) for name in DEVICES[:3]]
        step = ON.bound / LEVELS
        assert np.abs(after - np.mean(each, axis=0)).max() <= step / 2 + 1e-6
        assert np.abs(after - before).max() > 10 * step
        for update in store.updates.counted(TASK, number):
            assert (update.codec, update.samples, update.loss, update.steps) == ("sum32", 1, 0.0, 0)
            words = words_of(coordinator.blobs.get(update.body), site.pack.plugin_table.size)
            assert abs(float((words > (1 << 31)).mean()) - 0.5) < 0.05  # noise, and no small numbers
        assert store.sums.rows(TASK, number) == []
    assert passed == {"dev-d"}
    store.close()


@on_a_site
@pytest.mark.slow
async def test_with_noise_nothing_is_cut_and_the_sum_has_the_noise_of_all(site: Site) -> None:
    noise = Privacy(clip=0.1, noise=3.0)
    coordinator = await played(site, 1, FEDAVG, devices=3, quorum=1.0, privacy=noise, secure_sum=SecureSum(True, 0.01))

    store = site.store()
    row = store.rounds.get(TASK, 1)
    report = row.report or {}
    deviation = 3.0 * 0.1 / np.sqrt(3)
    assert report["secure_sum"]["bound"] == pytest.approx(0.1 + 8 * deviation)
    moved = coordinator.weights(store.models.get(TASK, 1).blob) - coordinator.weights(row.begun.base)
    assert float(np.std(moved)) == pytest.approx(deviation / np.sqrt(3), rel=0.05)
    assert report["privacy"]["counted"] == 3
    store.close()
