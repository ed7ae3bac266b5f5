r"""What taking out the echo of the device's own answer is worth, beside Speex's canceller.

In made rooms, by the setting `[capture] reference`: how much of the echo goes, alone and under double talk; wake words
that a pack hears while an answer plays, without a reference and with one; CPU time for a second of sound. Nobody of
the recordings is in a pack's training: answers are read by the readers of `stream/speech`, talked over by those of the
test part of `stream-more/speech`; wake words are those of the test part of `wakewords`.

    python bench/echo.py --data DIR [--pack home] [--rooms 8] [--passes 2] [--ratios 0 10 20] [--peer none] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
import numpy as np

from auricle.errors import AuricleError
from auricle.hearing.command_counts import wakes_heard
from auricle.hearing.intervals import share_interval
from auricle.hearing.scenes import Scene
from auricle.packs.pack import load_pack
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.features import LogMel
from auricle_edge.evaluate.device import hear_by_detector
from auricle_edge.evaluate.listeners import listeners_of
from auricle_edge.evaluate.sources import Folders, read_sources
from auricle_edge.listening.capture.echo import EchoCanceller
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from bench.comparison_table import table
from bench.echo_sound import Case, Samples, double_talk, words_over_answer
from bench.step_environments import NoEnvironment, environment

TIMES = {"first second": (0, 1), "2nd and 3rd": (1, 3), "4th to 10th": (3, 10), "double talk": (10, 30)}
"""Seconds of a case by what happens in them."""
BLOCK_SAMPLES = 800
"""In which a device's capture gives sound."""
WORDS_A_SCENE = 26

Left = tuple[Samples, Samples, float]
"""What a canceller leaves of the microphone and of the near end alone (n,), and the CPU seconds of the first."""
Cancel = Callable[[Case], Left]


class Reduction(msgspec.Struct, frozen=True, kw_only=True):
    """Decibels by which an echo is fainter, on average over the rooms."""

    canceller: str
    echo_to_speech_db: float
    distorts: bool
    """Whether the loudspeaker does."""
    decibels: dict[str, float]
    """By the times of `TIMES`."""
    cpu_ms: float
    """For a second of sound."""


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """Wake words heard while an answer plays."""

    canceller: str
    echo_to_speech_db: float | None
    """None: no answer plays."""
    heard: int
    words: int
    false_wakes: int
    """Wake words that were heard and not said."""
    hours: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All that is measured."""

    reductions: list[Reduction]
    hits: list[Hits]
    peer: str
    """Why the peer is not there; "": it is, or nobody asked for it."""


def ours(case: Case) -> Left:
    """By the canceller of the capture."""
    canceller, microphone = EchoCanceller(), case.microphone
    began = time.process_time()
    pieces = [
        canceller.take(microphone[at : at + BLOCK_SAMPLES], case.far[at : at + BLOCK_SAMPLES])
        for at in range(0, len(microphone), BLOCK_SAMPLES)
    ]
    left = np.concatenate([*pieces, canceller.rest()])
    return left, case.near, time.process_time() - began


def by_speex(python: Path, case: Case) -> Left:
    """By Speex, whose filter of an offset changes the near end a little, too: what it leaves of that is not echo."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sound.npy"
        for near in (case.microphone, case.near):
            np.save(path, np.stack([near, case.far]))
            done = subprocess.run(
                [python, Path(__file__).with_name("echo_peer.py"), path], capture_output=True, text=True, check=True
            )
            made.append((np.load(path), float(done.stdout)))
    return made[0][0][0], made[1][0][1], made[0][1]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--pack", default="home")
    parser.add_argument("--rooms", type=int, default=8, help="rooms and readings for the decibels [8]")
    parser.add_argument("--passes", type=int, default=2, help="how often each wake word is said [2]")
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.0, 10.0, 20.0], help="dB of echo over speech")
    parser.add_argument("--peer", choices=("speex", "none"), default="speex")
    parser.add_argument("--json", action="store_true", help="print a JSON object in place of the tables")
    given = parser.parse_args()
    try:
        result = measure(given)
    except (AuricleError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(json.dumps(msgspec.to_builtins(result)) if given.json else text_of(result))
    return 0


def measure(given: argparse.Namespace) -> Result:
    """Decibels, then hits.

    Raises
    ------
    AuricleError
        The recordings or the pack are not there.
    """
    cancellers: dict[str, Cancel] = {"ours": ours}
    missing = ""
    if given.peer == "speex":
        try:
            python = environment("speex-echo", lambda text: print(text, file=sys.stderr))
            cancellers["Speex"] = lambda case: by_speex(python, case)
        except NoEnvironment as error:
            missing = str(error)
    pack = load_pack(given.pack)
    wake = detect_settings(DetectTable(), pack).wake
    data = given.data
    answers = read_sources(Folders(speech=(data / "stream" / "speech",)), wake, ()).speech
    folders = Folders(
        keywords=(data / "wakewords",),
        noise=(data / "gsc" / "_background_noise_",),
        speech=(data / "stream-more" / "speech",),
    )
    sources = read_sources(folders, wake, ("test",), pack.manifest.task.clip_samples)
    reductions = []
    for decibels, distorts in [*((each, False) for each in given.ratios), (10.0, True)]:
        cases = [
            double_talk(answers, sources.speech, np.random.default_rng((number, 1)), decibels, distorts=distorts)
            for number in range(given.rooms)
        ]
        for name, cancel in cancellers.items():
            reductions.append(_reduction(name, cases, [cancel(case) for case in cases], decibels, distorts))
    listen = _detector(given.pack)
    takes = [take for take in sources.keywords if take.word in wake] * given.passes
    parts = [takes[at :: -(-len(takes) // WORDS_A_SCENE)] for at in range(-(-len(takes) // WORDS_A_SCENE))]
    found: dict[tuple[str, float | None], list[tuple[Scene, int, int]]] = {}
    for decibels in given.ratios:
        for number, part in enumerate(parts):
            rng = np.random.default_rng((number, 2))
            scene, case = words_over_answer(part, sources.noise, answers, rng, decibels)
            sounds = {"no reference": case.microphone, **{name: by(case)[0] for name, by in cancellers.items()}}
            for name, samples in sounds.items():
                found.setdefault((name, decibels), []).append((scene, *listen(scene, samples, wake)))
            if decibels == given.ratios[0]:
                found.setdefault(("no answer", None), []).append((scene, *listen(scene, case.near, wake)))
    return Result(reductions=reductions, hits=[_hits(*key, rows) for key, rows in found.items()], peer=missing)


def _reduction(name: str, cases: Sequence[Case], left: Sequence[Left], decibels: float, distorts: bool) -> Reduction:
    by = {
        when: float(np.mean([c.reduction(mic, near, *span) for c, (mic, near, _) in zip(cases, left, strict=True)]))
        for when, span in TIMES.items()
    }
    seconds = sum(len(case.far) for case in cases) / SAMPLE_RATE
    cpu = 1000 * sum(took for _, _, took in left) / seconds
    return Reduction(canceller=name, echo_to_speech_db=decibels, distorts=distorts, decibels=by, cpu_ms=cpu)


def _detector(name: str) -> Callable[[Scene, Samples, Sequence[str]], tuple[int, int]]:
    """What a device with this pack hears of a scene's wake words in these samples: how many, and how many not said."""
    pack = load_pack(name)
    runtime = choose_runtime("auto", pack, training=False).runtime
    listener = listeners_of([], pack, lambda: runtime, lambda voter: vote_runtime(runtime, 1, voter))[0]
    settings, frontend = detect_settings(DetectTable(), pack), LogMel(pack.manifest.task)

    def listen(scene: Scene, samples: Samples, wake: Sequence[str]) -> tuple[int, int]:
        heard = hear_by_detector(samples, frontend, pack.labels, listener.recognise, settings, listener.vote)
        hits = sum(right for _, right in wakes_heard(scene, heard, wake))
        return hits, sum(not each.command for each in heard) - hits

    return listen


def _hits(name: str, decibels: float | None, rows: Sequence[tuple[Scene, int, int]]) -> Hits:
    return Hits(
        canceller=name,
        echo_to_speech_db=decibels,
        heard=sum(heard for _, heard, _ in rows),
        words=sum(len(scene.words) for scene, _, _ in rows),
        false_wakes=sum(wrong for _, _, wrong in rows),
        hours=sum(scene.hours for scene, _, _ in rows),
    )


def text_of(result: Result) -> str:
    """Both tables."""
    head = ["dB less echo", "echo over speech", "loudspeaker", *TIMES, "CPU ms a second"]
    rows = [
        [
            each.canceller,
            f"{each.echo_to_speech_db:g} dB",
            "distorts" if each.distorts else "linear",
            *(f"{each.decibels[when]:.1f}" for when in TIMES),
            f"{each.cpu_ms:.1f}",
        ]
        for each in result.reductions
    ]
    tables = [table(head, rows)]
    lines = []
    for each in result.hits:
        found = share_interval(each.heard, each.words)
        share = f"{each.heard / each.words:.1%} ({100 * found.low:.0f}-{100 * found.high:.0f}) of {each.words}"
        over = "-" if each.echo_to_speech_db is None else f"{each.echo_to_speech_db:g} dB"
        lines.append([each.canceller, over, share, f"{each.false_wakes} in {each.hours:.2f} h"])
    tables.append(table(["wake words while an answer plays", "echo over speech", "heard", "not said"], lines))
    return "\n\n".join([*tables, *([f"Speex: {result.peer}"] if result.peer else [])])


if __name__ == "__main__":
    sys.exit(main())
