"""Runs whose shared model starts from another run's, or is trained on the coordinator's clips before round 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from auricle.errors import PackError, SettingsError, StorageError
from auricle.packs.pack import load_pack
from auricle_fleet.population.run_model import read_plugin, write_plugin
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.left_open import with_choices
from auricle_fleet.settings.start_from import model_file, require_model
from auricle_fleet.suite.fingerprint import fingerprint

PACK = load_pack("gsc12").with_labels(("yes", "no"))


def small(**changes: Any) -> FleetSettings:
    values = {"words": "yes,no", "devices": 3, "unseen": 2, "takes": 5, "min_clips": 4, "rounds": 1, "processes": 1}
    return FleetSettings(**{**values, "engine": "virtual", "local": "crnn-lite", "preset": "fedavg", **changes})


def test_a_run_is_named_by_its_folder_or_a_file_in_it(tmp_path: Path) -> None:
    assert model_file("pack") is None and model_file("scratch") is None
    assert model_file("runs/a") == Path("runs/a/model.safetensors")
    assert model_file("runs/a/central.safetensors") == Path("runs/a/central.safetensors")
    with pytest.raises(SettingsError, match="has no model: there is no"):
        require_model(str(tmp_path))
    with pytest.raises(SettingsError, match='There is no start "scrach"'):
        with_choices(small(start="scrach"))


def test_a_model_of_other_tensors_or_words_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weights = PACK.plugin_table.initial(1)
    write_plugin(path, PACK, weights, {"round": "3"})
    assert np.array_equal(read_plugin(path, PACK), weights)
    with pytest.raises(PackError, match="of the words yes,no, not of yes,go"):
        read_plugin(path, PACK.with_labels(("yes", "go")))
    other = load_pack("gsc12-res").with_labels(("yes", "no"))
    with pytest.raises(PackError, match="other tensors than"):
        read_plugin(path, other)
    write_plugin(path, PACK, np.full_like(weights, np.nan), {})
    with pytest.raises(StorageError, match="no numbers"):
        read_plugin(path, PACK)


def test_a_run_start_keeps_what_scratch_has() -> None:
    told = FleetSettings(start="runs/a")
    assert (told.own_start, told.judges, told.carried_share) == ("scratch", False, 0.0)
    assert told.preset_for(trained=False) == FleetSettings().preset_for(trained=False)
    assert told.architectures(PACK) == FleetSettings().architectures(PACK)


def test_labelled_clips_are_for_a_method_or_for_the_first_model() -> None:
    with pytest.raises(SettingsError, match="learns from no labelled clips"):
        with_choices(small(method="fedavg", labelled="share:0.1"))
    with_choices(small(method="fedavg", labelled="share:0.1", pretrain=3))
    chosen, sentences = with_choices(small(method="fedavg", pretrain=3))
    assert chosen.labelled == "share:0.2" and "The first model learns" in sentences[0]
    with pytest.raises(SettingsError, match="--pretrain -1"):
        with_choices(small(pretrain=-1))


def test_the_model_itself_decides_the_result_not_where_it_lies(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"same")
    before = fingerprint(small(start=str(one)), "1")
    assert fingerprint(small(start=str(two)), "1") == before
    (two / "model.safetensors").write_bytes(b"other")
    assert fingerprint(small(start=str(two)), "1") != before


@pytest.mark.slow
def test_both_engines_start_from_a_model_that_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pre-trained, gone on with, and another run from its model and from its central one."""
    pytest.importorskip("espeakng_loader")
    told = small(labelled="share:0.3", pretrain=4, central=True, central_epochs=4)
    virtual = FleetRun(told, tmp_path / "virtual").run()
    live = FleetRun(msgspec.structs.replace(told, engine="live", broker="amqtt", processes=0), tmp_path / "live").run()
    first = tmp_path / "virtual" / "first.safetensors"
    assert first.read_bytes() == (tmp_path / "live" / "first.safetensors").read_bytes()
    assert virtual.paths.model.read_bytes() == live.paths.model.read_bytes()
    summary = virtual.summary
    assert summary.start_accuracy_unseen is not None and summary.start_precision is not None
    assert summary.central_precision is not None and summary.pretrain == 4
    monkeypatch.setattr("auricle_fleet.population.central.CentralTraining.train", None)  # nothing is trained again
    assert FleetRun.resume(tmp_path / "virtual", rounds=2).run().summary.start_precision == summary.start_precision
    for file, accuracy in (("first", summary.start_accuracy_unseen), ("central", summary.central_accuracy_unseen)):
        start = str(tmp_path / "virtual" / f"{file}.safetensors")
        run = FleetRun(small(start=start), tmp_path / file)
        ended = run.run().summary
        assert (ended.start, ended.start_accuracy_unseen) == (start, accuracy)
        assert run.start.weights is not None and np.array_equal(
            run.start.weights, read_plugin(Path(start), run.data.pack)
        )
    refused = tmp_path / "refused"
    with pytest.raises(PackError, match="start from a run of the same words"):
        FleetRun(small(start=str(tmp_path / "virtual"), words="yes,go"), refused).run()
    assert not refused.exists()
