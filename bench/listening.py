"""Keywords of one speaker over background noise, and sound without keywords, through the detector: hits, false accepts,
latency from the word's end, real-time factor, memory. Weights are put side by side on the same sound, seed by seed.

    python bench/listening.py --data ../shared/data [--seeds 5] [--rounds 30] [--minutes 10] [--pace fast|real]
        [--threshold T] [--judge clips|streams] [--negatives] [--json]
        [--weights before=crnn-lite --weights after=crnn-lite:model.safetensors]

Without `--weights`, the default model is put beside what the same device chooses after `--rounds` rounds of training on
nothing but its own labels (`listening_rounds.py`): each seed is a device of one fleet, judged on takes, people, readers
and noises that no device heard. `--judge clips` judges rounds on single held-out clips against the round before,
`streams` by the detector's rule on streams against the best state; `--negatives` puts negatives of other people into
the pack. Last, the first device's words go through a FIFO at the speed of a microphone to the whole service, `auricle
edge run`, for its latency, CPU time and memory (`listening_service.py`; `--no-service` leaves it out).

Weights are `NAME=MODEL` (the pack's own), `NAME=MODEL:FILE.safetensors`, and `NAME=...+...` for the mean of several.
Seed s takes the s-th speaker of those with most keyword clips and draws pauses, noise and loudness. `--pace real` plays
at the speed of a microphone; `fast` feeds the same blocks as fast as they are taken and counts the time as if they had
come at that speed. Memory is that of a process that does nothing but listen. Columns are medians over the seeds and
their range. Wrong words, in the speaker's own scene, are words heard as another one, or where nobody spoke.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import numpy as np
from bench.listening_negatives import with_other_people
from bench.listening_rounds import Days, Device, Owner, owner_of, train_together
from bench.listening_scene import (
    RATE,
    Scene,
    Spoken,
    other_scene,
    other_words,
    running_speech,
    speakers,
    surroundings,
    words_scene,
)
from bench.listening_service import heard_by_service
from bench.listening_worker import Found, Heard, Task

from auricle.pack import load_pack
from auricle.speech.audio import ClipFile, read_audio, scan_folder
from auricle_edge.detect import DetectSettings, DetectTable, detect_settings
from auricle_edge.detect.decision import is_keyword

WITHIN = 1.0
"""Seconds after the word's end within which a detection of it is a hit."""
SNR = (5.0, 20.0)
"""dB, least and greatest."""
PASSES = 3
"""How often each take that judges is said, in other noise each time."""


@dataclass(frozen=True)
class Row:
    """One set of weights on the scenes of one seed."""

    weights: str
    seed: int
    speaker: str
    hits: int
    words: int
    wrong: int
    """Detections in the speaker's scene that are no hits."""
    false_accepts: dict[str, int]
    """In sound without keywords, by kind."""
    hours: dict[str, float]
    latency_p50: float | None
    latency_p95: float | None
    word_end_error: float | None
    """Median distance in seconds of the detector's own estimate of the word's end from the true one."""
    real_time_factor: float
    open_share: float
    pss_mb: float

    @property
    def accepts_per_hour(self) -> float:
        """Of all sound without keywords."""
        return sum(self.false_accepts.values()) / sum(self.hours.values())


@dataclass(frozen=True)
class Matched:
    """Detections of a scene, compared with what was said."""

    hits: tuple[tuple[Spoken, Found], ...]
    wrong: int


def match(words: Sequence[Spoken], found: Sequence[Found]) -> Matched:
    """Give each word the first detection of it from its start to `WITHIN` after its end; the others are wrong."""
    left = list(found)
    hits = []
    for word in words:
        inside = (
            f for f in left
            if f.word == word.word and word.start <= f.decided * RATE <= word.end + WITHIN * RATE
        )  # fmt: skip
        first = next(inside, None)
        if first is not None:
            hits.append((word, first))
            left.remove(first)
    return Matched(tuple(hits), len(left))


def models_of(text: str) -> tuple[tuple[str, str | None], ...]:
    """`MODEL[:FILE][+MODEL[:FILE]]` as pairs."""
    pairs = (part.partition(":") for part in text.split("+"))
    return tuple((model, file or None) for model, _, file in pairs)


def heard(scene: Scene, folder: Path, given: argparse.Namespace, models: tuple[tuple[str, str | None], ...]) -> Heard:
    """Let a process of its own listen to a scene."""
    sound = folder / "scene.raw"
    scene.samples.tofile(sound)
    chosen = detect_settings(DetectTable(threshold=given.threshold, wake=()), load_pack(given.pack))
    task = Task(
        sound=str(sound), pack=given.pack, models=models, settings=chosen,
        real_time=given.pace == "real",
    )  # fmt: skip
    command = [sys.executable, str(Path(__file__).with_name("listening_worker.py"))]
    done = subprocess.run(command, input=msgspec.json.encode(task), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Heard)


def row(name: str, seed: int, speaker: str, scenes: tuple[Scene, Scene], heards: tuple[Heard, Heard]) -> Row:
    """Compare what was heard in the speaker's scene and in the other one with what was said."""
    (own, others), (own_heard, others_heard) = scenes, heards
    matched = match(own.words, own_heard.found)
    errors = [abs(found.word_end - word.end) / RATE for word, found in matched.hits]
    p50, p95 = latencies(matched.hits)
    accepts = {
        part.kind: sum(part.start <= f.decided * RATE < part.end for f in others_heard.found) for part in others.parts
    }
    return Row(
        name, seed, speaker, len(matched.hits), len(own.words), matched.wrong, accepts,
        {part.kind: (part.end - part.start) / RATE / 3600 for part in others.parts}, p50, p95,
        statistics.median(errors) if errors else None, others_heard.real_time_factor, others_heard.open_share,
        others_heard.pss_kb * 1024 / 1e6,
    )  # fmt: skip


def own_clips(clips: Sequence[ClipFile], speaker: str, words: Sequence[str]) -> list[ClipFile]:
    """The keywords that a speaker says."""
    return [clip for clip in clips if clip.speaker == speaker and clip.word in words]


def measure(given: argparse.Namespace) -> list[Row]:
    """A row for each seed and each set of weights."""
    words = [label for label in load_pack(given.pack).labels if is_keyword(label)]
    clips = scan_folder(given.data / "gsc")
    noise = [read_audio(path) for path in clips.noise]
    people = speakers(clips, words, 20)
    rows = []
    for seed in range(given.seeds):
        speaker = people[seed % len(people)]
        rng = np.random.default_rng(seed)
        scenes = (
            words_scene(own_clips(clips.clips, speaker, words), noise, rng, SNR),
            other_scene(
                other_words(given.data, words), running_speech(given.data), noise, rng, SNR, given.minutes * 60
            ),
        )
        for text in given.weights:
            name, _, models = text.partition("=")
            with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
                own, others = (heard(scene, Path(folder), given, models_of(models)) for scene in scenes)
            rows.append(row(name, seed, speaker, scenes, (own, others)))
            print(f"seed {seed}, {name}: {rows[-1].hits} of {rows[-1].words}", file=sys.stderr)
    return rows


def measure_rounds(given: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """A row for each device before and after its rounds, and lines about the first one's whole service."""
    pack = load_pack(given.pack)
    words = [label for label in pack.labels if is_keyword(label)]
    clips = scan_folder(given.data / "gsc")
    lived, judging = surroundings(given.data, words)
    people = speakers(clips, words, 20)[given.first :][: given.seeds]
    owners = [owner_of(name, own_clips(clips.clips, name, words), given.days) for name in people]
    days = Days(lived, SNR, given.day_minutes, given.days, given.rounds)
    if given.negatives:
        pack = with_other_people(pack, given.data, list(lived.noise), SNR)
    rows, served = [], []
    with tempfile.TemporaryDirectory(prefix="auricle-") as made:
        folder = given.keep or Path(made)
        streams = given.judge == "streams"
        together = train_together(pack, owners, days, given.threshold, folder, _say, streams=streams)
        devices = asyncio.run(together)
        by_day = days_table(owners, devices)
        for seed, (owner, device) in enumerate(zip(owners, devices, strict=True)):
            rng = np.random.default_rng(1000 + seed)
            scenes = (
                words_scene(owner.judged * PASSES, judging.noise, rng, SNR),
                other_scene(judging.words, judging.speech, judging.noise, rng, SNR, given.minutes * 60),
            )
            sides: dict[str, tuple[tuple[str, str | None], ...]] = {
                "before": ((pack.manifest.plugin, None),), f"after {given.rounds} rounds": device.models(folder),
            }  # fmt: skip
            for name, models in sides.items():
                own, others = (heard(scene, folder, given, models) for scene in scenes)
                rows.append(row(name, seed, owner.name, scenes, (own, others)))
                _say(f"{owner.name}, {name}: {rows[-1].hits} of {rows[-1].words}, {rows[-1].accepts_per_hour:.1f}/h")
            if seed == 0 and given.service:
                served = [
                    service_line(name, scenes[0], heard_by_service(scenes[0], state, given.pack, given.threshold))
                    for name, state in zip(sides, (None, device.folder), strict=True)
                ]
    return rows, [*by_day, *served]


def days_table(owners: Sequence[Owner], devices: Sequence[Device]) -> list[str]:
    """False accepts an hour of each device on each day, in sound in which nobody means it."""
    days = len(devices[0].days)
    lines = [
        "",
        "| false accepts/h | " + " | ".join(f"day {day + 1}" for day in range(days)) + " |",
        "|" + "---|" * (days + 1),
    ]
    for owner, device in zip(owners, devices, strict=True):
        lines.append(f"| {owner.name} | " + " | ".join(f"{day.per_hour:.0f}" for day in device.days) + " |")
    return [*lines, ""]


def latencies(hits: Sequence[tuple[Spoken, Found]]) -> tuple[float | None, float | None]:
    """Median and 95th percentile of the seconds from the words' true ends to the decisions; None without hits."""
    seconds = [found.decided - word.end / RATE for word, found in hits]
    if not seconds:
        return None, None
    p50, p95 = np.percentile(seconds, (50, 95)).tolist()
    return p50, p95


def service_line(name: str, scene: Scene, said: Heard) -> str:
    """What the whole service did with the words of a device's owner."""
    matched = match(scene.words, said.found)
    p50, p95 = (_spread([value], 0, 1000).split(" ")[0] for value in latencies(matched.hits))
    return (
        f"service at real pace, {name}: {len(matched.hits)} of {len(scene.words)} words, {matched.wrong} wrong, "
        f"latency p50 {p50} ms, p95 {p95} ms; CPU time {100 * said.real_time_factor:.1f} % of the sound's "
        f"{len(scene.samples) / RATE:.0f} s, {said.pss_kb * 1024 / 1e6:.1f} MB PSS with its capture process"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _spread(values: Sequence[float | None], digits: int, scale: float = 1.0) -> str:
    known = [value * scale for value in values if value is not None]
    if not known:
        return "-"
    middle, least, most = statistics.median(known), min(known), max(known)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def summary(rows: Sequence[Row]) -> list[str]:
    """The table's lines, one for each set of weights, and the differences from the first."""
    names = list(dict.fromkeys(r.weights for r in rows))
    kinds = list(rows[0].hours)
    hours = sum(sum(r.hours.values()) for r in rows if r.weights == names[0])
    lines = [
        f"| weights | hits % | wrong words % | false accepts/h ({hours:.2f} h) | "
        + " | ".join(f"in {kind}, /h" for kind in kinds)
        + " | latency p50 ms | p95 ms | real-time factor % | MB PSS |",
        "|" + "---|" * (8 + len(kinds)),
    ]
    for name in names:
        mine = [r for r in rows if r.weights == name]
        cells = [
            name, _spread([r.hits / r.words for r in mine], 1, 100), _spread([r.wrong / r.words for r in mine], 1, 100),
            _spread([r.accepts_per_hour for r in mine], 1),
            *(_spread([r.false_accepts[kind] / r.hours[kind] for r in mine], 1) for kind in kinds),
            _spread([r.latency_p50 for r in mine], 0, 1000), _spread([r.latency_p95 for r in mine], 0, 1000),
            _spread([r.real_time_factor for r in mine], 2, 100), _spread([r.pss_mb for r in mine], 1),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    first = {r.seed: r for r in rows if r.weights == names[0]}
    for name in names[1:]:
        pairs = [(first[r.seed], r) for r in rows if r.weights == name]
        hits = _spread([b.hits / b.words - a.hits / a.words for a, b in pairs], 1, 100)
        accepts = _spread([b.accepts_per_hour - a.accepts_per_hour for a, b in pairs], 1)
        lines.append(f"\n{name} less {names[0]}, seed by seed: hits {hits} points, false accepts {accepts} an hour")
    return lines


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pack", default="gsc12")
    parser.add_argument("--weights", action="append", metavar="NAME=MODEL[:FILE]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="speakers to leave out, of those with most clips first")
    parser.add_argument("--days", type=int, default=3, help="on which a device hears its owner, between the rounds")
    parser.add_argument("--day-minutes", type=float, default=8, help="of other words on such a day")
    parser.add_argument("--judge", choices=("clips", "streams"), default="streams", help="of rounds")
    parser.add_argument("--negatives", action="store_true", help="put negatives of other people into the pack")
    parser.add_argument("--service", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--keep", type=Path, help="folder for the devices' state, to look at afterwards")
    parser.add_argument("--minutes", type=float, default=10, help="of other words, besides running speech and noise")
    parser.add_argument("--pace", choices=("fast", "real"), default="fast")
    parser.add_argument("--threshold", type=float, default=DetectSettings().threshold)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(given)


def main() -> None:
    """Measure and print."""
    given = arguments()
    rows, served = (measure(given), []) if given.weights else measure_rounds(given)
    if given.json:
        facts: dict[str, Any] = {
            "load": os.getloadavg(),
            "pace": given.pace,
            "threshold": given.threshold,
            "service": served,
        }
        print(json.dumps({**facts, "rows": [asdict(r) for r in rows]}))
        return
    print(f"{given.seeds} seeds, pace {given.pace}, threshold {given.threshold}; load {os.getloadavg()}")
    print("\n".join([*summary(rows), *served]))


if __name__ == "__main__":
    main()
