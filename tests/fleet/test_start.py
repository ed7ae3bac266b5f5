"""Where a fleet's models start: at the pack's trained weights, moved to the run's words, or at noise."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest

from auricle.errors import PackError
from auricle.packs.first_weights import first_weights
from auricle.packs.manifest import FileEntry, Start
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.start import start_file, start_weights
from auricle.process.cli import main
from auricle.wire.tensors import Flat, decode
from auricle_cloud.storage.blobs import Blobs
from auricle_fleet.population.data import FleetData, load_data
from auricle_fleet.population.start import started
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

MODELS = ("crnn-lite", "crnn-base")


def with_start(pack: Pack, models: tuple[str, ...] = MODELS) -> Pack:
    """The pack with weights of these models to start from, in place of those it has."""
    files = {path: data for path, data in pack.files.items() if not path.startswith("weights/")}
    starts = {}
    for number, model in enumerate(models):
        start = Start(
            file=f"weights/{model}.safetensors", data="a draw", clips=1, speakers=1, accuracy=0.1, judged_clips=1
        )
        files[start.file] = start_file(pack.table(model), pack.table(model).initial(70 + number))
        starts[model] = start
    entries = tuple(FileEntry(p, len(d), hashlib.sha256(d).hexdigest()) for p, d in sorted(files.items()))
    return Pack(msgspec.structs.replace(pack.manifest, start=starts, files=entries), files)


@pytest.fixture(scope="module")
def pack() -> Pack:
    return with_start(load_pack("digits"))


@pytest.fixture(scope="module")
def path(pack: Pack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pack") / "mine.tar.zst"
    path.write_bytes(pack_bytes(pack))
    return path


def settings(path: Path, **changes: object) -> FleetSettings:
    values = {"pack": str(path), "devices": 2, "unseen": 1, "takes": 3, "min_clips": 5, "rounds": 1, "start": "pack"}
    values |= {"words": "one,two,seven", "local": "crnn-base,crnn-lite", **changes}
    return FleetSettings(**values)  # type: ignore[arg-type]


def data_of(pack: Pack, origin: Pack | None = None) -> FleetData:
    task = pack.manifest.task
    clips = Clips(np.ones((2, task.frames, task.frontend.mels), np.float32), np.arange(2))
    return FleetData(pack, (("ana", DeviceData(clips, clips, None)),), clips, 1, np.zeros(2, np.int64), (), origin)


def first_model(out: Path, pack: Pack) -> Flat:
    """What the coordinator kept as version 0."""
    state = out / "state" / "coordinator"
    with sqlite3.connect(state / "coordinator.db") as database:
        (blob,) = database.execute("select blob from models where version = 0").fetchone()
    return decode(Blobs(state / "blobs").get(blob), pack.plugin_table.size)


def test_pack_starts_from_the_trained_weights_and_scratch_is_the_default(pack: Pack, path: Path) -> None:
    assert FleetSettings().start == "scratch"
    assert started(data_of(pack), settings(path, start="scratch"), "crnn-lite", 0) is None
    for model in MODELS:
        weights = started(data_of(pack), settings(path), model, 0)
        assert weights is not None and np.array_equal(weights, start_weights(pack, model))
    with pytest.raises(PackError, match="crnn-lite"):
        started(data_of(with_start(pack, ())), settings(path), "crnn-lite", 0)


def test_other_words_take_the_rows_that_the_pack_knows(pack: Pack, path: Path) -> None:
    other = pack.with_labels(("two", "wow"))
    weights = started(data_of(other, pack), settings(path), "crnn-lite", 3)
    assert weights is not None
    trained, table = start_weights(pack, "crnn-lite"), other.plugin_table
    rows = table.tensor(weights, "head.weight")
    assert np.array_equal(rows[0], pack.plugin_table.tensor(trained, "head.weight")[pack.labels.index("two")])
    assert np.array_equal(rows[1], table.tensor(table.initial(3), "head.weight")[1])


def test_a_device_that_was_never_trained_starts_from_what_it_is_given(pack: Pack) -> None:
    weights = start_weights(pack, "crnn-base")
    device = data_of(pack).devices[0][1]
    given = Trainer(StepRuntime(pack), "crnn-base", device, 5, weights).first_state()
    drawn = Trainer(StepRuntime(pack), "crnn-base", device, 5).first_state()
    assert np.array_equal(given.weights, weights)
    assert np.array_equal(drawn.weights, pack.table("crnn-base").initial(5))


@pytest.mark.slow
@pytest.mark.parametrize("start", ["pack", "scratch"])
def test_a_run_begins_with_what_start_says(pack: Pack, path: Path, tmp_path: Path, start: str) -> None:
    pytest.importorskip("espeakng_loader")
    chosen = settings(path, start=start, broker="amqtt")
    summary = FleetRun(chosen, tmp_path).run().summary
    run_pack = load_pack(tmp_path / "pack.tar.zst")
    first = first_model(tmp_path, run_pack)
    assert run_pack.labels == ("one", "two", "seven")
    assert summary.start == start
    if start == "pack":
        assert np.array_equal(first, first_weights(run_pack, "crnn-lite", 0, pack))
        assert summary.start_accuracy_unseen is not None
        assert 0 <= summary.start_accuracy_unseen <= 1
    else:
        assert np.array_equal(first, run_pack.plugin_table.initial(0))
        assert summary.start_accuracy_unseen is None


def test_words_are_the_packs_when_none_are_named(pack: Pack, path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    data = load_data(settings(path, words=None, takes=1, devices=1))
    assert data.pack.identity == pack.identity
    with pytest.raises(PackError, match="crnn-base"):
        load_data(settings(path, local="crnn-bas"))


SERVE = "cloud serve --broker mqtt://u:p@127.0.0.1:1 --fleet home"
RUN = "edge run --device dev-000 --broker mqtt://u:p@127.0.0.1:1 --fleet home --data /no/such/folder --local crnn-lite"


@pytest.mark.parametrize("command", [SERVE, f"{RUN} --coordinator {'00' * 32}"])
@pytest.mark.slow
def test_coordinator_and_agent_refuse_what_the_pack_does_not_have(
    pack: Pack, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare.tar.zst"
    bare.write_bytes(pack_bytes(with_start(pack, ())))
    more = ("--pack", str(bare), "--state", str(tmp_path / "state"), "--json")
    assert main([*command.split(), *more, "--start", "pack"]) == 2
    assert main([*command.split(), *more, "--start", "pakc"]) == 2
    first, second = [json.loads(line)["error"] for line in capsys.readouterr().out.splitlines()]
    assert "crnn-lite" in first and '"pack"' in second
