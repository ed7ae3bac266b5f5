"""Takes of a phrase by other synthetic voices than espeak-ng's, and of other words by the same voices.

Four voices of flite at three speeds and two pitches, and three of festival at three speeds: 33 speakers, each of whom
says the phrase once and some other words. The folders are what `auricle export wakeword` takes with `--voices` and
`--words`: with the other words a voice alone is no sign of the phrase. Debian has the programs:
`apt install flite festival festvox-us-slt-hts festvox-kallpc16k festvox-kdlpc16k`.

    python bench/other_voices.py "hey robot" --out voices
    auricle export wakeword "hey robot" --voices voices/phrase --words voices/words --out hey-robot.tar.zst
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

FLITE = {"kal16": (95, 125), "awb": (100, 135), "rms": (85, 115), "slt": (150, 200)}
"""Voices, and the mean pitches that each takes, in Hz."""
FESTIVAL = ("kal_diphone", "ked_diphone", "cmu_us_slt_arctic_hts")
SPEEDS = (0.85, 1.0, 1.2)
"""Times the usual length."""
SAID = 40
"""Other words that each speaker says."""
WORDS = """
compute, commuter, commander, consumer, composer, complete, competitor, community, compare, commuting,
conductor, contributor, come to her, can you hear, pewter, router, tutor, scooter, future, compass, travis,
service, nervous, jarring, carvers, jar of, harvest, job is, charles, marvelous, hey robert, hey rabbit, say
nothing, a robot, hey rowboat, hello there, good morning, what time is it, kitchen, weather, window, tomorrow,
seven, yellow, water, market, telephone, elephant, music, morning, table, garden, number, question, people,
another, together, remember, sunday, picture, doctor, yes, no, stop, go, left, right, on, off, up, down
"""
"""Some sound like phrases that people take, most do not."""


Speak = Callable[[str, Path], tuple[list[str], bytes | None]]
"""The command that says a text into a file, and what the command reads."""


def flite(voice: str, speed: float, pitch: int) -> Speak:
    """A voice of flite."""
    how = ["-voice", voice, "--setf", f"duration_stretch={speed}", "--setf", f"int_f0_target_mean={pitch}"]
    return lambda text, path: (["flite", *how, "-t", text, "-o", str(path)], None)


def festival(voice: str, speed: float) -> Speak:
    """A voice of festival."""
    how = ["-F", "16000", "-eval", f"(voice_{voice})", "-eval", f"(Parameter.set 'Duration_Stretch {speed})"]
    return lambda text, path: (["text2wave", "-o", str(path), *how], text.encode())


def main() -> int:
    """Write the folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phrase")
    parser.add_argument("--out", type=Path, required=True, help="folder for phrase/ and words/")
    parser.add_argument("--seed", type=int, default=1, help="of who says which other words")
    given = parser.parse_args()
    rng, made = random.Random(given.seed), 0
    others = [word for word in (" ".join(part.split()) for part in WORDS.split(",")) if word != given.phrase]
    for speaker, speak in speakers():
        for text in (given.phrase, *rng.sample(others, SAID)):
            kind = ("phrase", text) if text == given.phrase else ("words", text.replace(" ", "-"))
            path = given.out.joinpath(*kind, f"{speaker}_nohash_0.wav")
            path.parent.mkdir(parents=True, exist_ok=True)
            command, typed = speak(text, path)
            try:
                subprocess.run(command, input=typed, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                print(f"bench: {command[0]} cannot say this as {speaker}: install it and its voices.", file=sys.stderr)
                return 1
            made += 1
        print(f"{speaker}: {made} takes so far", file=sys.stderr)
    return 0


def speakers() -> Iterator[tuple[str, Speak]]:
    """Each speaker's name, and how a text is said: the command, and what it reads."""
    for voice, pitches in FLITE.items():
        for speed in SPEEDS:
            for pitch in pitches:
                yield f"{voice}{round(100 * speed)}x{pitch}", flite(voice, speed, pitch)
    for voice in FESTIVAL:
        first, *_, last = voice.split("_")
        for speed in SPEEDS:
            yield f"{first}{last}{round(100 * speed)}", festival(voice, speed)


if __name__ == "__main__":
    sys.exit(main())
