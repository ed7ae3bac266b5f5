"""Words in an array of samples: what a device hears of the same sound, however it is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.edge.evaluate_sounds import spoken_sources, waking_pack
from tests.edge.test_hearing_model import nothing

from auricle.errors import DataError, PackError
from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle_edge import Listener
from auricle_edge.evaluate.plan import Plan, compose_scene, plan_scenes
from auricle_edge.listening.detect import Detector, DetectTable
from auricle_edge.listening.sound import Block, Detection
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.hearing_model import HearingModel
from auricle_edge.training.own_model import own_model
from auricle_learning.runtimes import frontend_of


def facts(heard: list[Detection]) -> list[tuple[object, ...]]:
    return [(d.word, d.score, d.model, d.start, d.end, d.word_end, d.kind, d.level) for d in heard]


def device(pack: Pack, folder: Path) -> Detector:
    """The detector of a new device, as its parts make it."""
    runtime = choose_runtime("auto", pack, training=False).runtime
    own = own_model(pack)
    first, plugin = (choose_weights(None, pack, model, 0) for model in (own, pack.manifest.plugin))
    hearing = HearingModel(folder, runtime, own, first, plugin)
    now = hearing.choose(nothing(pack)).candidate
    return Detector(frontend_of(runtime), pack.labels, now.recognise, hearing.detect, model=now.name)


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    """Half a minute in which two keywords and other words are said in noise."""
    return compose_scene(plan_scenes(spoken_sources(), (), Plan(minutes=0.5)), 2, seed=1).samples


@pytest.mark.parametrize("name", ["gsc12", "home", "waking"])
def test_it_hears_what_a_new_device_hears(name: str, sound: np.ndarray, tmp_path: Path) -> None:
    pack = waking_pack() if name == "waking" else load_pack(name)
    detector = device(pack, tmp_path)
    due = facts([d for at in range(0, len(sound), 1600) for d in detector.feed(Block(sound[at : at + 1600], at, 0.0))])
    assert due or name == "home"
    listener = Listener(pack)
    assert facts(listener.feed(sound)) == due
    pieces, cut = np.split(sound, np.sort(np.random.default_rng(0).integers(0, len(sound), 50))), Listener(pack)
    assert facts([d for piece in pieces for d in cut.feed(piece)]) == due
    listener.reset()
    again = facts(listener.feed(sound.astype(np.float32) / 32_768))
    assert [fact[:3] for fact in again] == [fact[:3] for fact in due]


def test_a_pack_is_named_by_its_file_too_and_settings_go_over_the_packs(sound: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "words.tar.zst"
    path.write_bytes(pack_bytes(waking_pack()))
    assert Listener(path).words == load_pack("gsc12").labels[:-2]
    assert {d.word for d in Listener(str(path), DetectTable(wake=(), threshold=0.3)).feed(sound)} >= {"yes", "stop"}
    with pytest.raises(PackError, match='did you mean "home"'):
        Listener("hme")


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (np.zeros((4, 2), np.int16), "one channel"),
        (np.zeros(4), "not float64"),
        (np.array([0, np.nan], np.float32), "finite"),
    ],
)
def test_what_is_no_sound_is_refused_in_a_sentence(samples: np.ndarray, said: str) -> None:
    with pytest.raises(DataError, match=said):
        Listener("gsc12").feed(samples)
