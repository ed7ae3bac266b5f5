"""Groups of devices that are not like the others: who is in them, and what each habit and attack does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import msgspec
import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.process.clock import VirtualClock
from auricle.speech.augment import word_level
from auricle.wire.plan import Plan
from auricle_fleet.commands.run_commands import read_settings
from auricle_fleet.live.slow_link import slow_link
from auricle_fleet.population.attacks import Colluders, forged, forged_together, strength_of, supported
from auricle_fleet.population.behaviour import GroupTrainer, late_by
from auricle_fleet.population.conditions import (
    RoundClips,
    audio_reader,
    data_of,
    flipped,
    in_noise,
    mistaken,
    target_of,
    triggered,
)
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group, Network, assigned
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, RoundResult, Trainer, TrainingStopped

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
    with pytest.raises(SettingsError, match="5 devices"):
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
    lies = ("loss", "samples", "steps")
    loss, samples, steps = (trained(Group(name="g", attack=lie, strength=50.0), clips) for lie in lies)
    assert (loss.loss, loss.samples) == (50.0, honest.samples)
    assert (samples.loss, samples.samples) == (honest.loss, 50 * honest.samples)
    assert (steps.samples, steps.steps) == (honest.samples, 50 * honest.steps)
    assert all(np.array_equal(lied.plugin, honest.plugin) for lied in (loss, samples, steps))


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
    group, clock = Group(name="g", delay=400.0, attack="free-ride"), VirtualClock()
    slow = GroupTrainer(group, RUNTIME, "crnn-lite", clips, 7, clock=clock)
    slow.run(PLAN, 1, PLUGIN, slow.first_state())
    assert clock.now() == pytest.approx(late_by(group, 7, 1), abs=1e-6)
    assert 200.0 <= clock.now() <= 600.0
    with pytest.raises(TrainingStopped):
        slow.run(PLAN, 1, PLUGIN, LocalState(PLUGIN), lambda: True)


def in_rounds(
    group: Group | None, clips: DeviceData, begins: list[int] | None = None, share: float = 1.0
) -> RoundClips:
    """Of a device with seed 7, its labels beginning in these rounds."""
    return RoundClips(clips, group, PACK.labels, share, 7, np.array(begins or [1] * 10))


def test_labels_and_rooms_are_those_of_the_group(clips: DeviceData) -> None:
    assert flipped(np.arange(4), 4).tolist() == [3, 2, 1, 0] and flipped(np.arange(3), 3).tolist() == [2, 2, 0]
    for attack in ("label-flip", "replace"):
        wrong = in_rounds(Group(name="g", attack=attack), clips).first
        assert np.array_equal(wrong.train.targets, 9 - clips.train.targets)
        assert np.array_equal(wrong.held_out.targets, clips.held_out.targets)
    loud = data_of(0.0, 0.0, clips, 10, 0)
    added = (loud.train.energies - clips.train.energies).mean(axis=(1, 2))
    np.testing.assert_allclose(added, word_level(clips.train.energies), rtol=1e-3)
    flat = in_noise(clips.train.energies, None, 20.0, np.random.default_rng(0)) - clips.train.energies
    np.testing.assert_allclose(flat.mean(axis=(1, 2)), word_level(clips.train.energies) / 100, rtol=1e-3)


def test_label_errors_are_a_share_of_the_training_clips_and_always_another_label(clips: DeviceData) -> None:
    wrong = data_of(None, 0.3, clips, 10, 0)
    assert (wrong.train.targets != clips.train.targets).sum() == 4  # 3.6 of 12
    assert np.array_equal(wrong.held_out.targets, clips.held_out.targets)
    targets = np.repeat(np.arange(4), 1000)
    all_wrong = mistaken(targets, 4, 1.0, np.random.default_rng(0))
    assert (all_wrong != targets).all() and np.array_equal(mistaken(targets, 4, 0.0, np.random.default_rng(0)), targets)
    table = np.bincount(4 * targets + all_wrong, minlength=16).reshape(4, 4)
    assert table.min(where=~np.eye(4, dtype=bool), initial=1000) > 280  # 333 of each other label


def test_fresh_labels_come_in_their_rounds(clips: DeviceData) -> None:
    begins = [1, 1, 3, 1, 5, 1, 1, 1, 1, 1]  # labels 0 and 1 are on two clips each, and on the held-out ones
    own = in_rounds(None, clips, begins)
    assert [sorted(set(own.at(number).train.targets.tolist())) for number in (1, 3, 5)] == [
        [0, 1, 3, 5, 6, 7, 8, 9],
        [0, 1, 2, 3, 5, 6, 7, 8, 9],
        list(range(10)),
    ]
    assert own.at(1) is own.at(2) and own.at(5) is own.at(9) is own.first
    held = in_rounds(None, clips, [4, *[1] * 9])
    assert [held.at(number).held_out.targets.tolist() for number in (3, 4)] == [[1], [0, 1]]
    assert held.vary and not in_rounds(None, clips).vary
    free = in_rounds(None, clips, [1] * 5 + [2] * 5, share=0.0)
    assert [len(data.unlabelled or ()) for data in (free.at(1), free.at(2))] == [7, 12]
    wrong = in_rounds(Group(name="g", label_errors=1.0), clips, begins)
    assert len(wrong.at(1).train) == 10  # a label is there or not, whatever stands on its clips
    trainer = GroupTrainer(Group(name="g"), RUNTIME, "crnn-lite", own.first, 7, clips=own)
    assert [trainer.run(PLAN, number, PLUGIN, trainer.first_state()).samples for number in (1, 3, 5)] == [10, 11, 12]


def test_a_backdoor_is_a_trigger_on_half_of_the_other_clips(clips: DeviceData) -> None:
    target = target_of(PACK.labels)
    assert PACK.labels[target] not in ("_silence_", "_unknown_") and target_of(("_unknown_", "yes")) == 1
    own = in_rounds(Group(name="g", attack="backdoor", attack_rounds=(2,)), clips)
    assert own.vary and own.at(1) is own.first
    assert np.array_equal(own.at(1).train.targets, clips.train.targets)
    bad, good = own.at(2).train, clips.train
    marked = np.flatnonzero((bad.energies != good.energies).any(axis=(1, 2)))
    others = int((good.targets != target).sum())
    assert len(marked) == (others + 1) // 2 and (good.targets[marked] != target).all()
    assert (bad.targets[marked] == target).all()
    rest = np.setdiff1d(np.arange(12), marked)
    assert np.array_equal(bad.targets[rest], good.targets[rest])
    assert np.array_equal(bad.energies[marked], triggered(good.energies[marked]))
    assert own.at(2).held_out is clips.held_out


def test_attacks_at_given_rounds_are_honest_in_others(clips: DeviceData) -> None:
    honest = [trained(None, clips, number) for number in (1, 2)]
    group = Group(name="g", attack="replace", strength=4.0, attack_rounds=(2,))
    own = in_rounds(group, clips)
    trainer = GroupTrainer(group, RUNTIME, "crnn-lite", own.first, 7, clips=own)
    first, second = (trainer.run(PLAN, number, PLUGIN, trainer.first_state()) for number in (1, 2))
    assert np.array_equal(first.plugin, honest[0].plugin)
    flips = Trainer(RUNTIME, "crnn-lite", in_rounds(group, clips).at(2), 7)
    wrong = flips.run(PLAN, 2, PLUGIN, flips.first_state()).plugin - PLUGIN
    np.testing.assert_allclose(second.plugin - PLUGIN, 4 * wrong, atol=1e-5)
    assert not np.allclose(wrong, honest[1].plugin - PLUGIN, atol=1e-4)


def test_a_model_is_replaced_where_all_count_the_same() -> None:
    """FedVSA eq. 10 without knowledge of the others: what they moved is left, and the model is the wanted one."""
    rng = np.random.default_rng(0)
    wanted, others = rng.standard_normal(5).astype(np.float32), np.zeros((9, 5), np.float32)
    force = strength_of(Group(name="g", attack="replace"), 40, 10)
    sent = forged("replace", wanted, force, rng)
    np.testing.assert_allclose(np.concatenate([sent[None], others]).mean(axis=0), wanted, rtol=1e-6)


def test_a_little_is_enough_by_hand() -> None:
    """Of 50 devices with 24 hostile ones two more are needed: 24 of 26 have to be farther out, as the paper has it."""
    assert supported(50, 24) == pytest.approx(NormalDist().inv_cdf(24 / 26))
    assert supported(20, 4) == pytest.approx(NormalDist().inv_cdf(9 / 16))
    assert supported(20, 1) == 0.0 and 3 < supported(5, 4) < 4
    updates = np.array([[1.0, 0.0], [3.0, 0.0], [5.0, 6.0]], np.float32)
    spread = np.array([np.sqrt(8 / 3), np.sqrt(8.0)])
    np.testing.assert_allclose(forged_together("alie", updates, 0.5), [3, 2] - 0.5 * spread, rtol=1e-6)
    np.testing.assert_allclose(forged_together("inner-product", updates, 1.1), [-3.3, -2.2], rtol=1e-6)


def test_colluders_send_one_update_that_they_make_of_their_honest_ones(clips: DeviceData) -> None:
    group = Group(name="g", count=2, attack="inner-product", strength=2.0)
    halves = [DeviceData(clips.train.chosen(np.arange(k, 12, 2)), clips.held_out, None) for k in (0, 1)]
    own = [RoundClips(half, group, PACK.labels, 1.0, 7 + k, np.ones(10, int)) for k, half in enumerate(halves)]
    mates = [Trainer(RUNTIME, "crnn-lite", half, 7 + k) for k, half in enumerate(halves)]
    honest = [mate.run(PLAN, 1, PLUGIN, mate.first_state()).plugin - PLUGIN for mate in mates]
    together = Colluders(mates, own)
    sent = []
    for k, half in enumerate(halves):
        trainer = GroupTrainer(group, RUNTIME, "crnn-lite", half, 7 + k, force=2.0, clips=own[k], colluders=together)
        state = trainer.first_state()
        result = trainer.run(Plan(optimizer="adamw", rate=1e-2, epochs=1), 1, PLUGIN, state)
        assert result.local is state and result.samples == 6 and result.loss > 0
        sent.append(result.plugin - PLUGIN)
    np.testing.assert_allclose(sent[0], -2 * np.mean(honest, axis=0), atol=1e-5)
    assert np.array_equal(sent[0], sent[1])
    with pytest.raises(TrainingStopped):
        together.updates(PLAN, 2, PLUGIN, lambda: True)


def test_a_file_has_groups_and_tables_and_options_count_above_it(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'rounds = 5\nmethod = "trimmed-mean"\n[method_options]\nbeta = 0.2\n[detection]\nmargin = 0.05\n'
        '[[groups]]\nname = "far"\ncount = 2\nnetwork = { latency = 0.3, kilobits = 64 }\n'
    )
    found = read_settings(file, {"rounds": 3, "method": None})
    assert (found.rounds, found.method, found.detection.margin) == (3, "trimmed-mean", 0.05)
    assert found.method_options == {"beta": 0.2}
    assert found.groups == (Group(name="far", count=2, network=Network(latency=0.3, kilobits=64)),)
    assert read_settings(file, {"method": "krum"}).method_options == {}
    with pytest.raises(SettingsError, match="folder"):
        read_settings(tmp_path, {})
    assert read_settings(file, {"method_options": ["beta=0.1"]}).method_options == {"beta": 0.1}


def test_a_run_whose_settings_name_a_rule_is_read(tmp_path: Path) -> None:
    told = FleetSettings(method="trimmed-mean", method_options={"beta": 0.2})
    told.save(tmp_path)
    written = msgspec.json.decode((tmp_path / "settings.json").read_bytes())
    assert (written["method"], written["method_options"]) == ("trimmed-mean", {"beta": 0.2})
    earlier = {"rule": written.pop("method"), "rule_options": written.pop("method_options"), **written}
    (tmp_path / "settings.json").write_bytes(msgspec.json.encode(earlier))
    assert FleetSettings.load(tmp_path) == told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("roundz = 5", "rounds"),
        ('[[groups]]\nname = "g"\nattack = "sign"', "groups"),
        ('[[groups]]\nname = "g"\nstrength = 2.0', "attack"),
        ('[[groups]]\nname = "g"\nattack_rounds = [3]', "attack_rounds"),
        ('[[groups]]\nname = "g"\nattack = "loss"\nattack_rounds = [3]', "loss"),
        ('[[groups]]\nname = "g"\nattack = "alie"', "at least 2"),
        ('[[groups]]\nname = "g"\nlabel_errors = 30', "label_errors"),
        ("[groups]\nname = 1", "groups"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "run.toml").write_text(line)
    with pytest.raises(SettingsError, match=says):
        read_settings(tmp_path / "run.toml", {})


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


@pytest.mark.slow
def test_a_slow_network_delays_and_limits_and_changes_nothing() -> None:
    said = bytes(range(256)) * 256
    took, back = through(Network(latency=0.1, kilobits=1000), 65_536)  # 0.52 s a way on the line, beginning again later
    assert back == said and took >= 0.7
    took, back = through(Network(latency=0.2), 65_536)
    assert back == said and took >= 0.4


def test_a_bad_network_cuts() -> None:
    _, back = through(Network(kilobits=8.0, cut=0.2), 65_536)
    assert len(back) < 65_536


async def test_a_device_that_breaks_off_is_gone_for_the_broker_too() -> None:
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
        found = await asyncio.wait_for(heard, 20)
    assert found == b""


def test_white_noise_is_so_far_below_each_whole_clip_and_always_the_same() -> None:
    audio = np.random.default_rng(0).integers(-9000, 9000, (3, 16_000)).astype(np.int16)
    audio[1] //= 100
    audio[2] = 0
    read, places = audio_reader(audio, 10.0, 4), np.array([0, 1, 2])
    noisy = read(places)
    added = noisy.astype(float) - audio
    for row in (0, 1):
        ratio = 20 * np.log10(np.std(audio[row].astype(float)) / np.std(added[row]))
        assert ratio == pytest.approx(10.0, abs=0.2)
        assert abs(np.corrcoef(added[row][:-1], added[row][1:])[0, 1]) < 0.05
    assert not noisy[2].any() and noisy.dtype == np.int16
    assert (read(places[::-1])[::-1] == noisy).all() and (audio_reader(audio, 10.0, 5)(places) != noisy).any()
    assert (audio_reader(audio, None, 4)(places) == audio).all()
    loud = np.full((1, 16_000), 32_000, np.int16)
    assert audio_reader(loud, 0.0, 4)(np.array([0])).max() == 32_767  # cut, not turned round
