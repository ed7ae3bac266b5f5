"""Wake words beside the peers: one phrase, the same hours of sound, each peer in an environment of its own.

Packs listen as `auricle edge run` does while it waits. The peers are the packages whose wheels carry a model of
"jarvis" or "hey jarvis"; which ones are not measured, and why, is printed too. Stated are hits at fixed false accepts
an hour by `auricle.hearing`, CPU time of an hour of sound, and the most memory a process held (docs/wake-peers.md).

    python bench/wake_peers.py --data DIR [--environments DIR] [--pack home] [--pack hey.tar.zst --phrase "hey jarvis"]
        [--head FILE.onnx]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.errors import DataError
from auricle.packs.pack import load_pack
from bench.answer import answer
from bench.hearing_sound import TARGET, recordings_of, takes_of, wake_scenes, write_scenes
from bench.hearing_sound import Heard as Sounding
from bench.hearing_table import shares
from bench.hearing_told import Sounds
from bench.step_environments import ENVIRONMENTS
from bench.step_process import Failed, Worker, alone, say, workers
from bench.wake_listeners import (
    HEADS,
    NOT_MEASURED,
    PEERS,
    Listener,
    head_listeners,
    pack_listeners,
    peer_listeners,
    words_of,
)
from bench.wake_table import Cost, Heard, Result, heard_of, hours_of, text_of

BLOCK = 5
"""Seconds of sound that a process hears in its turn, after one that does not count."""


def run(given: argparse.Namespace) -> Result:
    """Compose the sound, let everyone listen, and measure CPU time and memory in turns."""
    if given.scores is not None:
        _refuse_other_sound(given)
    missing: dict[str, str] = {}
    listeners = [*pack_listeners(given.pack, given.phrase), *head_listeners(given.heads, given.environments)]
    listeners += peer_listeners(given.peers, given.environments, missing)
    words = sorted({label for pack in given.pack for label in words_of(load_pack(pack))})
    sources = recordings_of(given.data, words)
    forms = takes_of(sources.keywords, given.voices, given.passes, given.seed)
    takes = {form: len({take.sound.tobytes() for take in each}) for form, each in forms.items()}
    planned = wake_scenes(sources, forms, given.minutes)
    with tempfile.TemporaryDirectory(prefix="auricle-wake-") as name, workers() as running:
        folder, sounding = Path(name), list[Sounding]()
        for sound in write_scenes(planned, folder, given.seed):
            sounding.append(sound)
            say(f"composing: scene {len(sounding)} of {len(planned)}")
        del sources, forms, planned
        heard = _all_heard(listeners, sounding, folder, given, missing)
        if not heard:
            raise DataError(f"No listener ran: {'; '.join(f'{who}: {why}' for who, why in missing.items())}.")
        with alone(given.lock):
            load = tuple(round(value, 2) for value in os.getloadavg())
            active = [listener for listener in listeners if listener.name not in missing]
            costs = _costs(active, sounding, folder, given, running)
    scenes = [sound.scene for sound in sounding]
    used = [*given.peers, *([HEADS] if given.heads else [])]
    packages = tuple(ENVIRONMENTS[peer].needs[0] for peer in used if peer not in missing)
    recordings = len({piece.source for scene in scenes for piece in scene.pieces})
    return Result(
        tuple(heard), costs, hours_of(scenes), recordings, takes, packages, missing, NOT_MEASURED, load, given.seed
    )


def _refuse_other_sound(given: argparse.Namespace) -> None:
    """Remember in the folder of scores what sound they are of; DataError where it has those of another."""
    now = {"data": str(given.data.resolve()), "packs": given.pack}
    now |= {name: getattr(given, name) for name in ("minutes", "voices", "passes", "seed")}
    file = given.scores / "sound.json"
    given.scores.mkdir(parents=True, exist_ok=True)
    if file.is_file() and json.loads(file.read_text()) != now:
        raise DataError(f"{given.scores} has scores of other sound ({file.name} says which): name another folder.")
    file.write_text(json.dumps(now))


def _all_heard(
    listeners: Sequence[Listener],
    sounding: Sequence[Sounding],
    folder: Path,
    given: argparse.Namespace,
    missing: dict[str, str],
) -> list[Heard]:
    """What each listener heard, `given.jobs` of them at a time; those that fail go to `missing`."""
    cores = sorted(os.sched_getaffinity(0))

    def hear(number: int) -> Heard | str:
        listener = listeners[number]
        say(f"{listener.name}: it listens to {sum(sound.seconds for sound in sounding) / 3600:.2f} hours")
        scores = listener.scores(given.scores or folder, len(sounding))
        left = [(str(s.sound), str(path)) for s, path in zip(sounding, scores, strict=True) if not path.exists()]
        told = _timed(sounding)
        told["sounds"], told["scores"] = [sound for sound, _ in left], [path for _, path in left]
        try:
            worker = listener.start(told, folder / f"{number}.json", cores[number % len(cores)])
        except Failed as reason:
            return str(reason)
        worker.close()
        rows, scenes = [np.load(path) for path in scores], [sound.scene for sound in sounding]
        return heard_of(listener.name, listener.word, listener.differs, worker.facts, rows, scenes)

    with ThreadPoolExecutor(given.jobs) as pool:
        outcomes = list(pool.map(hear, range(len(listeners))))
    missing |= {who.name: why for who, why in zip(listeners, outcomes, strict=True) if isinstance(why, str)}
    return [outcome for outcome in outcomes if isinstance(outcome, Heard)]


def _timed(sounding: Sequence[Sounding]) -> Sounds:
    """The first scene of running speech: it opens a gate of speech."""
    speech = [sound for sound in sounding if any(part.kind == "speech" for part in sound.scene.stretches)]
    return {"timed": str((speech or sounding)[0].sound), "sounds": [], "scores": []}


def _costs(
    active: Sequence[Listener],
    sounding: Sequence[Sounding],
    folder: Path,
    given: argparse.Namespace,
    running: list[Worker],
) -> dict[str, Cost]:
    """CPU time and memory of processes that hear nothing but the timed sound, in turns on one core.

    The first round is to warm up. A listener that fails has no costs; the others go on.
    """
    timed: dict[str, Worker] = {}
    for number, listener in enumerate(active):
        try:
            timed[listener.name] = listener.start(_timed(sounding), folder / f"timed{number}.json", given.core)
        except Failed as reason:
            say(f"{listener.name}: its costs are not measured: {reason}")
        else:
            running.append(timed[listener.name])
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    peaks = dict.fromkeys(timed, 0)
    for turn in range(given.rounds + 1):
        say(f"timing: round {turn} of {given.rounds}")
        for name, worker in list(timed.items()):
            try:
                block = worker.block(BLOCK, 1)
            except Failed as reason:
                say(f"{name}: its costs are not measured: {reason}")
                del timed[name]
                continue
            seconds[name] += block["cpu"] if turn else []
            peaks[name] = block["memory"]["peak"]
    return {name: _cost(seconds[name], peaks[name]) for name in timed}


def _cost(seconds: Sequence[float], peak: int) -> Cost:
    tenths = statistics.quantiles(seconds, n=10)
    return Cost(3600 * statistics.median(seconds), 3600 * tenths[0], 3600 * tenths[-1], peak)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with gsc, gsc-more, wakewords, stream-more ..."
    )
    parser.add_argument("--environments", type=Path, help="where the peers are installed; a cache where it is left out")
    parser.add_argument("--pack", action="append", help="name, folder or .tar.zst; several times for several")
    parser.add_argument("--phrase", default="hey jarvis", help="label of a pack that is listened for, before jarvis")
    parser.add_argument("--peer", choices=(*PEERS, "none"), action="append", help="only this one, or none")
    parser.add_argument("--head", type=Path, action="append", help="of bench/wake_recipe.py, a .onnx; several times")
    parser.add_argument("--minutes", type=float, default=45.0, help="of each kind of sound without the phrase, at most")
    parser.add_argument("--voices", type=int, default=40, help='of espeak-ng, that say "hey jarvis"; 0: leave that out')
    parser.add_argument(
        "--passes", type=int, default=2, help='how often each take is said, each time after another "hey"'
    )
    parser.add_argument("--rounds", type=int, default=20, help="in which time is measured")
    parser.add_argument("--jobs", type=int, default=1, help="listeners that hear at a time; time is measured alone")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="on which time is measured")
    parser.add_argument("--lock", type=Path, help="file that is locked while time is measured")
    parser.add_argument("--scores", type=Path, help="where scores are kept: what is there already is not heard again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    found = parser.parse_args(given)
    found.pack = found.pack or ["home"]
    found.heads = found.head or []
    found.peers = [peer for peer in PEERS if not found.peer or peer in found.peer]
    if min(found.minutes, found.rounds, found.passes, found.jobs) <= 0 or found.voices < 0:
        parser.error("--minutes, --rounds, --passes and --jobs have to be more than 0, --voices not less")
    if not shares(found.phrase):
        parser.error(f'--phrase "{found.phrase}" has to end in "{TARGET}", which is what people say in the recordings')
    if found.core not in os.sched_getaffinity(0):
        parser.error(f"--core {found.core} is not a core that this process may use")
    return found


def main() -> int:
    """Measure and print."""
    given = arguments()
    return answer(lambda: run(given), text_of, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
