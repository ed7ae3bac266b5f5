"""CPU time that a device's detector takes for an hour of sound, with packs and runtimes in turn, on one thread.

    python bench/listening_cost.py --data DIR PACK... [--runtime native] [--minutes 5]

The sound is the running speech of `stream` in DIR, without a pause, so that the gate hardly closes: it is heard twice,
and the second time counts. Front-end, gate, network, model and the vote of a pack that has one are all in it; capture
is not.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle.packs.start import start_weights
from auricle.speech.audio import read_audio
from auricle_edge.listening.detect import Detector, DetectTable, detect_settings
from auricle_edge.listening.detect.vote import load_voter
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_learning.runtimes import frontend_of, recogniser

BLOCK = RATE // 10


def cost(name: str, runtime: str, sound: np.ndarray) -> str:
    """One row."""
    pack = load_pack(name)
    runs, model = choose_runtime(runtime, pack, 1, training=False).runtime, pack.manifest.plugin
    recognise = recogniser(runs, model, start_weights(pack, model))
    vote = load_voter(pack, partial(vote_runtime, runs, 1))
    detector = Detector(frontend_of(runs), pack.labels, recognise, detect_settings(DetectTable(), pack), vote=vote)
    took = 0.0
    for begin in (0, len(sound)):
        began = time.process_time()
        for at in range(0, len(sound), BLOCK):
            detector.feed(Block(sound[at : at + BLOCK], begin + at, 0.0))
        took = time.process_time() - began
    an_hour = took * 3600 * RATE / len(sound)
    return (
        f"{Path(name).name:24} {runs.name:8} {an_hour:6.1f} CPU-s an hour, gate open {detector.figures.open_share:.0%}"
    )


def main() -> int:
    """Print a row for each pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", nargs="+", metavar="PACK")
    parser.add_argument("--data", type=Path, required=True, help="folder of the recordings")
    parser.add_argument("--runtime", default="native")
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    files = sorted((options.data / "stream" / "speech").glob("*.flac"))
    wanted, parts = round(options.minutes * 60 * RATE), list[np.ndarray]()
    for file in files:
        if sum(map(len, parts)) < wanted:
            parts.append((read_audio(file) * 32_767).astype(np.int16))
    if not parts:
        print(f"{options.data} holds no stream/speech: name the folder of the recordings.", file=sys.stderr)
        return 1
    sound = np.concatenate(parts)[:wanted]
    try:
        for name in options.packs:
            print(cost(name, options.runtime, sound))
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
