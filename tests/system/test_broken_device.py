"""One of three devices sends what is never finite: the others go on without it, and with it once it is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs
from tests.recorder import Record
from tests.system.killed_coordinator import TASK
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.toy_fleet import DEVICES, kill, succeeded, toy_fleet, watching

ROUNDS, LAST = 12, 9  # the device sends weights that are not finite up to round LAST


@pytest.mark.reliability("C3", load="three devices, one of which sends NaN in rounds 1 to 9 of 12, and a restart")
@pytest.mark.slow
@pytest.mark.nightly
@NEEDS_MOSQUITTO
async def test_one_broken_device_of_three_does_not_end_all_learning(tmp_path: Path, record_property: Record) -> None:
    told = {"quorum": 0.7, "deadline": 30.0, "keep": False}
    async with toy_fleet(tmp_path, DEVICES, here=()) as fleet:
        first = await fleet.coordinator(ROUNDS, kill="", pause="", **told, tell=True)
        await fleet.crowd_process(*DEVICES, everybody=DEVICES, broken={DEVICES[2]: (1, LAST)}, resend=5.0)
        await first.line(lambda line: line.get("round") == 5, 120)
        kill(first)
        await first.end()
        again = await fleet.coordinator(ROUNDS, **told)
        await succeeded(again, 240)
        with watching(fleet) as store:
            states = {row.round: row.state for row in store.rounds.listed(TASK)}
            events = {(event.kind, event.device, event.round) for event in store.journal.events()}
            do = Operations(store, Blobs(fleet.state / "blobs"), TASK)
            why = do.why_round(8, DEVICES[2]).devices[0].sentences
            now = do.overview().not_in_quorum
    published = [number for number, state in states.items() if state == "published"]
    record_property("rounds that made a model", len(published))
    record_property("rounds", len(states))
    assert len(published) >= 9
    assert ("not in quorum", DEVICES[2], 4) in events and ("in quorum again", DEVICES[2], LAST + 1) in events
    assert any("did not count for the quorum" in sentence for sentence in why)
    assert now == []
