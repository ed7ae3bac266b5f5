"""Pictures of a run's models: the numbers behind them by hand, by property, and of real runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.fleet.test_fleet_run import small
from tests.fleet.test_suite_tables import SUITE, ended
from tests.fleet.test_virtual import DROPPING

from auricle import __version__
from auricle.errors import SettingsError, StorageError
from auricle.packs.pack import load_pack, pack_bytes
from auricle_cloud.settings import Limits
from auricle_fleet.engines import require_engine
from auricle_fleet.population.last_round import FILE, LastRound, read_last_round, write_last_round
from auricle_fleet.population.occlusion import MOST_CLIPS, PATCHES, occlusion
from auricle_fleet.results.model_pictures import principal_components
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.suite.curves import pictures
from auricle_fleet.suite.fingerprint import fingerprint
from auricle_fleet.suite.tables import results

RNG = np.random.default_rng(0)


def drawn(**changes: Any) -> FleetSettings:
    return small(**{"engine": "virtual", "broker": None, "pictures": True, "learning": "supervised", **changes})


def numbers(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "pictures" / "pictures.json").read_bytes())
    return found


def test_models_on_a_line_have_one_component() -> None:
    models = np.array([[1.0, 2.0, 2.0]], np.float32) * np.array([[0.0], [1.0], [5.0]], np.float32)
    coordinates, share = principal_components(models)
    assert coordinates[:, 0] == pytest.approx([-6.0, -3.0, 9.0])  # a step is 3 long, the mean is the second one
    assert coordinates[:, 1] == pytest.approx([0.0] * 3, abs=1e-6) and share == pytest.approx([1.0, 0.0])


def test_models_in_a_plane_keep_their_distances_in_any_order() -> None:
    plane, _ = np.linalg.qr(RNG.normal(size=(50, 2)))
    at = RNG.normal(size=(7, 2)) * [3, 1]
    models = (at @ plane.T).astype(np.float32)
    coordinates, share = principal_components(models)
    apart = np.linalg.norm(coordinates[:, None] - coordinates, axis=2)
    assert apart == pytest.approx(np.linalg.norm(at[:, None] - at, axis=2), abs=1e-5)
    assert share[0] > share[1] and share.sum() == pytest.approx(1.0)
    order = RNG.permutation(7)
    assert principal_components(models[order])[0] == pytest.approx(coordinates[order], abs=1e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_models_that_are_all_alike_lie_in_the_middle(count: int) -> None:
    coordinates, share = principal_components(np.ones((count, 9), np.float32))
    assert coordinates.tolist() == [[0.0, 0.0]] * count and share.tolist() == [0.0, 0.0]


def test_a_model_that_hears_one_place_falls_where_that_is_hidden() -> None:
    """Of clips that are 1 in one part and 0 elsewhere: the part's posterior is its mean."""
    features = np.zeros((4, 100, 40), np.float32)
    features[:, 20:30, 8:16] = 1.0
    targets = np.array([0, 2, 0, 2])

    def posteriors(clips: Any) -> Any:
        heard = clips[:, 20:30, 8:16].mean(axis=(1, 2))
        return np.stack([heard, heard, 1 - heard], axis=1)

    found = occlusion(posteriors, features, targets, 3)
    due = np.zeros(PATCHES)
    due[2, 1] = 1 - 80 / 4000  # its clip's mean is in its place
    assert found[0] == pytest.approx(due, abs=1e-6) and found[2] == pytest.approx(-due, abs=1e-6)
    assert np.isnan(found[1]).all()
    many = np.concatenate([features[:1]] * MOST_CLIPS + [0 * features[:1]] * 5)
    assert occlusion(posteriors, many, np.zeros(len(many), np.int64), 1)[0] == pytest.approx(due, abs=1e-6)


def test_a_round_is_kept_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    assert read_last_round(tmp_path) is None
    maps = np.ones((2, 5), np.float32)
    write_last_round(tmp_path, LastRound(3, ("a", "b"), 2 * np.ones((2, 4), np.float32), {"b": 1}, maps))
    found = read_last_round(tmp_path)
    assert found is not None and (found.number, found.devices, found.groups) == (3, ("a", "b"), {"b": 1})
    assert (found.weights == 2).all() and found.maps is not None and (found.maps == maps).all()
    (tmp_path / FILE).write_bytes(b"no tensors")
    with pytest.raises(StorageError, match="damaged"):
        read_last_round(tmp_path)


def test_a_picture_has_the_models_that_were_sent_and_the_groups_that_the_coordinator_made(tmp_path: Path) -> None:
    options = {"bavd": False, "maps": False, "clusters": 2}
    ran = FleetRun(drawn(method="mupfl", method_options=options), tmp_path / "run").run()
    found, last, row = numbers(tmp_path / "run"), read_last_round(tmp_path / "run" / "state"), ran.rounds[-1]
    assert last is not None and last.maps is None and last.number == found["round"] == row.round
    assert found["groups"] == row.groups and set(found["groups"].values()) == {0, 1}
    assert found["devices"] == sorted(row.personal) and "activations" not in found
    coordinates, share = principal_components(last.weights)
    assert found["coordinates"] == coordinates.tolist() and found["variance"] == share.tolist()
    assert np.shape(found["occlusion"]) == (len(found["labels"]), *PATCHES)
    picture = ET.parse(tmp_path / "run" / "pictures" / "models.svg").getroot()  # made above
    name = "{http://www.w3.org/2000/svg}"
    assert len(list(picture.iter(f"{name}circle"))) == len(found["devices"]) + 2  # and two in the key
    assert {"group 0", "group 1"} <= {text.text for text in picture.iter(f"{name}text")}


def test_what_is_kept_is_what_was_averaged(tmp_path: Path) -> None:
    ran = FleetRun(
        drawn(method="fedavg", preset="paper", server_optimizer="none", limits=Limits(share=1e9)), tmp_path / "run"
    ).run()
    last = read_last_round(tmp_path / "run" / "state")
    assert last is not None and last.groups == {} and len({row.training_clips for row in ran.devices}) == 1
    model = load_file(tmp_path / "run" / "model.safetensors")
    order = [spec.name for spec in load_pack(ran.paths.pack).plugin_table.specs]
    whole = np.concatenate([model[name].ravel() for name in order])
    assert last.weights.mean(axis=0) == pytest.approx(whole, abs=1e-5)
    assert not (tmp_path / "run" / "pictures" / "activations.svg").exists()


@pytest.mark.slow
def test_devices_maps_of_dropped_activations_are_drawn_with_bavd_alone(tmp_path: Path) -> None:
    build = pytest.importorskip("auricle_export.packs.build", reason="packs are made with PyTorch")
    source, packed = tmp_path / "nets.py", tmp_path / "net.tar.zst"
    source.write_text(DROPPING)
    made = build.build_author_pack(f"{source}:Net", ("yes", "no"), "net", plugin=f"{source}:Net")
    packed.write_bytes(pack_bytes(made))
    asked: dict[str, Any] = {"method": "mupfl", "pack": str(packed), "local": "net"}
    FleetRun(drawn(**asked), tmp_path / "with").run()
    off = {"bavd": False, "maps": False}
    FleetRun(drawn(**asked, method_options=off), tmp_path / "without").run()
    found, last = numbers(tmp_path / "with"), read_last_round(tmp_path / "with" / "state")
    assert last is not None and last.maps is not None
    assert np.squeeze(found["activations"]).tolist() == last.maps.tolist()  # one layer, over time alone
    assert {path.stem for path in (tmp_path / "with" / "pictures").glob("*.svg")} == {
        *("activations", "models", "occlusion"),
    }
    without = numbers(tmp_path / "without")
    assert "activations" not in without and np.shape(without["occlusion"]) == np.shape(found["occlusion"])
    assert without["occlusion"] != found["occlusion"]


def test_a_suite_shows_the_pictures_of_its_first_seed_and_runs_without_any_keep_their_folders() -> None:
    runs = [replace(each, pictures={"models": "<svg>m</svg>", "occlusion": "<svg>o</svg>"}) for each in ended()]
    shown = {each.name: each for each in pictures(SUITE, runs, results(SUITE, runs))}
    assert shown["models-mean-clean"].svg == "<svg>m</svg>" and shown["models-mean-clean"].model == "run"
    assert shown["occlusion-A-B-noise-5"].model == "plug-in"
    assert sum(name.startswith("models") for name in shown) == 4
    told = msgspec.msgpack.decode(fingerprint(FleetSettings(), __version__))[1]
    assert "pictures" not in told and msgspec.msgpack.decode(fingerprint(drawn(), __version__))[1]["pictures"]


def test_a_live_fleet_keeps_nothing_to_draw() -> None:
    with pytest.raises(SettingsError, match="--pictures needs --engine virtual"):
        require_engine(FleetSettings(engine="live", pictures=True))
