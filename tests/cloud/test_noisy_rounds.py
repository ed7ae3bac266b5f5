"""Rounds with noise: devices that cannot add it, what the coordinator gets to see, and what a restart remembers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cloud.coordinator_site import DEVICES, FEDAVG, TASK, Site, keep_updates
from tests.cloud.site_runs import on_a_site
from tests.cloud.site_runs import runtime as runtime

from auricle.wire.identity import Identity
from auricle.wire.tensors import decode
from auricle_cloud.rounds.privacy import NoisyRound, PrivacyLedger
from auricle_cloud.settings import Privacy


@on_a_site
@pytest.mark.slow
async def test_an_agent_that_cannot_add_noise_is_passed_over_and_nothing_but_noisy_weights_arrives(site: Site) -> None:
    noise = Privacy(clip=0.1, noise=3.0)
    coordinator = site.coordinator(2, FEDAVG, devices=3, quorum=1.0, privacy=noise)
    keep_updates(coordinator)
    site.start_agents(coordinator)
    async with site.scripted("dev-d", Identity.create()):
        await coordinator.run()

    for done in site.done:
        assert done.report["invited"] == list(DEVICES[:3])
        assert done.report["passed_over"] in ({"dev-d": "has an agent that is too old for noise: update it"}, {})
    assert any(done.report["passed_over"] for done in site.done)
    store = site.store()
    first, second = (store.rounds.get(TASK, number) for number in (1, 2))
    deviation = float(3.0 * 0.1 / np.sqrt(3))
    for update in store.updates.counted(TASK, 1):
        assert (update.samples, update.loss, update.steps, update.plugin_accuracy) == (1, 0.0, 0, None)
        sent = decode(coordinator.blobs.get(update.body), site.pack.plugin_table.size, update.codec)
        moved = sent.astype(np.float64) - coordinator.weights(first.begun.base)
        assert float(moved.std()) == pytest.approx(deviation, rel=0.05)
    told = [(row.report or {})["privacy"] for row in (first, second)]
    assert [each["counted"] for each in told] == [3, 3]
    assert told[0]["epsilon"] < told[1]["epsilon"]
    again = PrivacyLedger(noise, store.rounds, task=TASK, quorum=1.0, sampling=1.0)
    this = NoisyRound(clip=0.1, deviation=deviation, sampling=1.0, counted=3)
    assert again.spent(2, this)["epsilon"] == pytest.approx(told[1]["epsilon"])
    assert again.spent(3, this, more=1)["rounds"] == 3
    store.close()
