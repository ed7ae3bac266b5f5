"""What a frozen network made of clips lies beside them: for the next process, and no longer than the clips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.edge.clip_sounds import store, tone
from tests.export.frozen_toy import toy_network_pack

from auricle.wire.plan import Plan
from auricle_edge.clips import ClipStore, NewClip
from auricle_edge.clips.vector_files import clips_in
from auricle_learning.runtimes import StepRuntime, frontend_of
from auricle_learning.training.round_result import RoundResult
from auricle_learning.training.train import Trainer

PACK = toy_network_pack()
FRONTEND = frontend_of(StepRuntime(PACK))
PLAN = Plan(mode="supervised", optimizer="sgd", epochs=40, rate=0.1, local_rate=0.1, momentum=0.9, augment=True)
WORDS = ("computer", "_unknown_", "_silence_")


def clip(seed: int) -> NewClip:
    """Half a second of a word."""
    word = WORDS[seed % 3]
    return NewClip(tone(seed, 50.0 if word == "_silence_" else 3000.0, 8_000), word, "enrolled", 1.0)


def filled(folder: Path, count: int = 9, **settings: Any) -> ClipStore:
    """A store with clips of all labels."""
    kept = store(folder, frontend=FRONTEND, **settings)
    for seed in range(count):
        kept.add(clip(seed))
    return kept


def trained(kept: ClipStore, *, vectors: bool = True) -> tuple[RoundResult, int]:
    """What a round on the clips makes, as after a start, and how many windows the network heard for it."""
    data = kept.device_data()
    if not vectors:
        data = type(data)(data.train, data.held_out, data.noise, data.unlabelled)
    trainer = Trainer(StepRuntime(PACK), PACK.manifest.plugin, data, 1)
    heard: list[int] = []
    network, finish = trainer.frontend.network, trainer.frontend.network.vectors

    def counted(mels: np.ndarray) -> np.ndarray:
        heard.append(len(mels))
        return finish(mels)

    network.vectors = counted  # type: ignore[method-assign]
    result = trainer.run(PLAN, 1, PACK.plugin_table.initial(0), trainer.first_state())
    trainer.renew(data.silenced())  # as when the device rests
    return result, sum(heard)


def files(kept: ClipStore) -> dict[str, bytes]:
    """The files of vectors."""
    return {path.name: path.read_bytes() for path in (kept.folder / "files").glob("*") if clips_in(path.name)}


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_another_process_trains_the_same_bytes_and_the_network_hears_nothing_again(
    sealed: bool, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"key_file": str(tmp_path / "key")} if sealed else {}
    kept = filled(tmp_path, **settings)
    alone, heard_alone = trained(kept, vectors=False)
    assert not files(kept)
    first, heard = trained(kept)
    kept.close()
    second, again = trained(store(tmp_path, frontend=FRONTEND, **settings))
    assert heard == heard_alone > 9
    assert again == 0
    assert np.array_equal(alone.plugin, first.plugin)
    assert np.array_equal(first.plugin, second.plugin)
    assert {path.stat().st_mode & 0o777 for path in (kept.folder / "files").iterdir()} == {0o600}


def cut(data: bytes) -> bytes:
    """Half of a file."""
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    """One bit is another."""
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("damage", [cut, flipped, lambda _: b"", lambda _: bytes(2 << 20)])
def test_a_damaged_file_is_passed_over_and_made_again(
    damage: Callable[[bytes], bytes], sealed: bool, tmp_path: Path
) -> None:
    kept = filled(tmp_path, key_file=str(tmp_path / "key") if sealed else None)
    first, _ = trained(kept)
    whole = files(kept)
    name = min(whole)
    (kept.folder / "files" / name).write_bytes(damage(whole[name]))
    second, again = trained(kept)
    assert 0 < again <= 5
    assert np.array_equal(first.plugin, second.plugin)
    assert files(kept).keys() == whole.keys()
    assert trained(kept)[1] == 0


def test_a_file_of_another_clip_or_network_is_passed_over(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    first, _ = trained(kept)
    whole = files(kept)
    names = sorted(whole)
    for name, other in zip(names, names[1:] + names[:1], strict=True):
        (kept.folder / "files" / name).write_bytes(whole[other])
    second, again = trained(kept)
    assert again == trained(filled(tmp_path / "other"))[1]
    assert np.array_equal(first.plugin, second.plugin)


def test_a_clip_takes_everything_with_it_that_its_sound_is_in(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    trained(kept)
    silence = next(each.id for each in kept.list(word="_silence_"))
    assert any(silence in clips_in(name)[1:] for name in files(kept))
    links = tmp_path / "links"
    links.mkdir()
    for name, data in files(kept).items():
        if silence in clips_in(name):
            (links / name).hardlink_to(kept.folder / "files" / name)
            assert (links / name).read_bytes() == data
    before = files(kept)
    kept.delete([silence])
    assert files(kept) == {name: data for name, data in before.items() if silence not in clips_in(name)}
    assert all(link.read_bytes() != before[link.name] for link in links.iterdir())
    trained(kept)
    assert not any(silence in clips_in(name) for name in files(kept))


def test_what_a_trainer_still_has_of_a_deleted_clip_is_not_written(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    data = kept.device_data()
    trainer = Trainer(StepRuntime(PACK), PACK.manifest.plugin, data, 1)
    trainer.run(PLAN, 1, PACK.plugin_table.initial(0), trainer.first_state())
    gone = [each.id for each in kept.list(word="computer")]
    store(tmp_path, frontend=FRONTEND).delete(gone)
    trainer.renew(data.silenced())
    assert {ids for name in files(kept) for ids in clips_in(name)} == {each.id for each in kept.list()}
    kept.wipe()
    assert not files(kept)


def test_what_a_power_cut_left_of_a_deleted_clip_goes_at_the_next_start(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    trained(kept)
    before = files(kept)
    gone = kept.list()[0].id
    kept.delete([gone])
    kept.close()
    for name, data in before.items():
        (kept.folder / "files" / name).write_bytes(data)
    again = store(tmp_path, frontend=FRONTEND)
    assert files(again).keys() == {name for name in before if gone not in clips_in(name)}
    assert again.unreadable == 0


def test_another_label_costs_no_vectors(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    trained(kept)
    before = files(kept)
    word = kept.list(word="computer")[0]
    kept.relabel(word.id, "_unknown_", "denied")
    assert files(kept) == before
    assert trained(kept)[1] == 0


def test_vectors_are_within_the_quota_and_give_way_to_clips(tmp_path: Path) -> None:
    kept = filled(tmp_path, 15, megabytes=0.25)
    clips = sum(each.bytes for each in kept.list())
    trained(kept)
    vectors = sum(map(len, files(kept).values()))
    assert clips < clips + vectors <= 250_000
    for seed in range(15, 20):
        kept.add(clip(seed))
        clips, left = sum(each.bytes for each in kept.list()), sum(map(len, files(kept).values()))
        assert clips + left <= 250_000
    assert len(kept.list()) == 20
    assert left < vectors


def test_a_disk_that_refuses_costs_no_round(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = filled(tmp_path)
    data = kept.device_data()
    kept.close()
    trainer = Trainer(StepRuntime(PACK), PACK.manifest.plugin, data, 1)
    result = trainer.run(PLAN, 1, PACK.plugin_table.initial(0), trainer.first_state())
    trainer.renew(data.silenced())
    assert result.steps
    assert not files(kept)
    assert "is not kept" in caplog.text
