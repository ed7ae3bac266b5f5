"""A head trained by livekit-wakeword's recipe on the voices and recordings that `auricle export wakeword` learns from.

livekit-wakeword 0.3.0 is openWakeWord's recipe as a package: augmentation, Google's speech embedding, a small net over
16 of its vectors, and a trainer in three phases. Here all of that is the package's own, in an environment of its own;
only the clips are ours, so that `bench/wake_peers.py --head` compares recipes and not corpora (docs/wake-peers.md).

    python bench/wake_recipe.py jarvis --data DIR --out FILE.onnx [--environments DIR] [--clips N] [--steps N]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.errors import DataError, SettingsError
from auricle.hearing.sounds import Take, pcm, word_span
from auricle.hearing.splits import Part
from auricle.speech.audio import SAMPLE_RATE
from auricle_export.pretrain.corpus import Heard
from auricle_export.voices.sources import choose_sources
from auricle_export.wakeword.natural import add_natural
from auricle_export.wakeword.recordings import read_recordings
from auricle_export.wakeword.task import WakeTask, labels_of
from auricle_export.wakeword.voices_sound import VOICES, SpokenPart, speak_parts, texts_for, voices_for
from bench.answer import answer
from bench.comparison_table import table
from bench.step_environments import ENVIRONMENTS, environment
from bench.step_process import Worker, say
from bench.wake_recipe_peer import ROOMS, HeadTold

TRAINING = "livekit-training"
CLIPS, STEPS = 10_000, 50_000
"""The package's own: clips of the phrase, and as many of what is not the phrase; steps of its first phase."""
TEST_SHARE = 0.2
"""Of the clips, for the package's validation: its own share."""
WINDOW = 2 * SAMPLE_RATE
"""Samples that the head hears at a time."""
PARTS: Mapping[str, Part] = {"train": "train", "test": "validation"}
"""The package's name of a part, and ours; what judges packs is in neither."""
REPLACED = {
    "voices of Piper": "those of auricle export wakeword, of people too where --voices names takes",
    "words like the phrase, by Piper": "its near words, other words, other languages and recorded words",
    "impulse responses of rooms, downloaded": f"{ROOMS} shoebox rooms by the image-source method (pyroomacoustics)",
    "2,000 h of ACAV100M and 11 h to validate, downloaded": "readings of people and everyday speech of voices",
    "MUSAN's noise, downloaded": "noises of the data folder and those of auricle export wakeword",
}
"""What the wheel does not carry, and what stands in its place."""
Sound = NDArray[np.float32]


@dataclass(frozen=True)
class ClipCount:
    """Clips of one kind."""

    takes: int
    """Different ones."""
    clips: int
    """With repeats, each of which is augmented again."""


@dataclass(frozen=True)
class HeadReport:
    """What was trained of what."""

    phrase: str
    out: str
    package: str
    steps: int
    clips: dict[str, ClipCount]
    """By the package's name of a kind and part."""
    windows: dict[str, int]
    """Of running speech by part, 2 s each."""
    threshold: float
    """That the package chooses on its own validation; the three figures are its own words."""
    recall: float
    false_accepts_hour: float
    bytes: int
    seconds: float
    """From the first clip augmented to the export."""
    replaced: dict[str, str]
    seed: int


def run(given: argparse.Namespace) -> HeadReport:
    """Lay the clips out, and have the package train on them."""
    with tempfile.TemporaryDirectory(prefix="auricle-recipe-") as name:
        root = Path(name)
        task = wake_task(given, root / "state")
        python = environment(TRAINING, say, given.environments)
        clips = lay_out(task, root, given.clips, given.seed)
        model = re.sub(r"\W+", "_", given.phrase)
        told: HeadTold = {
            "name": model,
            "phrase": given.phrase,
            "root": name,
            "out": str(given.out.resolve()),
            "rooms": ROOMS,
            "steps": given.steps,
            "clips": given.clips,
            "seed": given.seed,
        }
        spec = root / "spec.json"
        spec.write_text(json.dumps(told))
        say(f"training: {given.steps} steps on {sum(each.clips for each in clips.values()):,} clips")
        worker = Worker(python, "bench.wake_recipe_peer", spec, given.core)
        worker.close()
    said = {key: worker.facts[key] for key in HeadReport.__annotations__ if key in worker.facts}
    return HeadReport(
        given.phrase,
        str(given.out),
        ENVIRONMENTS[TRAINING].needs[0],
        given.steps,
        clips,
        replaced=REPLACED,
        seed=given.seed,
        **said,
    )


def wake_task(given: argparse.Namespace, state: Path) -> WakeTask:
    """The task of `auricle export wakeword` with the folders of the data.

    Raises
    ------
    DataError
        A folder is missing.
    SettingsError
        A voice is not known, the phrase is not valid, or the speakers are too few.
    """
    data = given.data
    folders = {name: data / name for name in ("gsc-more", "stream-more/speech", "arabic", "gsc/_background_noise_")}
    for folder in folders.values():
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder: name with --data the folder that has {', '.join(folders)}.")
    words, running, languages, noise = ((folder,) for folder in folders.values())
    voices_for(given.speakers, given.seed, "en")  # refuses too few before anything is installed
    return WakeTask(
        phrases=(given.phrase,),
        folder=state,
        speakers=given.speakers,
        sources=choose_sources(given.voice, "en", [given.phrase]),
        takes=tuple(given.voices),
        words=words,
        running=running,
        languages=languages,
        noise=noise,
        leave_out=(data / "gsc",),
    )


def lay_out(task: WakeTask, root: Path, most: int, seed: int) -> dict[str, ClipCount]:
    """Write the clips where the package expects those that it generates; how many of each kind.

    Parameters
    ----------
    task
        Whose voices and recordings these are.
    root
        Gets `output/<model>/<kind>_<part>`, `general_<part>` and `noise_<part>`.
    most
        Clips of the phrase to train on, and of what is not it.

    Raises
    ------
    AuricleError
        A folder cannot be read, or a part has nothing of a kind.
    """
    phrase = task.phrases[0]
    recorded = read_recordings(task, labels_of(task.phrases, ()), _progress)
    texts = texts_for(task.phrases, (), task.language, seed)
    parts = add_natural(speak_parts(texts, task.language, seed, _progress, task.speakers), task, texts, _progress)
    output, counts = root / "output" / re.sub(r"\W+", "_", phrase), dict[str, ClipCount]()
    for name, part in PARTS.items():
        count = most if name == "train" else max(1, round(TEST_SHARE * most))
        heard, said = recorded[part], parts[part]
        kinds = {"positive": _of_phrase(phrase, heard, said), "negative": _of_others(heard, said)}
        rng = np.random.default_rng((seed, len(counts)))
        for kind, sounds in kinds.items():
            if not sounds:
                raise DataError(f'There is no {kind} clip of "{phrase}" in the {part} part: give more --speakers.')
            counts[f"{kind}_{name}"] = _write_clips(output / f"{kind}_{name}", sounds, count, rng)
        general = [*heard.running, *(take.sound for take in said.sentences)]
        pieces = [sound[at : at + WINDOW] for sound in general for at in range(0, len(sound) - WINDOW + 1, WINDOW)]
        few = min(count, len(pieces))
        counts[f"general_{name}"] = _write_clips(root / f"general_{name}", pieces, few, rng, end="_r0")
        noise = [*heard.noise, *said.noise]
        counts[f"noise_{name}"] = _write_clips(root / f"noise_{name}", noise, len(noise), rng)
    return counts


def _of_phrase(phrase: str, heard: Heard, said: SpokenPart) -> list[Sound]:
    """Takes of the phrase without the silence around them, as the package puts each at a window's end."""
    takes = (*said.phrases, *said.natural, *heard.keywords)
    return [_without_silence(take) for take in takes if take.word == phrase]


def _without_silence(take: Take) -> Sound:
    first, last = word_span(take.sound)
    return take.sound[first : last + 1]


def _of_others(heard: Heard, said: SpokenPart) -> list[Sound]:
    takes = (*said.alike, *said.words, *said.foreign, *heard.others, *heard.languages)
    return [take.sound for take in takes]


def _write_clips(
    folder: Path, sounds: Sequence[Sound], count: int, rng: np.random.Generator, end: str = ""
) -> ClipCount:
    """Write so many WAV files: each sound once before any is written again."""
    folder.mkdir(parents=True)
    rounds = -(-count // max(1, len(sounds)))
    order = np.concatenate([rng.permutation(len(sounds)) for _ in range(rounds)] or [np.zeros(0, np.int64)])
    for number, place in enumerate(order[:count]):
        with wave.open(str(folder / f"clip_{number:06d}{end}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(SAMPLE_RATE)
            file.writeframes(pcm(sounds[place]).astype("<i2").tobytes())
    return ClipCount(min(count, len(sounds)), count)


def _progress(what: str, done: int, total: int) -> None:
    if done == total:
        say(f"{what}: {total:,}")


def text_of(report: HeadReport) -> str:
    """What was trained of what, in 80 columns, and what stands in place of the package's own."""
    rows = [[kind, f"{each.takes:,}", f"{each.clips:,}"] for kind, each in report.clips.items()]
    replaced = [f"in place of {what}:\n  {instead}" for what, instead in report.replaced.items()]
    return "\n\n".join(
        (
            f'"{report.phrase}" by {report.package}, {report.steps:,} steps, seed {report.seed}',
            table(["clips", "different", "in all"], rows),
            "\n".join(replaced),
            f"by the package's own validation: threshold {report.threshold:.2f}, recall {report.recall:.1%}, "
            f"{report.false_accepts_hour:.2f} an hour",
            f"{report.out}: {report.bytes / 1e6:.3f} MB, trained in {report.seconds / 60:.1f} min on one core",
        )
    )


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phrase", help="what the head hears, as in jarvis")
    parser.add_argument("--data", type=Path, required=True, help="folder with gsc, gsc-more, stream-more, arabic")
    parser.add_argument("--out", type=Path, required=True, help="the head to write, a .onnx")
    parser.add_argument("--environments", type=Path, help="where the package is installed; a cache where left out")
    parser.add_argument("--voice", action="append", default=[], help="as of auricle export wakeword; once for each")
    parser.add_argument("--voices", type=Path, action="append", default=[], help="folder of takes, PHRASE/SPEAKER...")
    parser.add_argument("--speakers", type=int, default=VOICES, help="voices of espeak-ng at most")
    parser.add_argument("--clips", type=int, default=CLIPS, help="of the phrase, and as many of what is not it")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the trainer's first phase")
    parser.add_argument("--core", type=int, default=0, help="that trains")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(given)
    if min(options.clips, options.steps) < 20:
        parser.error("--clips and --steps have to be at least 20")
    return options


def main() -> int:
    """Train and print."""
    given = arguments()

    def train() -> HeadReport:
        if given.out.suffix != ".onnx" or not given.out.parent.is_dir():
            raise SettingsError(f"--out {given.out} is not a valid head: name a FILE.onnx in a folder that is there.")
        return run(given)

    return answer(train, text_of, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
