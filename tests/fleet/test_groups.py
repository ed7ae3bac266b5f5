"""Groups of devices that are not like the others: who is in them, and what each habit and attack does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.speech.augment import word_level
from auricle.wire.plan import Plan
from auricle_edge.runtimes import StepRuntime
from auricle_edge.training.speech_data import Clips, DeviceData
from auricle_edge.training.train import LocalState, RoundResult, Trainer, TrainingStopped
from auricle_fleet.commands import read_settings
from auricle_fleet.emulation.behaviour import GroupTrainer, data_of, flipped, in_noise
from auricle_fleet.emulation.slow_link import slow_link
from auricle_fleet.groups import Group, Network, assigned

PACK = load_pack("digits")
RUNTIME = StepRuntime(PACK)
PLUGIN = PACK.plugin_table.initial(0)
PLAN = Plan(mode="supervised", optimizer="adamw", rate=1e-2, epochs=1)


@pytest.fixture(scope="module")
def clips() -> DeviceData:
    rng = np.random.default_rng(0)
    energies = rng.gamma(1.0, 1.0, (12, 100, 40)).astype(np.float32)
    made = Clips(energies, np.arange(12) % 10)
    return DeviceData(made, made.chosen(np.arange(2)), rng.gamma(1.0, 1.0, (300, 40)).astype(np.float32))


def trained(group: Group | None, clips: DeviceData, number: int = 1) -> RoundResult:
    own = ("crnn-lite", clips, 7)
    trainer = Trainer(RUNTIME, *own) if group is None else GroupTrainer(group, RUNTIME, *own)
    return trainer.run(PLAN, number, PLUGIN, trainer.first_state())


def test_groups_are_drawn_by_the_seed_and_the_rest_is_in_none() -> None:
    groups = (Group(name="slow", count=3), Group(name="liars", count=2))
    drawn = assigned(groups, 10, 0)
    names = [group and group.name for group in drawn]
    assert (names.count("slow"), names.count("liars"), names.count(None)) == (3, 2, 5)
    assert drawn == assigned(groups, 10, 0) != assigned(groups, 10, 1)
    with pytest.raises(SettingsError, match="5 devices together, and this run has 4"):
        assigned(groups, 4, 0)


def test_attacks_change_the_update_as_they_say(clips: DeviceData) -> None:
    honest = trained(None, clips)
    update = honest.plugin - PLUGIN

    def forged(attack: str, **more: float) -> np.ndarray:
        return trained(Group(name="g", attack=attack, **more), clips).plugin - PLUGIN  # type: ignore[arg-type]

    np.testing.assert_allclose(forged("sign-flip"), -update, atol=1e-6)
    np.testing.assert_allclose(forged("scale", strength=3.0), 3 * update, atol=1e-5)
    noise = forged("noise", strength=0.5)
    assert np.linalg.norm(noise) == pytest.approx(0.5 * np.linalg.norm(update), rel=1e-3)
    assert abs(np.corrcoef(noise, update)[0, 1]) < 0.05
    assert not forged("free-ride").any()


def test_lies_change_what_is_said_and_not_the_update(clips: DeviceData) -> None:
    honest = trained(None, clips)
    loss, samples = (trained(Group(name="g", attack=lie, strength=50.0), clips) for lie in ("loss", "samples"))
    assert (loss.loss, loss.samples) == (50.0, honest.samples)
    assert (samples.loss, samples.samples) == (honest.loss, 50 * honest.samples)
    assert np.array_equal(loss.plugin, honest.plugin) and np.array_equal(samples.plugin, honest.plugin)


def test_who_drops_out_answers_nothing_in_its_share_of_rounds(clips: DeviceData) -> None:
    def answers(number: int) -> bool:
        try:
            trained(Group(name="g", drop_out=0.5, attack="free-ride"), clips, number)
        except TrainingStopped:
            return False
        return True

    rounds = [answers(number) for number in range(1, 41)]
    assert 10 < sum(rounds) < 30 and rounds == [answers(number) for number in range(1, 41)]
    with pytest.raises(TrainingStopped):
        trained(Group(name="mute", drop_out=1.0), clips)


def test_a_slow_device_waits_and_ends_when_its_round_does(clips: DeviceData) -> None:
    slow = GroupTrainer(Group(name="g", delay=0.4, attack="free-ride"), RUNTIME, "crnn-lite", clips, 7)
    began = time.monotonic()
    slow.run(PLAN, 1, PLUGIN, slow.first_state())
    assert time.monotonic() - began >= 0.2
    with pytest.raises(TrainingStopped):
        slow.run(PLAN, 1, PLUGIN, LocalState(PLUGIN), lambda: True)


def test_labels_and_rooms_are_those_of_the_group(clips: DeviceData) -> None:
    assert flipped(np.arange(4), 4).tolist() == [3, 2, 1, 0] and flipped(np.arange(3), 3).tolist() == [2, 2, 0]
    wrong = data_of(Group(name="g", attack="label-flip"), clips, 10, 0)
    assert np.array_equal(wrong.train.targets, 9 - clips.train.targets)
    assert np.array_equal(wrong.held_out.targets, clips.held_out.targets)
    loud = data_of(Group(name="g", noise_db=0.0), clips, 10, 0)
    added = (loud.train.energies - clips.train.energies).mean(axis=(1, 2))
    np.testing.assert_allclose(added, word_level(clips.train.energies), rtol=1e-3)
    flat = in_noise(clips.train.energies, None, 20.0, np.random.default_rng(0)) - clips.train.energies
    np.testing.assert_allclose(flat.mean(axis=(1, 2)), word_level(clips.train.energies) / 100, rtol=1e-3)


@dataclass
class Echo:
    """A server that says back what it hears."""

    connections: int = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()


def through(network: Network, size: int) -> tuple[float, bytes]:
    """Seconds until so many bytes are back, and what came."""

    async def case() -> tuple[float, bytes]:
        echo = Echo()
        server = await asyncio.start_server(echo.take, "127.0.0.1", 0)
        async with server, slow_link("127.0.0.1", server.sockets[0].getsockname()[1], network, 0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            began = asyncio.get_running_loop().time()
            writer.write(bytes(range(256)) * (size // 256))
            back = b""
            while len(back) < size and (data := await reader.read(1 << 16)):
                back += data
            took = asyncio.get_running_loop().time() - began
            writer.close()
            return took, back

    return asyncio.run(asyncio.wait_for(case(), 60))


def test_a_slow_network_delays_and_limits_and_changes_nothing() -> None:
    said = bytes(range(256)) * 256
    took, back = through(Network(latency=0.1, kilobits=1000), 65_536)  # 0.52 s a way on the line, beginning again later
    assert back == said and took >= 0.7
    took, back = through(Network(latency=0.2), 65_536)
    assert back == said and took >= 0.4


def test_a_bad_network_cuts() -> None:
    _, back = through(Network(kilobits=8.0, cut=0.2), 65_536)
    assert len(back) < 65_536


def test_a_device_that_breaks_off_is_gone_for_the_broker_too() -> None:
    async def case() -> bytes:
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def take(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                heard.set_result(await reader.read())

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        network = Network(latency=0.01)
        async with server, slow_link("127.0.0.1", server.sockets[0].getsockname()[1], network, 0) as port:
            device = socket.create_connection(("127.0.0.1", port))
            device.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it ends with a reset
            await asyncio.sleep(0)
            device.close()
            return await asyncio.wait_for(heard, 20)

    assert asyncio.run(case()) == b""


def test_a_file_has_groups_and_tables_and_options_count_above_it(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'rounds = 5\nrule = "trimmed-mean"\n[rule_options]\nbeta = 0.2\n[detection]\nmargin = 0.05\n'
        '[[groups]]\nname = "far"\ncount = 2\nnetwork = { latency = 0.3, kilobits = 64 }\n'
    )
    found = read_settings(file, {"rounds": 3, "rule": None}, [])
    assert (found.rounds, found.rule, found.rule_options, found.detection.margin) == (
        3,
        "trimmed-mean",
        {"beta": 0.2},
        0.05,
    )
    assert found.groups == (Group(name="far", count=2, network=Network(latency=0.3, kilobits=64)),)
    assert read_settings(file, {"rule": "krum"}, []).rule_options == {}
    assert read_settings(file, {}, ["beta=0.1"]).rule_options == {"beta": 0.1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("roundz = 5", 'no setting "roundz": did you mean "rounds"'),
        ('[[groups]]\nname = "g"\nattack = "sign"', "groups"),
        ('[[groups]]\nname = "g"\nstrength = 2.0', "no attack that takes one"),
        ("[groups]\nname = 1", "groups"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "run.toml").write_text(line)
    with pytest.raises(SettingsError, match=says):
        read_settings(tmp_path / "run.toml", {}, [])
