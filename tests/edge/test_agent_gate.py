"""The agent and what it asks before and while it trains: its gate, its clips, its judge. On a real broker."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.edge.agent_site import TASK, Site, at_site, trainer, until
from tests.learning.toy import PACK, device
from tests.learning.toy_training import RUNTIME, trainer_of

from auricle.errors import DataError
from auricle.process.clock import VirtualClock
from auricle.speech.features import LogMel
from auricle.wire.messages import DeviceState, Loss, Measure, Register, Status, Update
from auricle.wire.plan import Bavd, FixMatch, Plan
from auricle.wire.tensors import Flat, encode
from auricle_edge.board.gate import Decision
from auricle_edge.board.priority import NICENESS, yield_to_detection
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import Declined
from auricle_edge.fleet.gate_watch import GateWatch, RoundControl
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.training.judge.best import Best, BestStore
from auricle_edge.training.judge.comparison import Heard
from auricle_edge.training.judge.round_judge import PERSONAL, PLUGIN
from auricle_edge.training.judge.sound import Judging, Negatives
from auricle_edge.training.judge.streams import Streams
from auricle_edge.training.local_store import LocalStore
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DataSource, DeviceData
from auricle_learning.training.train import LocalState, RoundResult, Trainer

OPEN = Decision("train", "Nothing speaks against training.")
HOT = Decision("wait", "It is hot.", "heat")
MUTED = Decision("decline", "The microphone is muted.", "mute")
SPEECH = Decision("wait", "Somebody speaks.", "speech")


class Board:
    """A gate that says what a test wants, and something else once a round trains.

    While somebody speaks a round begins and waits for its first batch: it is sure to be there when something changes.
    """

    def __init__(self) -> None:
        self.says, self.says_in_training = OPEN, None
        self.agent: Agent | None = None

    def __call__(self) -> Decision:
        training = self.agent is not None and self.agent.state == "training"
        return self.says_in_training or self.says if training else self.says

    def given(self) -> dict[str, Any]:
        return {"parts": {"gate": self}, "gate_every": 0.02}


async def verdict(site: Site, wanted: str) -> DeviceState:
    """The first state of the device, from now on, that says so."""
    for count in itertools.count(1):
        state = await site.coordinator.wait(DeviceState, count)
        if state.gate == wanted:
            break
    return state


@at_site
async def test_the_gates_verdict_is_told_and_an_invitation_is_declined_with_its_reason(site: Site) -> None:
    c, board = site.coordinator, Board()
    async with site.device(**board.given()):
        first = await c.wait(DeviceState)
        board.says = MUTED
        told = await verdict(site, "decline")
        await c.say("inv", c.invite(site.model))
        status = await c.wait(Status)
        board.says = OPEN
        again = await c.wait(DeviceState, 3)
        await c.say("inv", c.invite(site.model))
        await c.wait(Update)
        assert (first.gate, first.gate_reason) == ("train", OPEN.reason)
        assert (told.online, told.gate_reason) == (True, MUTED.reason)
        assert (status.state, status.reason, status.round, status.task) == ("declined", MUTED.reason, 1, TASK)
        assert (again.gate, again.gate_reason) == ("train", OPEN.reason)


@at_site
async def test_a_birth_says_what_the_gate_said_before_there_was_a_broker(site: Site) -> None:
    board = Board()
    board.says = HOT
    async with site.device(**board.given()):
        state = await site.coordinator.wait(DeviceState)
        assert (state.gate, state.gate_reason) == ("wait", HOT.reason)


@at_site
async def test_a_round_waits_between_two_batches_and_goes_on(site: Site) -> None:
    c, board = site.coordinator, Board()
    async with site.device(**board.given()) as board.agent:
        board.says, board.says_in_training = SPEECH, HOT
        await c.say("inv", c.invite(site.model, plan=Plan(epochs=3)))
        await verdict(site, "wait")
        waiting = asyncio.get_running_loop().run_in_executor(board.agent.rounds._executor, lambda: True)
        await c.barrier()
        still = board.agent.state, waiting.done(), c.said(Update), c.said(Status)
        board.says_in_training = OPEN
        update = await c.wait(Update)
        assert still == ("training", False, [], [])
        assert update.steps == 3
        assert board.agent.gate.control is not None
        assert board.agent.gate.control.waited > 0


@pytest.mark.slow
@at_site
async def test_a_round_that_waits_for_too_long_is_given_up_with_the_reason(site: Site) -> None:
    c, board = site.coordinator, Board()
    async with site.device(**board.given()) as board.agent:
        board.says, board.says_in_training = SPEECH, HOT
        await c.say("inv", c.invite(site.model, ttl=3.0))
        status = await c.wait(Status)
        await until(lambda: board.agent is not None and board.agent.state == "idle")
        assert status.state == "declined" and status.reason.endswith(HOT.reason)
        assert c.said(Update) == []
        assert not (site.folder / "local.safetensors").exists()


@at_site
async def test_a_mute_stops_the_round(site: Site) -> None:
    c, board = site.coordinator, Board()
    async with site.device(**board.given()) as board.agent:
        board.says_in_training = MUTED
        await c.say("inv", c.invite(site.model, plan=Plan(epochs=1000)))
        status = await c.wait(Status)
        free = asyncio.get_running_loop().run_in_executor(board.agent.rounds._executor, lambda: True)
        assert (status.state, status.reason) == ("declined", MUTED.reason)
        assert await asyncio.wait_for(free, 10)
        assert c.said(Update) == []
        assert not site.pending.exists()


@at_site
async def test_a_round_that_waits_ends_with_its_agent(site: Site) -> None:
    board = Board()
    async with site.device(**board.given()) as board.agent:
        board.says, board.says_in_training = SPEECH, HOT
        await site.coordinator.say("inv", site.coordinator.invite(site.model, ttl=1e6))
        await verdict(site, "wait")


@at_site
async def test_nobody_outside_hears_that_somebody_speaks(site: Site) -> None:
    c, board = site.coordinator, Board()
    async with site.device(**board.given()) as board.agent:
        board.says = SPEECH
        await until(lambda: board.agent is not None and board.agent.gate.decision == SPEECH)
        await c.barrier()
        await c.say("inv", c.invite(site.model))
        await until(lambda: board.agent is not None and board.agent.state == "training")
        await c.barrier()
        quiet = c.said(Update), c.said(Status)
        board.says = OPEN
        await c.wait(Update)
        assert quiet == ([], [])
        assert {(s.gate, s.gate_reason) for s in c.said(DeviceState)} == {("train", OPEN.reason)}


@at_site
@pytest.mark.slow
async def test_a_round_that_ran_out_of_time_for_speech_does_not_say_so(site: Site) -> None:
    c, board = site.coordinator, Board()
    board.says = SPEECH
    async with site.device(**board.given()):
        await c.say("inv", c.invite(site.model, ttl=1.0))
        status = await c.wait(Status)
        assert status.reason == "The round's time ran out while it waited."


# -- clips that change


@at_site
async def test_clips_are_renewed_before_a_round_and_too_few_of_them_are_a_reason(site: Site) -> None:
    c, reads, generation = site.coordinator, [3, 8], [0]

    def read() -> DeviceData:
        return trainer(site.runtime, reads[generation[0]]).data

    own = trainer(site.runtime, 2)
    own.settings = LearnSettings(clips=5, judge=False)
    source = DataSource(read, lambda: generation[0])
    async with site.device(own, {"source": source}):
        await c.say("inv", c.invite(site.model))
        status = await c.wait(Status)
        generation[0] = 1
        await c.say("inv", c.invite(site.model))
        update = await c.wait(Update)

        assert (status.state, status.reason) == ("declined", "It has 3 labelled clips to train on and needs 5.")
        assert update.samples == 8
        assert [r.samples for r in c.said(Register)] == [2, 3, 8]


@at_site
async def test_a_device_without_labels_takes_part_where_the_plan_asks_for_fixmatch(site: Site) -> None:
    c, own, clips = site.coordinator, trainer(site.runtime, 8), trainer(site.runtime, 8).data.train
    none = clips.chosen(np.arange(0))
    own.settings = LearnSettings(clips=5, judge=False)
    own.renew(DeviceData(none, none, None, clips))
    async with site.device(own):
        await c.say("inv", c.invite(site.model))
        status = await c.wait(Status)
        await c.say("inv", c.invite(site.model, 2, plan=Plan(mode="supervised", fixmatch=FixMatch(threshold=0.01))))
        update = await c.wait(Update)
        own.renew(DeviceData(none, none, None, clips.chosen(np.arange(3))))
        await c.ack(update)
        await c.say("inv", c.invite(site.model, 3, plan=Plan(mode="supervised", fixmatch=FixMatch())))
        few = await c.wait(Status, 2)

        assert status.state == "declined" and "0 labelled clips" in status.reason
        assert (update.samples, update.unsupervised) == (8, 8)
        assert "3 without a label" in few.reason
        assert {"fixmatch", "bavd"} <= {*c.said(Register)[0].capabilities}


@at_site
async def test_a_device_keeps_its_maps_unless_its_owner_gives_them_away(site: Site) -> None:
    c, own, plan = site.coordinator, trainer(site.runtime, 8), Plan(bavd=Bavd(maps=True))
    async with site.device(own):
        await c.say("inv", c.invite(site.model, plan=plan))
        kept = await c.wait(Status)
        own.settings = msgspec.structs.replace(own.settings, maps=True)
        await c.say("inv", c.invite(site.model, 2, plan=plan))
        given = await c.wait(Status, 2)
        assert kept.state == "declined" and "maps" in kept.reason
        assert given.state == "failed", "this pack has no layers that drop; the owner had nothing against it"
        assert "layers" in given.reason


@at_site
async def test_a_method_that_the_agent_lacks_is_declined_with_the_version_that_has_it(site: Site) -> None:
    c = site.coordinator
    async with site.device(trainer(site.runtime, 8)):
        await c.say("inv", c.invite(site.model, plan=Plan(method="fedfuture", since="9.1")))
        status = await c.wait(Status)
        await c.say("inv", c.invite(site.model, 2, plan=Plan(method="feddyn", mu=0.1, options=FEDDYN)))
        update = await c.wait(Update)
        await c.ack(update)
        asked = {**FEDDYN, "lr": 1.0, "momentum": 0.0}
        del asked["alpha"]
        await c.say("inv", c.invite(site.model, 3, plan=Plan(method="scaffold", options=asked)))
        without = await c.wait(Status, 2)

    assert status.state == "declined" and "fedfuture" in status.reason and "9.1" in status.reason
    assert update.round == 2, "rounds go on"
    assert without.state == "failed" and "vectors" in without.reason
    assert "methods" in c.said(Register)[0].capabilities


FEDDYN: dict[str, float | str] = {"alpha": 0.1, "weighting": "uniform", "clip": 5.0, "limit": "clamp"}


@at_site
async def test_a_measurement_is_of_the_clips_as_they_are_now(site: Site) -> None:
    c, generation = site.coordinator, [0]
    source = DataSource(lambda: trainer(site.runtime, 4 + generation[0]).data, lambda: generation[0])
    invite = c.invite(site.model)
    asked = Measure(**{name: getattr(invite, name) for name in Measure.__struct_fields__ if hasattr(invite, name)})
    board = Board()
    async with site.device(None, {"source": source, "gate": board}, gate_every=0.02):
        for i in (0, 1, 2):
            generation[0] = i
            await c.say("cmd", asked)
            loss = await c.wait(Loss, i + 1)
            assert loss.samples == 4 + i
        await c.say("cmd", msgspec.structs.replace(asked, inference_loss="l1"))
        amounts = await c.wait(Loss, 4)
        assert 0 < amounts.loss <= 2 and amounts.loss != loss.loss
        board.says = MUTED
        await c.say("cmd", asked)
        status = await c.wait(Status)

        assert (status.state, status.reason, status.round) == ("declined", MUTED.reason, 1)
        assert len(c.said(Loss)) == 4


@at_site
async def test_an_agent_that_rests_forgets_the_sound_of_its_clips_and_reads_it_again_for_a_round(site: Site) -> None:
    c, own = site.coordinator, trainer(site.runtime)
    before = own.data
    async with site.device(own, {"source": DataSource(lambda: before, lambda: 1)}) as agent:
        await agent.rest()
        assert len(own.data.train) == len(before.train)
        assert np.array_equal(own.data.train.targets, before.train.targets)
        assert np.isnan(own.data.train.energies).all()
        assert own.data.train.energies.strides == (0, 0, 0)

        await c.say("inv", c.invite(site.model))
        update = await c.wait(Update)

        assert update.samples == len(before.train)
        assert own.data is before


@at_site
async def test_clips_that_cannot_be_read_again_are_kept(site: Site) -> None:
    own = trainer(site.runtime)
    before = own.data
    async with site.device(own) as agent:
        await agent.rest()

        assert own.data is before


# -- the judge, and going back


def at_toys(case: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    return at_site(case, lambda: RUNTIME)


@pytest.fixture(scope="module")
def taught() -> Flat:
    pupil = trainer_of(device(48, seed=3))
    plan = Plan(mode="supervised", optimizer="adamw", rate=5e-3, epochs=12)
    return pupil.run(plan, 1, PACK.plugin_table.initial(0), pupil.first_state()).plugin


CAREFUL = Plan(rate=1e-6, local_rate=1e-6)


@pytest.mark.slow
@at_toys
async def test_a_round_that_made_the_device_worse_is_neither_sent_nor_kept(site: Site, taught: Flat) -> None:
    c, model = site.coordinator, encode(taught)
    await c.offer(model)
    good = device(24, held_out=60)
    wrong = Clips(good.train.energies, (good.train.targets + 1) % 3)
    own = Trainer(site.runtime, "crnn-lite", good, 0, taught, LearnSettings())
    path = site.folder / "local.safetensors"
    async with site.device(own) as agent:
        await c.say("inv", c.invite(model, 1, plan=CAREFUL))
        await c.ack(await c.wait(Update))
        await until(lambda: agent.state == "idle")
        kept, local = path.read_bytes(), agent.rounds.local
        own.renew(DeviceData(wrong, good.held_out, None))
        hasty = Plan(optimizer="adamw", rate=1e-2, local_rate=1e-2, epochs=10, plugin_ce=1.0)
        await c.say("inv", c.invite(model, 2, plan=hasty))
        status = await c.wait(Status)
        await until(lambda: agent.state == "idle")

        assert status.state == "declined"
        assert status.reason.startswith("worse_accuracy: ") and "plug-in" in status.reason
        assert path.read_bytes() == kept
        assert agent.rounds.local is local
        assert not site.pending.exists()
        own.renew(good)
        await c.say("inv", c.invite(model, 3, plan=CAREFUL))
        update = await c.wait(Update, 2)
        assert update.round == 3
    async with site.device(Trainer(site.runtime, "crnn-lite", good, 0, taught)) as agent:
        assert agent.rounds.local.weights.tobytes() != local.weights.tobytes()
        assert path.with_name("local.1.safetensors").read_bytes() == kept


@at_toys
async def test_a_refused_device_that_was_worse_than_its_best_state_goes_back_to_it(site: Site, taught: Flat) -> None:
    asked = DetectSettings(threshold=0.6, vad="off")
    quiet = [np.random.default_rng(3).gamma(1.0, size=(200, 40)).astype(np.float32) for _ in range(8)]
    carried = Negatives(Streams(LogMel(PACK.manifest.task), PACK.labels, asked, quiet))
    says_low = np.zeros_like(taught)
    says_low[-3:] = (9, 0, 0)
    unsure = np.zeros_like(taught)
    c = site.coordinator
    await c.offer(encode(unsure))
    heard: list[tuple[Flat, RoundResult]] = []
    tables = dict.fromkeys((PLUGIN, PERSONAL), site.runtime.pack.plugin_table)
    nothing = Heard(np.zeros(0, np.uint8), np.zeros(0, np.uint8), 0.0)
    kept = {role: Best(unsure, "a" * 64, nothing) for role in (PLUGIN, PERSONAL)}
    BestStore(site.folder, site.runtime.pack.identity, tables).save(kept)
    LocalStore(site.folder, site.runtime.pack.identity, tables[PERSONAL]).save(LocalState(says_low))
    own = Trainer(site.runtime, "crnn-lite", device(24, held_out=0), 0, settings=LearnSettings())
    told = {"learnt": lambda plugin, result: heard.append((plugin, result)), "judging": Judging(asked, carried)}
    async with site.device(own, told) as agent:
        await c.say("inv", c.invite(encode(unsure), 1, plan=CAREFUL))
        status = await c.wait(Status)
        await until(lambda: agent.state == "idle")

        assert status.reason.startswith("worse_false_accepts: 8 in 16 s, 0 in 16 s")
        assert np.array_equal(agent.rounds.local.weights, unsure)
        assert not site.pending.exists()
        ((plugin, result),) = heard
        assert np.array_equal(plugin, unsure)
        assert np.array_equal(result.local.weights, unsure)
    read = LocalStore(site.folder, site.runtime.pack.identity, tables[PERSONAL]).read()
    assert read is not None
    assert np.array_equal(read.weights, unsure)


@at_site
async def test_whoever_detects_hears_what_was_learnt_in_the_training_thread(site: Site) -> None:
    c = site.coordinator
    heard: list[tuple[Flat, RoundResult, int]] = []
    told = {"learnt": lambda plugin, result: heard.append((plugin, result, threading.get_ident()))}
    async with site.device(None, told) as agent:
        await c.say("inv", c.invite(site.model))
        await c.wait(Update)
        thread = await asyncio.get_running_loop().run_in_executor(agent.rounds._executor, threading.get_ident)
        ((plugin, result, where),) = heard
        assert encode(plugin) == site.model
        assert encode(result.plugin) == c.bodies()[0]
        assert result.local is agent.rounds.local
        assert where == thread


@at_site
async def test_a_device_whose_newest_state_is_damaged_goes_on_from_the_one_before(site: Site) -> None:
    pack = site.runtime.pack
    store = LocalStore(site.folder, pack.identity, pack.table("crnn-lite"))
    for number in (1, 2):
        store.save(LocalState(pack.table("crnn-lite").initial(number)))
    (site.folder / "local.safetensors").write_bytes(b"cut")
    async with site.device() as agent:
        assert np.array_equal(agent.rounds.local.weights, pack.table("crnn-lite").initial(1))


# -- what a round's thread is told between two batches


def test_an_open_gate_lets_a_round_go_on_until_it_is_stopped_and_a_closed_one_ends_it_with_its_reason() -> None:
    control = RoundControl(OPEN, 10)
    assert not control()
    control.heed(MUTED)
    with pytest.raises(Declined, match="muted"):
        control()
    control.stop()
    assert control()


@pytest.mark.parametrize("end", ["open", "stop", "decline"])
def test_a_round_that_waits_hears_every_change(end: str) -> None:
    control = RoundControl(HOT, 1e6)
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(control)
        assert not asked.done()
        {"stop": control.stop, "open": lambda: control.heed(OPEN), "decline": lambda: control.heed(MUTED)}[end]()
        if end == "decline":
            with pytest.raises(Declined):
                asked.result(10)
        else:
            assert asked.result(10) == (end == "stop")
    assert control.waited >= 0


def test_a_round_waits_for_as_long_as_its_update_would_count_and_no_longer() -> None:
    clock = VirtualClock(50.0)
    control = RoundControl(HOT, 600.0, clock)
    clock.sleep(200.0)
    with pytest.raises(Declined, match="time ran out"):
        control()
    assert clock.now() == 650.0


def test_a_round_that_is_stopped_while_it_waits_is_stopped_even_out_of_time() -> None:
    control = RoundControl(HOT, -1)
    with pytest.raises(Declined, match="hot"):
        control()
    control.stop()
    assert control()


def test_the_gate_is_looked_at_while_nobody_can_be_told() -> None:

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
