"""What a round's thread is told between two batches, and how the gate is looked at while nobody can be told."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from auricle.errors import DataError
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.gate_watch import OPEN, Declined, GateWatch, RoundControl
from auricle_edge.training.training_job import NICENESS, yield_to_detection

HOT = Decision("wait", "It is hot.", "heat")
MUTED = Decision("decline", "The microphone is muted.", "mute")


def test_an_open_gate_lets_a_round_go_on_until_it_is_stopped() -> None:
    control = RoundControl(OPEN, 10)

    assert not control()
    control.stop()
    assert control()


def test_a_closed_gate_ends_a_round_with_its_reason() -> None:
    control = RoundControl(OPEN, 10)
    control.heed(MUTED)

    with pytest.raises(Declined, match="microphone is muted"):
        control()


@pytest.mark.parametrize("end", ["open", "stop", "decline"])
def test_a_round_that_waits_hears_every_change(end: str) -> None:
    control = RoundControl(HOT, 1e6)
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(control)
        assert not asked.done()
        if end == "stop":
            control.stop()
        else:
            control.heed(OPEN if end == "open" else MUTED)

        if end == "decline":
            with pytest.raises(Declined):
                asked.result(10)
        else:
            assert asked.result(10) == (end == "stop")
    assert control.waited >= 0


def test_a_round_that_is_stopped_while_it_waits_is_stopped_even_out_of_time() -> None:
    control = RoundControl(HOT, -1)
    with pytest.raises(Declined, match=r"time ran out while it waited\. It is hot\."):
        control()

    control.stop()
    assert control()


def test_the_gate_is_looked_at_while_nobody_can_be_told() -> None:
    """The first change hangs, as without a broker; the round hears the later ones all the same."""

    async def case() -> None:
        says = [OPEN]
        told: list[str] = []
        broker = asyncio.Event()

        async def tell() -> None:
            await broker.wait()
            told.append(watch.told.reason)

        watch = GateWatch(lambda: says[-1], 0.01, tell)
        control = watch.begin(1e6)
        task = asyncio.create_task(watch.run())
        for decision in (HOT, MUTED):
            says.append(decision)
            while watch.decision is not decision:
                await asyncio.sleep(0.01)
        with pytest.raises(Declined):
            control()
        broker.set()
        while not told:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert set(told) == {MUTED.reason}

    asyncio.run(asyncio.wait_for(case(), 30))


def test_a_gate_that_fails_waits_and_says_why() -> None:
    def fail() -> Decision:
        raise DataError("The sensor is on fire.")

    async def nobody() -> None:
        raise AssertionError

    decision = asyncio.run(GateWatch(fail, 1.0, nobody).look())

    assert (decision.gate, decision.reason) == ("wait", "The sensor is on fire.")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have a niceness on Linux only")
def test_the_training_thread_steps_back_and_no_other_does() -> None:
    before, interval = os.getpriority(os.PRIO_PROCESS, 0), sys.getswitchinterval()
    try:
        with ThreadPoolExecutor(1, initializer=yield_to_detection) as executor:
            thread = executor.submit(threading.get_native_id).result()
            niceness = executor.submit(os.getpriority, os.PRIO_PROCESS, thread).result()
            policy = executor.submit(os.sched_getscheduler, 0).result()

            assert niceness == max(before, NICENESS)
            assert policy == os.SCHED_BATCH
            assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
            assert os.sched_getscheduler(0) != os.SCHED_BATCH
            assert sys.getswitchinterval() <= 0.001
    finally:
        sys.setswitchinterval(interval)
