"""The power may be cut at any write: what was acknowledged is there, nothing else stays, and the store goes on."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.edge.clip_power import Camera
from tests.edge.clip_sounds import FRONTEND, Hands, new, tone

from auricle_edge.clips import ClipSettings, ClipStore


@dataclass
class Ledger:
    """What a user was told, and what is under way."""

    settings: ClipSettings
    words: dict[str, str] = field(default_factory=dict)
    """Label by id of every clip that was acknowledged."""
    seeds: dict[str, int] = field(default_factory=dict)
    open: dict[str, set[str | None]] = field(default_factory=dict)
    """What else may be true of a clip while an operation on it is under way; None: it is gone."""
    seed: int | None = None
    """Of the clip that is being added."""

    def look(self, image: Path, what: str) -> None:
        sealed = self.settings.key_file is not None
        settings = msgspec.structs.replace(self.settings, key_file=str(image / "key") if sealed else None)
        store = ClipStore(image, settings, FRONTEND, clock=Hands())
        try:
            clips = {clip.id: clip for clip in store.list()}
            for clip, word in self.words.items():
                found = clips.pop(clip).record.word if clip in clips else None
                assert found == word or found in self.open.get(clip, ()), (what, clip, found, word)
                if found is not None:
                    np.testing.assert_array_equal(store.read(clip), tone(self.seeds[clip]), err_msg=what)
            for clip in clips:
                assert self.seed is not None, what
                np.testing.assert_array_equal(store.read(clip), tone(self.seed), err_msg=what)
            kept = store.list()
            assert not any(clip.damaged for clip in kept), what
            files = {path.name for path in (image / "files").glob("*")} | {p.name for p in (image / "files").glob(".*")}
            assert files == {clip.file for clip in kept}, what
            assert not (image / "wiping").exists(), what
            store.add(new(99))
        finally:
            store.close()
        with sqlite3.connect(image / "index.sqlite") as index:
            assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",), what


def _add(store: ClipStore, ledger: Ledger, seed: int, word: str = "yes") -> str:
    ledger.seed = seed
    clip = store.add(new(seed, word))
    ledger.seed = None
    ledger.words[clip], ledger.seeds[clip] = word, seed
    return clip


def _change(operation: str, store: ClipStore, ledger: Ledger) -> None:
    """Do it; until it is done any clip may be gone, or the first one's label may be the other."""
    first = next(iter(ledger.words))
    may: dict[str, set[str | None]] = {"relabel": {"no"}, "add": set()}
    for clip in [first] if operation in ("relabel", "delete") else ledger.words:
        ledger.open[clip] = may.get(operation, {None})
    if operation == "relabel":
        store.relabel(first, "no", "confirmed")
        ledger.words[first] = "no"
        ledger.open.clear()
    elif operation == "delete":
        store.delete([first])
        del ledger.words[first]
    elif operation == "wipe":
        store.wipe()
        ledger.words.clear()
    else:
        _add(store, ledger, 3, "no" if operation == "add" else "yes")


OPERATIONS = ("add", "add with eviction", "relabel", "delete", "wipe")


def _run(folder: Path, operation: str, before: int, *, sealed: bool = False) -> None:
    key = str(folder / "clips" / "key") if sealed else None
    settings = ClipSettings(key_file=key, clips_per_label=10, held_out=0.0)
    ledger = Ledger(settings)
    camera = Camera(folder / "clips", ledger.look)
    store = ClipStore(folder / "clips", settings, FRONTEND, disk=camera, clock=Hands(), draw=lambda: 0.999)
    for seed in range(before):
        _add(store, ledger, 100 + seed)
    camera.on = True
    _change(operation, store, ledger)
    camera.step("after all", folder / "clips")
    print(f"{operation}: {camera.steps} steps, {camera.images} images")
    assert camera.images > camera.steps > 5


def test_a_power_cut_at_any_write_of_adding_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    _run(tmp_path, "add", 1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_power_cut_at_any_write_loses_nothing_that_was_acknowledged(
    operation: str, sealed: bool, tmp_path: Path
) -> None:
    _run(tmp_path, operation, 10 if "eviction" in operation else 2, sealed=sealed)
