"""Auricle's packs beside openWakeWord and microWakeWord, on the same sound.

Each listener is a process over the same files. Packs listen as `auricle edge run` does; the peers are the packages
`pyopen-wakeword` and `pymicro-wakeword` with the models in their wheels, each in an environment of its own. Stated are
false accepts an hour by kind of sound, hits of "jarvis" and "hey jarvis" where a listener has that word, weights, and
CPU time. What differs between the listeners is in docs/hearing.md.

    python bench/hearing.py --data DIR --pack home [--pack gsc12] [--minutes 20] [--voices 30] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.checks.tflite_reader import read_tflite
from auricle.errors import DataError
from auricle.hearing.rule import Rule, keyword_mask
from auricle.packs.pack import load_pack
from bench.answer import answer
from bench.hearing_sound import Heard, forms_of, load_stranger, plan_scenes, read_recordings, write_scenes
from bench.hearing_table import Listens, Row, rows_of, text_of
from bench.hearing_told import PackNamed, PeerNamed, Sounds
from bench.step_environments import MICRO_WAKE_WORD, OPEN_WAKE_WORD, NoEnvironment, environment
from bench.step_process import ROOT, Failed, Worker, alone, say, workers

PEERS = {"microwakeword": MICRO_WAKE_WORD, "openwakeword": OPEN_WAKE_WORD}
"""The environments of the peers, and the package in each."""
TIMED_MODEL = "hey_jarvis"
"""The only model of a peer that runs while its time is measured."""
ALLOWED = 0.5
"""False accepts an hour of the swept thresholds."""


@dataclass(frozen=True)
class Result:
    """Everything that was measured."""

    packs: tuple[str, ...]
    peers: dict[str, str]
    """Package and version, by name."""
    missing: dict[str, str]
    """Peers that did not run, and why."""
    seed: int
    load: tuple[float, ...]
    """Of the machine, when the time was measured."""
    cpu_seconds: dict[str, list[float]]
    """Of each second of sound, by listener."""
    rows: tuple[Row, ...]


def run(given: argparse.Namespace) -> Result:
    """Compose the sound, let everyone listen, and measure their time in turns."""
    keywords = sorted({word for pack in given.pack for word in _keywords(pack)})
    sources = read_recordings(given.data, keywords)
    forms = forms_of(sources.keywords, given.voices, given.seed)
    with tempfile.TemporaryDirectory(prefix="auricle-hearing-") as name, workers() as running:
        folder = Path(name)
        scenes: list[Heard] = []
        planned = plan_scenes(sources, forms, given.minutes)
        for scene in write_scenes(planned, folder, given.seed):
            say(f"composing: scene {len(scenes) + 1} of {len(planned)}")
            scenes.append(scene)
        rows: list[Row] = []
        active: dict[str, Worker] = {}
        missing: dict[str, str] = {}
        for listener, (python, module, told, paths) in _listeners(given, missing).items():
            say(f"{listener}: it listens to {sum(scene.seconds for scene in scenes) / 60:.0f} minutes")
            scores = [folder / f"{len(active)}.{number}.npy" for number in range(len(scenes))]
            spec = folder / f"{len(active)}.json"
            spec.write_text(json.dumps({**told, **_files(scenes, scores)}))
            try:
                worker = Worker(python, module, spec, given.core, paths)
            except Failed as reason:
                missing[listener] = str(reason)
                continue
            running.append(worker)
            active[listener] = worker
            rows += _judged(listener, worker.facts, scenes, scores)
        if not active:
            raise DataError(f"No listener ran: {'; '.join(f'{who}: {why}' for who, why in missing.items())}.")
        with alone(given.lock):
            load = tuple(round(value, 2) for value in os.getloadavg())
            cost = _timed(active, given.rounds)
    return Result(
        tuple(map(str, given.pack)),
        {name: PEERS[name] for name in given.peers if name in active},
        missing,
        given.seed,
        load,
        cost,
        tuple(rows),
    )


def _keywords(pack: str) -> list[str]:
    labels = load_stranger(pack).labels
    return [label for label, word in zip(labels, keyword_mask(labels), strict=True) if word]


def _listeners(
    given: argparse.Namespace, missing: dict[str, str]
) -> dict[str, tuple[Path, str, PackNamed | PeerNamed, tuple[Path, ...]]]:
    """Python, module, what it is told and where it imports from, by name; peers that cannot be had go to `missing`."""
    ours = (ROOT / "core", ROOT / "learning", ROOT / "edge")
    found: dict[str, tuple[Path, str, PackNamed | PeerNamed, tuple[Path, ...]]] = {}
    for pack in given.pack:
        name = f"auricle {load_pack(pack).manifest.name}"
        found[name if name not in found else f"{name} ({pack})"] = (
            Path(sys.executable),
            "bench.hearing_ours",
            {"pack": pack if Path(pack).name == pack and not Path(pack).exists() else str(Path(pack).resolve())},
            ours,
        )
    for peer in given.peers:
        try:
            python = environment(peer, say)
        except NoEnvironment as reason:
            missing[peer] = str(reason)
            continue
        found[peer] = (python, "bench.hearing_peer", {"peer": peer, "models": [], "model": TIMED_MODEL}, ())
    return found


def _files(scenes: Sequence[Heard], scores: Sequence[Path]) -> Sounds:
    speech = [scene for scene in scenes if any(part.kind == "speech" for part in scene.scene.stretches)]
    return {
        "sounds": [str(scene.sound) for scene in scenes],
        "scores": [str(path) for path in scores],
        "timed": str((speech or scenes)[0].sound),
    }


def _judged(listener: str, facts: Mapping[str, Any], scenes: Sequence[Heard], scores: Sequence[Path]) -> list[Row]:
    """The rows of a listener, from the scores that it wrote."""
    listens = Listens(
        tuple(facts["labels"]),
        facts["thresholds"],
        tuple(facts["alone"]),
        Rule(facts["hop"], facts["smoothing"], facts["patience"]),
        together="files" not in facts,
        above="files" in facts,
    )
    weights = facts.get("weights") or {word: _weights(files) for word, files in facts["files"].items()}
    found = [np.load(path) for path in scores]
    return rows_of(listener, listens, found, [scene.scene for scene in scenes], weights, ALLOWED)


def _weights(files: Sequence[str]) -> int:
    """Numbers that TensorFlow Lite files hold, those of their quantisation left out."""
    total = 0
    for file in files:
        model = read_tflite(Path(file).read_bytes(), file)
        held = {t.buffer: t for t in model.tensors if model.buffers[t.buffer] is not None}
        total += sum(int(np.prod(tensor.shape, dtype=np.int64)) for tensor in held.values())
    return total


def _timed(active: Mapping[str, Worker], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each second of sound, every listener in turn; the first round is to warm up."""
    cost: dict[str, list[float]] = {name: [] for name in active}
    for number in range(rounds + 1):
        say(f"timing: round {number} of {rounds}")
        for name, worker in active.items():
            seconds = worker.block(5, 1)["cpu"]
            cost[name] += seconds if number else []
    return cost


def report(result: Result) -> str:
    """The tables, and what is needed to read them."""
    lines = [
        text_of(result.rows, result.cpu_seconds, ALLOWED),
        f"one thread, in turns, over speech; load {result.load}; seed {result.seed}; "
        + ", ".join((*(f"pack {pack}" for pack in result.packs), *result.peers.values())),
        *(f"{peer} did not run: {why}" for peer, why in result.missing.items()),
    ]
    return "\n\n".join(lines)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with gsc, gsc-more, wakewords, stream-more ..."
    )
    parser.add_argument("--pack", action="append", help="name, folder or .tar.zst; several times for several")
    parser.add_argument("--peer", choices=(*PEERS, "none"), action="append", help="only this one, or none")
    parser.add_argument("--minutes", type=float, default=20.0, help="of each kind of sound without keywords, at most")
    parser.add_argument("--voices", type=int, default=30, help='of espeak-ng, that say "hey jarvis"; 0: leave that out')
    parser.add_argument("--rounds", type=int, default=10, help="in which time is measured")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="to which all are pinned")
    parser.add_argument("--lock", type=Path, help="file that is locked while time is measured")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    found = parser.parse_args(given)
    found.pack = found.pack or ["home"]
    found.peers = [peer for peer in PEERS if not found.peer or peer in found.peer]
    if found.minutes <= 0 or found.rounds < 1 or found.voices < 0 or found.core not in os.sched_getaffinity(0):
        parser.error("--minutes and --rounds have to be more than 0, and --core one that this process may use")
    return found


def main() -> int:
    """Measure and print."""
    given = arguments()
    return answer(lambda: run(given), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
