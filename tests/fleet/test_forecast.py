"""What is said of a run before it starts: who is in it, what it takes, and whether it fits this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile
from tests.fleet.test_fleet_run import small
from tests.learning.toy import PACK

from auricle.errors import DataError, PackError, SettingsError
from auricle.packs.pack import load_pack, pack_bytes
from auricle.process.cli import main
from auricle.speech.speech_set import set_without_sound
from auricle.wire.plan import Plan
from auricle.wire.update_codec import MOVES, length_of
from auricle_fleet import FleetRun, Group, Network
from auricle_fleet.forecast import forecast as forecasts
from auricle_fleet.forecast import speed as speeds
from auricle_fleet.forecast.crowd import Crowd, crowd_of, held_out
from auricle_fleet.forecast.forecast import misfit, require_fit
from auricle_fleet.forecast.needs import Needed, Needs
from auricle_fleet.forecast.speed import Speed, speed_of
from auricle_fleet.population.data import load_data
from auricle_fleet.population.machine import Machine, free_memory
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.partition import Partition
from auricle_learning.methods import get_method
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import split_held_out
from auricle_learning.training.step_count import epochs_of

pytest.importorskip("espeakng_loader")

FAST = Speed(step=0.01, batch=16, plugin=1e-4, own=2e-4, features=1e-3, when="2026-01-02")
ROOM = Machine(memory=10**13, files=10**6, disk=10**13, cores=2)
LITTLE = Needs(
    memory=300, up_round=1, down_round=1, up=1, down=1, files=1000, broker_files=900, disk=300, answers=1
)  # of which two thirds are sure


@pytest.fixture
def known_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "speed_of", lambda *_given, **_options: FAST)


def same_crowd(settings: FleetSettings) -> Crowd:
    """The crowd of a run, which is the one that its speech is divided into."""
    crowd, data = crowd_of(settings), load_data(settings)
    assert crowd.devices == len(data.devices)
    assert crowd.trained.tolist() == [len(clips.train) for _, clips in data.devices]
    assert crowd.held_out.tolist() == [len(clips.held_out) for _, clips in data.devices]
    assert crowd.unseen == len(data.unseen)
    assert crowd.pack.identity == data.pack.identity
    return crowd


def test_a_pack_that_cannot_do_what_a_run_asks_for_is_refused_before_speech(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="activations"):
        require_fit(small(method="acmu", method_options={"bavd": True}), tmp_path)
    (tmp_path / "bare.tar.zst").write_bytes(pack_bytes(load_pack("digits").with_labels(["yes", "no"])))
    with pytest.raises(PackError, match="trained"):
        require_fit(small(pack=str(tmp_path / "bare.tar.zst"), words="yes,no", start="pack"), tmp_path)


@pytest.mark.slow
def test_a_synthetic_crowd_is_counted_without_a_sound() -> None:
    crowd = same_crowd(small(takes=4, words="yes,no,_unknown_,_silence_", local="mixed", devices=6))
    assert crowd.clips == 8 * 4 * 4
    assert crowd.models == ("crnn-base", "crnn-wide", "crnn-deep", "crnn-stacked", "crnn-lite", "crnn-base")


@pytest.mark.slow
def test_more_devices_than_voices_need_a_partition() -> None:
    with pytest.raises(SettingsError, match="lower --devices"):
        crowd_of(FleetSettings(words="yes,no", devices=5000))
    crowd = crowd_of(FleetSettings(words="yes,no", devices=900, takes=10, partition=Partition(kind="split")))
    assert crowd.devices == 900
    assert crowd.trained.min() >= 1


@pytest.mark.slow
def test_a_folder_is_counted_without_being_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for word in ("yes", "no"):
        (tmp_path / word).mkdir()
        for speaker, takes in (("ana", 6), ("bob", 9), ("cyd", 7), ("dan", 2)):
            for take in range(takes):
                sound = 0.1 * rng.standard_normal(16_000)
                soundfile.write(tmp_path / word / f"{speaker}_nohash_{take}.wav", sound, 16_000)
    settings = FleetSettings(data=str(tmp_path), words="yes,no", unseen=1, min_clips=10)
    same_crowd(settings)
    for file in tmp_path.rglob("*.wav"):
        file.write_bytes(b"no sound")
    assert crowd_of(settings).devices == 2
    with pytest.raises(DataError, match="30 clips, the most is 18"):
        crowd_of(msgspec.structs.replace(settings, min_clips=30))


def test_recordings_that_have_to_be_downloaded_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match="speakers"):
        crowd_of(FleetSettings(data="speech-commands"))
    require_fit(FleetSettings(data="speech-commands"), tmp_path)  # a run downloads them


def test_held_out_clips_are_counted_as_they_are_split() -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 4, 5, 9, 30, 31, 100):
        for labels in (1, 2, 12):
            targets = rng.integers(0, labels, size)
            names = tuple(str(number) for number in range(labels))
            everyone = [*targets, *range(labels)]  # a set needs a clip of every label
            speech = set_without_sound(names, [names[t] for t in everyone], ["ana"] * len(everyone))
            assert held_out(speech, np.arange(size)) == len(split_held_out(targets, 0.2, 3)[1])


def needs_of(engine: str = "virtual", **changes: Any) -> Needs:
    settings = small(**{"broker": None, **changes})
    return Needed(settings, crowd_of(settings)).needs(engine)


@pytest.mark.slow
def test_bytes_of_a_virtual_run_are_those_of_weights_alone() -> None:
    weights = crowd_of(small()).pack.plugin_table.size
    plain = needs_of(devices=8, rounds=5)
    assert (plain.up_round, plain.down_round) == (8 * 4 * weights, 8 * 4 * weights)
    assert (plain.up, plain.down) == (5 * plain.up_round, 5 * plain.down_round)
    assert needs_of(devices=8, codec="float16").up_round == 8 * 2 * weights
    table = crowd_of(small()).pack.plugin_table
    for codec in MOVES:
        few = needs_of(devices=8, codec=codec)
        assert few.up_round == 8 * length_of(table, codec)
        assert few.disk - plain.disk >= 8 * 4 * weights, "what is not sent yet is kept"
    assert needs_of(devices=8, participation=0.5).up_round == 4 * 4 * weights
    half = needs_of(devices=8, groups=(Group(name="away", count=4, drop_out=1.0),))
    assert half.answers == 4
    many: dict[str, Any] = {"devices": 8, "participation": 0.5, "over_selection": 1.5, "quorum": 0.5}
    assert needs_of(**many).answers == 4
    assert needs_of("live", **many).answers == 6


def test_devices_that_wait_long_ask_what_is_next() -> None:
    settings = small(devices=8, participation=0.25, rounds=4)
    needed = Needed(settings, crowd_of(settings))
    quick, slow = needed.needs("live"), needed.needs("live", 60.0)
    assert slow.up_round - quick.up_round == 8 * 2 * 212  # twice in a minute, each of all
    assert slow.down - quick.down == 4 * 8 * 2 * 480
    assert needed.needs("virtual", 60.0) == needed.needs("virtual")


def test_what_is_kept_and_lent_to_tune_classifiers_is_counted() -> None:
    plain, tuned = (small(method="acmu", method_options={"pkcf": on}, rounds=4) for on in (False, True))
    lent = Needed(tuned, crowd_of(tuned)).preset.lent_with(crowd_of(tuned).pack)
    for engine in ("live", "virtual"):
        usual, more = (Needed(each, crowd_of(each)).needs(engine) for each in (plain, tuned))
        assert lent > 0 and more.disk - usual.disk >= 2 * lent and more.memory - usual.memory > 2 * lent


@pytest.mark.slow
def test_a_larger_run_needs_more() -> None:
    for engine in ("live", "virtual"):
        usual = needs_of(engine)
        assert needs_of(engine, devices=40).memory > usual.memory
        assert needs_of(engine, devices=40).disk > usual.disk
        assert needs_of(engine, local="crnn-base").memory > usual.memory
        assert needs_of(engine, takes=60).memory > usual.memory
        assert needs_of(engine, judge="on").disk > usual.disk
    far = Group(name="far", count=2, network=Network(latency=0.1))
    assert needs_of("live", groups=(far,)).files == needs_of("live").files + 2 * 3
    assert needs_of("live", devices=40).broker_files == needs_of("live").broker_files + 36
    assert needs_of("virtual").broker_files == 0
    theirs = needs_of("live", broker="mqtt://a:b@broker.lan")
    assert theirs.broker_files == 0 and theirs.memory < needs_of("live").memory  # a broker that runs elsewhere
    some = needs_of("virtual", devices=40, participation=0.1)
    assert some.disk < needs_of("virtual", devices=40).disk  # who never trains keeps nothing


def test_times_follow_speed_and_cores() -> None:
    settings = small(takes=20)
    needed = Needed(settings, crowd_of(settings))
    two, four = (needed.times("virtual", {"crnn-lite": FAST}, cores) for cores in (2, 4))
    slow = needed.times("virtual", {"crnn-lite": msgspec.structs.replace(FAST, step=0.1)}, 2)
    assert four.round < two.round < slow.round
    # 32 training clips are 2 batches in each of 3 epochs, on each of 4 devices and on 2 cores
    assert slow.round - two.round == pytest.approx(3 * 2 * 4 * 0.09 / 2)
    assert two.run == pytest.approx(two.prepare + 2 * two.round)
    central = Needed(msgspec.structs.replace(settings, central=True), crowd_of(settings))
    assert central.times("virtual", {"crnn-lite": FAST}, 2).run == pytest.approx(two.run + 150 * 8 * 0.01)


@pytest.mark.parametrize(
    ("method", "options", "epochs"),
    [
        ("fedkad", {}, 3),
        ("local", {}, 3),
        ("ditto", {}, 6),
        ("fedrep", {}, 3),
        ("fedrep", {"head_epochs": 5, "body_epochs": 2}, 7),
    ],
)
def test_epochs_are_those_of_all_passes(method: str, options: dict[str, object], epochs: int) -> None:
    preset = FleetSettings(method=method, method_options=options).preset_for(trained=False)
    plan = msgspec.structs.replace(preset.plan, epochs=3)

    assert epochs_of(load_pack("digits"), plan) == epochs


@pytest.mark.parametrize(("method", "options"), [("fedkad", {}), ("fedrep", {"head_epochs": 1})])
def test_a_speed_is_measured_of_a_method_with_passes(
    method: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FedKAD needs the fleet's means; FedRep's steps do not follow the plan's epochs where both are options."""
    monkeypatch.setattr(speeds, "MEASURED_EPOCHS", 2)
    plan = get_method(method, **options).rule_for_rounds.plan_for(Plan(mode="supervised"))

    assert speeds.measured(StepRuntime(PACK), "crnn-lite", plan, LearnSettings()).step > 1e-5


def test_a_speed_is_measured_once_for_a_pack_and_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[str] = []

    def measured(_runtime: object, model: str, *_: object) -> Speed:
        asked.append(model)
        return FAST

    monkeypatch.setattr(speeds, "measured", measured)
    pack, plan, learn = load_pack("digits"), FleetSettings().preset_for(trained=False).plan, LearnSettings()
    step = StepRuntime(pack)
    assert [speed_of(step, "crnn-lite", plan, learn) for _ in range(2)] == [FAST, FAST]
    assert asked == ["crnn-lite"]
    speed_of(step, "crnn-lite", plan, learn, again=True)
    speed_of(step, "crnn-base", plan, learn)
    speed_of(StepRuntime(load_pack("gsc12")), "crnn-lite", plan, learn)
    speed_of(step, "crnn-lite", msgspec.structs.replace(plan, mode="supervised"), learn)
    assert asked == ["crnn-lite", "crnn-lite", "crnn-base", "crnn-lite", "crnn-lite"]
    for file in (tmp_path / "auricle" / "speed").iterdir():
        file.write_bytes(b'{"step": -1}')
    speed_of(step, "crnn-lite", plan, learn)
    assert len(asked) == 6
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "auricle" / "speed" / next(file.parent.iterdir()).name))
    assert speed_of(step, "crnn-lite", plan, learn) == FAST  # nothing can be remembered there


def test_free_memory_is_what_the_system_and_its_group_allow(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    assert (free_memory(tmp_path) or 1) > 0  # all there is, where the system says nothing
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal: 9 kB\nMemAvailable:   4000 kB\nHugePages_Total: 0\nSwapFree: 96 kB\n"
    )
    assert free_memory(tmp_path) == 4096 << 10
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("100\n")
    assert free_memory(tmp_path) == 4096 << 10
    (group / "memory.max").write_text("1000\n")
    assert free_memory(tmp_path) == 900
    (group / "memory.current").write_text("2000\n")
    assert free_memory(tmp_path) == 0


@pytest.mark.parametrize(
    ("machine", "engine", "says"),
    [
        ({"memory": 199}, "live", ("300 B", "199 B", "virtual")),
        ({"memory": 199}, "virtual", ("199 B",)),
        ({"files": 1063}, "live", ("1,064", "1,063")),
        ({"disk": 199}, "live", ("300 B", "199 B")),
    ],
)
def test_what_cannot_fit_is_said(machine: dict[str, int], engine: str, says: tuple[str, ...]) -> None:
    said = misfit(LITTLE, msgspec.structs.replace(ROOM, **machine), Path("runs"), engine)
    assert said is not None and all(each in said for each in says)
    roomier = {name: value + 1 for name, value in machine.items()}
    assert misfit(LITTLE, msgspec.structs.replace(ROOM, **roomier), Path("runs"), engine) is None
    assert misfit(LITTLE, msgspec.structs.replace(ROOM, memory=None), Path("runs"), engine) is None


def test_a_run_that_cannot_fit_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "this_machine", lambda _: msgspec.structs.replace(ROOM, memory=10**6))
    with pytest.raises(SettingsError, match="memory"):
        FleetRun(small(), tmp_path / "run").run()
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("known_speed")
def test_the_command_prints_both_engines_and_fits_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.process.table.UNSEEN_WIDTH", 80)
    file = tmp_path / "fleet.toml"
    file.write_text(
        'words = "yes,no"\ndevices = 4\nunseen = 2\ntakes = 3\nmin_clips = 4\nrounds = 7\nlocal = "crnn-lite"\n'
    )
    assert main(["fleet", "plan", str(file), "--rounds", "9"]) == 0
    said = capsys.readouterr().out
    table = said[: said.index("Times are")].splitlines()
    assert "9 rounds" in table[0] and all(len(line) <= 80 for line in table[1:])
    assert "live" in table[1] and "virtual" in table[1] and "2026-01-02" in said
    assert main(["fleet", "plan", "--config", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["engines"]["virtual"]["needs"]["up"] == 7 * 4 * 4 * found["weights"]
    assert found["speeds"]["crnn-lite"]["step"] == 0.01
    assert main(["fleet", "plan", str(file), "--config", str(file)]) == 2


@pytest.mark.usefixtures("known_speed")
@pytest.mark.slow
def test_the_command_refuses_what_cannot_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "this_machine", lambda _: msgspec.structs.replace(ROOM, files=70))
    options = ["--words", "yes,no", "--devices", "40", "--takes", "5", "--min-clips", "4", "--unseen", "2"]
    assert main(["fleet", "plan", *options]) == 2
    assert capsys.readouterr().err.count("70") == 1
    assert main(["fleet", "plan", *options, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert "70" in found["engines"]["live"]["refused"]
    assert main(["fleet", "plan", *options, "--engine", "virtual"]) == 2  # six and the 64 to spare are more than 70
    monkeypatch.setattr(forecasts, "this_machine", lambda _: msgspec.structs.replace(ROOM, files=80))
    assert main(["fleet", "plan", *options, "--engine", "virtual"]) == 0
    assert "--engine live" in capsys.readouterr().out
    assert main(["fleet", "plan", *options, "--mode", "async", "--json"]) == 2
    assert "needs --engine live" in json.loads(capsys.readouterr().out)["engines"]["virtual"]["refused"]
