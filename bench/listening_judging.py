"""The listening bench's judge: devices on the same sound, with the plug-in alone and as each device listens."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.hearing.curve import Counts, curve_of, interpolate, points
from auricle.hearing.rule import Posteriors
from auricle.hearing.scenes import Scene
from auricle.hearing.second_stage import cascade, levels_of
from auricle.packs.pack import Pack
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_edge.evaluate.listeners import rule_of, thresholds_of
from auricle_edge.evaluate.plan import compose_scene
from auricle_edge.evaluate.sources import Sources
from auricle_edge.evaluate.windows import judge_windows
from auricle_edge.listening.detect import detect_settings
from auricle_edge.runtimes import choose_runtime
from auricle_edge.training.own_model import own_model
from auricle_learning.runtimes import recogniser
from bench.listening_device import ALWAYS, State
from bench.listening_owners import Owner
from bench.listening_result import DEVICE, PLUGIN, AtRate, AtThresholds, Side
from bench.listening_sound import judging_scenes

RATES = (1.0, 5.0, 20.0)
"""False accepts an hour of all devices together at which hits are stated."""
LISTENERS = (PLUGIN, DEVICE)


@dataclass(frozen=True)
class Sound:
    """How much of what judges."""

    minutes: float = 4.0
    """Of each kind of sound without keywords, an owner."""
    passes: int = 1
    seed: int = 0


class Judge:
    """Lets states of devices hear sound.

    Parameters
    ----------
    pack
        Of the devices.
    sources, sound
        That judge.
    local
        Name of the devices' own model; None: the pack's larger one.
    """

    def __init__(self, pack: Pack, sources: Sources, sound: Sound, local: str | None = None) -> None:
        self._own = own_model(pack, local)
        self._pack, self._sources, self._sound = pack, sources, sound
        self._detect = detect_settings(ALWAYS, pack)
        self._runtime = choose_runtime("auto", pack, training=False).runtime
        self._levels = thresholds_of(pack.labels, self._detect)

    def scenes(self, owner: Owner, number: int) -> list[Scene]:
        """What owner `number` of a fleet is judged by; the same each time."""
        rng = np.random.default_rng([self._sound.seed, 2, number])
        made = judging_scenes(owner, self._sources, self._sound.minutes, self._sound.passes, rng)
        return [compose_scene(made, place, 1000 * self._sound.seed + number) for place in range(len(made))]

    def hear(self, scenes: Sequence[Scene], states: Sequence[State]) -> list[dict[str, list[Posteriors]]]:
        """Posteriors of each scene by both listeners, for each state."""
        frontend, labels = LogMel(self._pack.manifest.task), self._pack.labels
        own, plugin = self._own, self._pack.manifest.plugin
        found: list[dict[str, list[Posteriors]]] = [{name: [] for name in LISTENERS} for _ in states]
        models: dict[str, tuple[str, Flat]] = {}
        for state in states:
            models[_digest(state.plugin)] = (plugin, state.plugin)
            if state.chosen != "plugin" and state.own is not None:
                models[_digest(state.own)] = (own, state.own)
        recognisers = [recogniser(self._runtime, model, weights) for model, weights in models.values()]
        for scene in scenes:
            rows = judge_windows(scene.samples, frontend, recognisers, self._detect, len(labels))
            said = {digest: row.first for digest, row in zip(models, rows, strict=True)}
            for state, mine in zip(states, found, strict=True):
                mine[PLUGIN].append(said[_digest(state.plugin)])
                mine[DEVICE].append(self._combined(state, said))
        return found

    def _combined(self, state: State, said: dict[str, Posteriors]) -> Posteriors:
        first = said[_digest(state.plugin)]
        if state.chosen == "plugin" or state.own is None:
            return first
        second = said[_digest(state.own)]
        if state.chosen == "personal":
            return second
        if state.chosen == "ensemble":
            mean: Posteriors = ((first + second) / 2).astype(np.float32)
            return mean
        levels = levels_of(self._pack.labels, self._levels)
        return cascade(first, second, levels, self._detect.smoothing, self._detect.proposal)

    def at_thresholds(
        self, scenes: Sequence[Scene], posteriors: Sequence[Posteriors], states: Sequence[State] = ()
    ) -> AtThresholds:
        """What is heard at the thresholds that the pack carries, or at those of states.

        Parameters
        ----------
        states
            One for each scene; the pack's thresholds count without.
        """
        labels, rule = self._pack.labels, rule_of(self._detect)
        levels = [state.thresholds for state in states] or [self._levels] * len(scenes)
        table = [np.array([[level.get(label, math.inf) for label in labels]]) for level in levels]
        found = [
            curve_of([rows], [scene], labels, rule, level)
            for rows, scene, level in zip(posteriors, scenes, table, strict=True)
        ]
        accepts, hours = Counter[str](), dict[str, float]()
        for counts in found:
            accepts.update({kind: int(heard[0].sum()) for kind, heard in counts.false_accepts.items()})
            for kind, length in counts.hours.items():
                hours[kind] = hours.get(kind, 0.0) + length
        delays = np.concatenate([counts.delay[0][counts.hit[0]] for counts in found])
        return AtThresholds(
            len(delays),
            sum(len(counts.words) for counts in found),
            sum(int(number[0]) for counts in found for number in counts.wrong.values()),
            dict(accepts),
            hours,
            float(np.median(delays)) if len(delays) else None,
        )

    def played_to(self, states: Sequence[State], scenes: Sequence[Scene]) -> list[State]:
        """The state of the device that each scene was played to: as many scenes to each, device by device."""
        return [states[number * len(states) // len(scenes)] for number in range(len(scenes))]

    def side(
        self,
        when: str,
        listener: str,
        states: Sequence[State],
        scenes: Sequence[Scene],
        posteriors: Sequence[Posteriors],
    ) -> Side:
        """Everything about a listener, over all owners."""
        counts = curve_of(posteriors, scenes, self._pack.labels, rule_of(self._detect))
        chosen = Counter("plugin" if listener == PLUGIN else state.chosen for state in states)
        return Side(
            when,
            listener,
            dict(chosen),
            tuple(
                AtRate(p.rate, p.share, p.interval.low, p.interval.high, p.shown) for p in points(counts, rates=RATES)
            ),
            _shares(counts, "kind"),
            _shares(counts, "speaker"),
            self.at_thresholds(scenes, posteriors, self.played_to(states, scenes) if listener == DEVICE else ()),
        )


def _shares(counts: Counts, by: str) -> dict[str, tuple[float, ...]]:
    """Hits at `RATES` of all devices together, of the words of each kind or speaker."""
    accepts, hours = counts.total(), counts.all_hours
    found: dict[str, tuple[float, ...]] = {}
    for name in dict.fromkeys(getattr(word, by) for word in counts.words):
        mask = counts.chosen(kind=name) if by == "kind" else counts.chosen(speaker=name)
        shares = counts.hit[:, mask].mean(axis=1)
        found[name] = tuple(interpolate(accepts, shares, hours, rate) for rate in RATES)
    return found


def _digest(weights: Flat) -> str:
    return hashlib.sha256(np.ascontiguousarray(weights).tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Heard:
    """What every owner's device made of its sound, in each of its states."""

    scenes: tuple[Scene, ...]
    """Of all owners, without their samples."""
    said: tuple[dict[str, tuple[Posteriors, ...]], ...]
    """By state (the start of each day, and the end), then by listener: of each scene."""
    plugins: tuple[tuple[Scene, ...], tuple[tuple[Posteriors, ...], ...]]
    """Scenes of the first owners, and what the published plug-ins made of them, in order."""


def hear_all(
    judge: Judge,
    owners: Sequence[Owner],
    states: Sequence[Sequence[State]],
    plugins: Sequence[Flat],
    hours: float,
    say: Callable[[str], None],
) -> Heard:
    """Let every device hear its owner's sound as it was at each time, and the published plug-ins that of some.

    Parameters
    ----------
    states
        By time, then by owner.
    plugins
        Plug-ins (P,) as published.
    hours
        Of sound without keywords from which on no further owner's is played to all published plug-ins.
    """
    kept: list[Scene] = []
    said: list[dict[str, list[Posteriors]]] = [{name: [] for name in LISTENERS} for _ in states]
    first, published = list[Scene](), [list[Posteriors]() for _ in plugins]
    alone = [State(plugin, None, "plugin", {}) for plugin in plugins]
    for number, owner in enumerate(owners):
        scenes = judge.scenes(owner, number)
        small = [replace(scene, samples=np.zeros(0, np.int16)) for scene in scenes]
        for mine, heard in zip(said, judge.hear(scenes, [each[number] for each in states]), strict=True):
            for name in LISTENERS:
                mine[name] += heard[name]
        if alone and _silent_hours(first) < hours:
            for rows, heard in zip(published, judge.hear(scenes, alone), strict=True):
                rows += heard[PLUGIN]
            first += small
        kept += small
        say(f"judging: {number + 1} of {len(owners)} owners")
    whole = tuple({name: tuple(rows) for name, rows in each.items()} for each in said)
    return Heard(tuple(kept), whole, (tuple(first), tuple(map(tuple, published))))


def _silent_hours(scenes: Sequence[Scene]) -> float:
    return sum(part.end - part.start for scene in scenes for part in scene.stretches) / SAMPLE_RATE / 3600
