"""A morning: everything is in it, where it says that it is, and nothing that was heard is lost."""

from __future__ import annotations

import numpy as np
from bench.morning import Morning, text_of
from bench.morning_sound import COMMANDS, WAKES, a_morning

from auricle.hearing.scenes import Scene
from auricle.hearing.sounds import Take
from auricle.hearing.wake_scenes import COMMAND, WAKE, WAKE_ALONE
from auricle.hearing.waking import Heard
from auricle.speech.audio import SAMPLE_RATE
from auricle_edge.evaluate.device import device_events
from auricle_edge.evaluate.sources import Sources


def _sound(seconds: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * SAMPLE_RATE)).astype(np.float32)


def _sources() -> Sources:
    said = tuple(Take(word, f"s{n}", _sound(1, n)) for word in ("computer", "stop", "go") for n in range(3))
    others = tuple(Take("tree", f"s{n}", _sound(1, 10 + n)) for n in range(3))
    return Sources(said, others, (), (_sound(4, 20), _sound(3, 21)), (_sound(5, 22), _sound(5, 23)))


def _morning(scene: Scene, said: list[Heard]) -> Morning:
    events = device_events([scene], [said], ("computer",), 3.0)
    told = tuple((h.decided / SAMPLE_RATE, "detection" if h.command else "wake", h.word) for h in said)
    return Morning("home", 1.0, events, 1.0, (0.5,), 0.0, told)


def test_every_kind_of_sound_is_in_a_morning_as_often_as_it_has_parts() -> None:
    scene = a_morning(_sources(), ("computer",), 2.0, 0)
    parts = sum(stretch.kind == "quiet" for stretch in scene.stretches)
    assert parts >= 1 and len(scene.samples) >= 2 * 60 * SAMPLE_RATE
    assert {stretch.kind for stretch in scene.stretches} == {"quiet", "noise", "speech", "words", "run together"}
    kinds = [word.kind for word in scene.words]
    assert kinds.count(COMMAND) == kinds.count(WAKE) == COMMANDS * parts
    assert all(kinds.count(kind) == WAKES * parts for kind in ("noise", "over speech", "after words"))
    assert all(0 <= word.start < word.end <= len(scene.samples) for word in scene.words)


def test_what_is_heard_is_counted_once_each() -> None:
    scene = a_morning(_sources(), ("computer",), 1.0, 1)
    said = [Heard(w.word, w.end, command=w.kind == COMMAND) for w in scene.words]
    wrong = next(stretch for stretch in scene.stretches if stretch.kind == "quiet")
    said.append(Heard("computer", wrong.start + SAMPLE_RATE, command=False))
    said.append(Heard("go", wrong.start + 2 * SAMPLE_RATE, command=True))
    text = text_of(_morning(scene, sorted(said, key=lambda heard: heard.decided)))
    counts = _morning(scene, said).events.commands
    assert counts.right == counts.commands == sum(word.kind == COMMAND for word in scene.words)
    assert counts.wakes == sum(word.kind in (WAKE, WAKE_ALONE) for word in scene.words)
    assert "nobody said   1, 0 of them after a wake word alone" in text
    assert "quiet" in text and "false wakes 1, false commands 1" in text
    assert max(map(len, text.splitlines())) <= 80
