"""Run by the Python that has tflite-runtime: recognises with every model of a folder, and writes what came out.

    python -m tests.edge.tflite_probe FOLDER

FOLDER holds packs `NAME.tar.zst` and, for each, `NAME.npz` with weights (S, P) and x (N, T, mels); it gets
`NAME.PRECISION.npy`, logits (S, N, labels).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from auricle.packs.pack import load_pack
from auricle_edge.runtimes.tflite import TfliteRuntime


def main(folder: Path) -> None:
    for path in sorted(folder.glob("*.tar.zst")):
        pack, name = load_pack(path), path.name.removesuffix(".tar.zst")
        given = np.load(folder / f"{name}.npz")
        for entry in pack.manifest.tflite:
            runtime = TfliteRuntime(pack, precision=entry.precision)
            logits = [runtime.logits(entry.model, weights, given["x"]) for weights in given["weights"]]
            np.save(folder / f"{name}.{entry.precision}.npy", np.stack(logits))
    print(np.__version__, *sorted(module for module in ("tflite_runtime", "ai_edge_litert") if module in sys.modules))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
