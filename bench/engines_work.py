"""The work that all engines of `bench/engines.py` do: clients' clips, first weights, and what a process is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.speech.synthesis import SynthesisSettings, synthesise
from bench.step_process import Failed, say

CLIPS = 16
"""Of a client: one batch."""
TAKES, A_SPEAKER = 4, 48
"""Takes of each word by a synthetic speaker, and the clips that these are, of twelve labels."""
PACK = "gsc12"
RATE, CLIP = 0.1, 1.0
"""Learning rate, and the norm to which gradients are clipped: a client's first ones are longer."""
WATCHED = (1, 3)
"""The rounds after which the engines' models are compared; those after the last one are timed."""
NEAR = 1e-6
"""Largest difference of two engines' weights, by the largest weight."""


def prepare(folder: Path, clients: int) -> dict[str, Any]:
    """Write the clips of all clients and the first weights; what every process is told.

    Speech is synthetic, dealt out at random: each client has 16 clips of several speakers and labels.
    """
    pack = load_pack(PACK)
    speakers = -(-clients * CLIPS // A_SPEAKER)
    say(f"{clients} clients' clips are spoken")
    speech = synthesise(SynthesisSettings(words=PACK, speakers=speakers, takes=TAKES))
    dealt = np.random.default_rng(0).permutation(len(speech.audio))[: clients * CLIPS]
    energies = LogMel(pack.manifest.task).energies(speech.audio[dealt]).astype(np.float32)
    return written(folder, pack, energies.reshape(clients, CLIPS, *energies.shape[1:]), speech.targets[dealt])


def written(folder: Path, pack: Pack, energies: Any, targets: Any) -> dict[str, Any]:
    """Write mel energies (D, N, T, mels), their log-mels, labels (D * N,) and first weights (P,); the specification."""
    finish, table = LogMel(pack.manifest.task).finish, pack.plugin_table
    arrays = {
        "energies": energies,
        "features": np.stack([finish(own) for own in energies]),
        "targets": targets.reshape(energies.shape[:2]).astype(np.int64),
        "weights": table.initial(0),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return {
        **{name: str(folder / f"{name}.npy") for name in arrays},
        "pack": pack.manifest.name,
        "clients": len(energies),
        "model": pack.manifest.plugin,
        "labels": len(pack.labels),
        "tensors": [(spec.name, spec.shape) for spec in table.specs],
        "rate": RATE,
        "clip": CLIP,
        "mode": "supervised",
        "local": pack.manifest.plugin,
        "watched": WATCHED,
    }


def apart(models: dict[str, dict[int, Any]], first: str) -> dict[str, dict[int, float]]:
    """How far each engine's models (P,) are from one engine's, by round: largest difference by largest weight."""

    def far(model: Any, other: Any) -> float:
        return float(np.abs(model - other).max() / np.abs(other).max())

    return {name: {n: far(own[n], models[first][n]) for n in own} for name, own in models.items() if name != first}


def require_same(found: dict[str, dict[int, float]]) -> None:
    """Refuse to compare speeds of engines that did not do the same; Failed."""
    for name, by_round in found.items():
        for number, far in by_round.items():
            if not far <= NEAR:
                raise Failed(
                    f"after round {number} the weights of {name} differ by {far:.1e} of the largest, more than "
                    f"{NEAR:g}: no speeds are printed"
                )
