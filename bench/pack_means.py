"""What packs that were trained apart hear together: each model, their mean, and their mean as a second stage.

People of `gsc`, who are in no training of the packs in the wheel but `digits`, `gsc35` and `home-more`, say the words
that all packs have: alone, in noise, over speech and after other words; and, where the first pack has wake words, after
one of those (takes of `wakewords`). Sound without them: other words of `gsc` and `fsdd`, words of other languages of
`arabic`, readers of `stream` and all noises. With `--part` it is the people of that part of `gsc-more` and `gsc`
instead, and the readers and noises of it, without `fsdd`: so are packs judged that `gsc` trained too. Every model
judges every window of the same sound.

Printed are hits at fixed false accepts an hour, one threshold for all words, how many recordings are named rightly
alone and how many of these are heard at five an hour, and what becomes of commands where the first pack's plug-in
proposes and another model, or a mean of some, judges too: at the thresholds of that pack for its wake words, and some
for commands; and as each pack with these wake words listens, at its own thresholds.

    python bench/pack_means.py --data DATA [--pack home --pack gsc12-res --pack gsc12] [--minutes 40] [--json]
    python bench/pack_means.py --data DATA --pack home --pack mine.tar.zst --mean home/resnet-base+mine/resnet-base
    python bench/pack_means.py --data DATA --pack home --pack home-more --part test
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.errors import SettingsError
from auricle.hearing.command_counts import CommandCounts
from auricle.hearing.curve import Counts, curve_of, points
from auricle.hearing.rule import keyword_mask
from auricle.hearing.sounds import Take, fingerprint
from auricle.hearing.splits import Part
from auricle.hearing.wake_scenes import wake_then_command
from auricle.hearing.waking import Waking
from auricle.packs.manifest import UNKNOWN, Listening
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_weights
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.features import LogMel
from auricle_edge.evaluate.plan import Plan, compose_scene, plan_scenes
from auricle_edge.evaluate.sources import Folders, Sources, read_sources
from auricle_export.pretrain.listening import count_commands
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.second_stage import Sound
from auricle_export.pretrain.streams import Recognise, Streams, streams_of
from auricle_export.pretrain.teachers import refuse_features
from bench.answer import answer
from bench.hearing_sound import load_stranger
from bench.pack_means_table import Commands, Live, Own, Result, text_of
from bench.step_process import say

RATES = (10.0, 5.0, 1.0)
KINDS = ("noise", "over speech", "after words")
LEVELS = (0.54, 0.5, 0.45, 0.4, 0.35, 0.3)
"""Thresholds of commands that are tried."""
_AT_ONCE = 256

Rows = list[NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Posteriors:
    """What a model says, in the labels of the first pack."""

    live: Rows
    """(hops, L) of each scene in which words always count."""
    commands: Rows
    """The same of scenes of wake words and commands."""
    alone: NDArray[np.float32]
    """(N, L) of the recordings by themselves."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--pack", action="append", help="names and files [home, gsc12-res, gsc12]")
    parser.add_argument("--mean", action="append", help="PACK/MODEL+PACK/MODEL, several times [all of them]")
    parser.add_argument("--part", choices=("validation", "test"), help="of the people [all of gsc]")
    parser.add_argument("--passes", type=int, default=1, help="how often each recording is heard, in other noise")
    parser.add_argument("--minutes", type=float, default=40.0, help="of each kind of sound without keywords")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.passes < 1:
        parser.error("--passes has to be at least 1")
    given.pack = given.pack or ["home", "gsc12-res", "gsc12"]
    return answer(lambda: measure(given), text_of, as_json=given.json)


def measure(given: argparse.Namespace) -> Result:
    """Let every model hear everything.

    Raises
    ------
    SettingsError
        A mean names a model that is not there, or the packs have no words in common.
    """
    load = load_pack if given.part else load_stranger
    packs = {Path(name).name.removesuffix(".tar.zst"): load(name) for name in given.pack}
    first = next(iter(packs.values()))
    models = {f"{name}/{model}": (pack, model) for name, pack in packs.items() for model in pack.manifest.start}
    means = [each.split("+") for each in given.mean or ["+".join(models)]]
    for model in (model for mean in means for model in mean):
        if model not in models:
            raise SettingsError(f'There is no model "{model}": name some of {", ".join(models)}.')
    for name, pack in packs.items():
        refuse_features(f"pack {name}", pack, first)
    wake = () if first.listening is None else first.listening.wake
    common = [word for word in first.labels if all(word in pack.labels for pack in packs.values())]
    words = [word for word, known in zip(common, keyword_mask(common), strict=True) if known and word not in wake]
    if not words:
        raise SettingsError(f"The packs {', '.join(packs)} have no words in common: name others.")
    sources = _sources(given.data, given.part, [*wake, *words], first)
    said = tuple(take for take in sources.keywords if take.word in words)
    wakes = [take for take in sources.keywords if take.word in wake]
    live = _live_streams(replace(sources, keywords=said), Plan(given.minutes, given.passes), first)
    asked = _command_streams(wakes, said * given.passes, sources, first) if wakes else None
    heard: dict[str, Posteriors] = {}
    for name, (pack, model) in models.items():
        say(f"{name} listens")
        recognise = _in_labels(pack, model, first)
        commands = [] if asked is None else asked.posteriors(_in_labels(pack, model, first, wake))
        heard[name] = Posteriors(live.posteriors(recognise), commands, _alone(said, first, recognise))
    targets = np.array([first.labels.index(take.word) for take in said])
    listeners = [[name] for name in models] + [mean for mean in means if len(mean) > 1]
    found = tuple(_live("+".join(each), mean_of(heard, each), live, words, said, targets) for each in listeners)
    plugin = f"{next(iter(packs))}/{first.manifest.plugin}"
    staged: list[Commands] = []
    if asked is not None and first.listening is not None and plugin in heard:
        seconds = [tuple(name for name in each if name != plugin) for each in ([], *listeners)]
        for second in dict.fromkeys(seconds):
            staged += _commands(plugin, second, heard, asked, first.listening, words)
    own = _own(packs, heard, asked) if asked is not None else []
    people = len({take.speaker for take in said})
    return Result(len(said), people, round(live_hours(live), 2), found, plugin, tuple(staged), tuple(own))


def _sources(data: Path, part: Part | None, words: Sequence[str], pack: Pack) -> Sources:
    more = (data / "gsc-more",) if part else ()
    folders = Folders(
        keywords=(data / "gsc", *more, data / "wakewords"),
        noise=(data / "gsc" / "_background_noise_",),
        speech=(data / ("stream-more" if part else "stream") / "speech",),
        words=(data / "gsc", *(more or (data / "fsdd",))),
        languages=(data / "arabic",),
    )
    return read_sources(folders, words, [part] if part else [], pack.manifest.task.clip_samples)


def _live_streams(sources: Sources, plan: Plan, pack: Pack) -> Streams:
    """Scenes of the protocol of docs/hearing.md without their samples, which would fill the memory."""
    made, frontend = plan_scenes(sources, (), plan), LogMel(pack.manifest.task)
    return joined(streams_of([compose_scene(made, number, 0)], pack.labels, frontend) for number in range(len(made)))


def _command_streams(wakes: Sequence[Take], said: Sequence[Take], sources: Sources, pack: Pack) -> Streams:
    rng, frontend = np.random.default_rng(5), LogMel(pack.manifest.task)
    order = rng.permutation(len(said))
    parts = [[said[place] for place in order[start : start + 50]] for start in range(0, len(order), 50)]
    scenes = (wake_then_command(wakes, part, sources.noise, rng, snr=Plan().snr) for part in parts)
    return joined(streams_of([scene], pack.labels, frontend) for scene in scenes)


def joined(streams: Iterable[Streams]) -> Streams:
    """Streams one after the other as one, their scenes without samples."""
    parts = []
    for part in streams:
        parts.append(replace(part, scenes=tuple(replace(s, samples=s.samples[:0]) for s in part.scenes)))
    scenes = tuple(scene for part in parts for scene in part.scenes)
    return replace(parts[0], scenes=scenes, energies=tuple(energies for part in parts for energies in part.energies))


def _in_labels(pack: Pack, model: str, first: Pack, wake: Sequence[str] = ()) -> Recognise:
    """A model's posteriors in the labels of the first pack, whose plug-in says the wake words that the pack lacks."""
    recognise = recogniser_of(model, pack, start_weights(pack, model))
    to = np.zeros((len(pack.labels), len(first.labels)), np.float32)
    for row, word in enumerate(pack.labels):
        to[row, first.labels.index(word if word in first.labels else UNKNOWN)] = 1
    columns = [first.labels.index(word) for word in wake if word not in pack.labels]
    plugin = first.manifest.plugin
    other = recogniser_of(plugin, first, start_weights(first, plugin)) if columns else None

    def posteriors(features: NDArray[np.float32]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = recognise(features) @ to
        if other is not None:
            rows[:, columns] = other(features)[:, columns]
        return rows

    return posteriors


def _alone(said: Sequence[Take], pack: Pack, recognise: Recognise) -> NDArray[np.float32]:
    frontend = LogMel(pack.manifest.task)
    batches = [said[start : start + _AT_ONCE] for start in range(0, len(said), _AT_ONCE)]
    return np.concatenate([recognise(frontend(np.stack([take.sound for take in batch]))) for batch in batches])


def mean_of(heard: Mapping[str, Posteriors], names: Sequence[str]) -> Posteriors:
    """The mean of what some models say."""
    each = [heard[name] for name in names]

    def mean(rows: Iterable[Rows]) -> Rows:
        return [np.mean(scene, axis=0, dtype=np.float32) for scene in zip(*rows, strict=True)]

    alone: NDArray[np.float32] = np.stack([one.alone for one in each]).mean(axis=0)
    return Posteriors(mean(one.live for one in each), mean(one.commands for one in each), alone)


def live_hours(streams: Streams) -> float:
    """Of sound without keywords."""
    stretches = (stretch for scene in streams.scenes for stretch in scene.stretches)
    return sum(stretch.end - stretch.start for stretch in stretches) / SAMPLE_RATE / 3600


def _live(
    name: str,
    said: Posteriors,
    streams: Streams,
    words: Sequence[str],
    takes: Sequence[Take],
    targets: NDArray[np.int64],
) -> Live:
    columns = [streams.labels.index(word) for word in words]
    counts = curve_of([rows[:, columns] for rows in said.live], streams.scenes, tuple(words), streams.rule)
    right = said.alone.argmax(axis=1) == targets
    clear = {fingerprint(take.sound) for take, known in zip(takes, right, strict=True) if known}
    shown = counts.chosen(kind=KINDS[0]) & np.array([word.recording in clear for word in counts.words])
    hits = {f"{rate:g}": tuple(_share(counts, counts.chosen(kind=kind), rate) for kind in KINDS) for rate in RATES}
    return Live(name, hits, round(float(right.mean()), 4), _share(counts, shown, 5.0))


def _share(counts: Counts, mask: NDArray[np.bool_], rate: float) -> float:
    return round(points(counts, mask, (rate,))[0].share, 4)


def _commands(
    plugin: str,
    second: Sequence[str],
    heard: Mapping[str, Posteriors],
    streams: Streams,
    listening: Listening,
    words: Sequence[str],
) -> list[Commands]:
    found = []
    for level in LEVELS:
        listens = msgspec.structs.replace(listening, commands=dict.fromkeys(words, level))
        counts = _counted(heard[plugin].commands, mean_of(heard, second).commands if second else None, streams, listens)
        found.append(Commands("+".join(second), level, *_shares(counts)))
    return found


def _own(packs: Mapping[str, Pack], heard: Mapping[str, Posteriors], streams: Streams) -> list[Own]:
    """Packs with the wake words of the first, each as it listens."""
    found, wake = [], None
    for name, pack in packs.items():
        listening = pack.listening
        wake = wake or (listening and listening.wake)
        if listening is None or listening.wake != wake:
            continue
        second = None if listening.second_stage is UNSET else heard[f"{name}/{listening.second_stage}"].commands
        counts = _counted(heard[f"{name}/{pack.manifest.plugin}"].commands, second, streams, listening)
        found.append(Own(name, round(counts.woken / counts.wakes, 4), *_shares(counts)))
    return found


def _counted(first: Rows, second: Rows | None, streams: Streams, listening: Listening) -> CommandCounts:
    sound = Sound(streams, first, streams, first)
    if second is not None:
        sound = sound.staged(Sound(streams, second, streams, second), listening)
    assert sound.said is not None
    waking = Waking(listening.wake, listening.thresholds, listening.commands, listening.window, rule=streams.rule)
    return count_commands(streams, sound.said, waking)


def _shares(counts: CommandCounts) -> tuple[float, float, float]:
    """Of commands, right; of those after a wake word that was heard, wrong; of wake words alone, with a command."""
    wrong, false = counts.wrong / max(counts.reached, 1), counts.false / max(counts.alone, 1)
    return round(counts.right / counts.commands, 4), round(wrong, 4), round(false, 4)


if __name__ == "__main__":
    sys.exit(main())
