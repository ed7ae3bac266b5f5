"""How far every runtime is from PyTorch: every model, loss and optimizer, against float64, as a table.

Gradient: the largest ||g - g64|| / ||g64|| of any tensor, on one batch that is not full, from the same weights. Drift:
the largest ||w - w64|| / ||w64|| of any tensor after so many steps on the same batches from the same weights, each
trajectory with its own rounding all along. PyTorch's own float32 stands beside it for scale. The runtimes are `step`
(stock onnxruntime), `native` (the C library) and, where its environment can be had, onnxruntime-training.

    python bench/parity.py [--models crnn-lite,crnn-base] [--steps 200] [--rows FILE] [--out docs/parity.md] [--json]

With --rows, finished rows are kept in FILE and a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from auricle.errors import AuricleError
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle_learning.native.library import library_path
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import Job, StepRuntime
from auricle_learning.runtimes.feeds import graph_of
from bench.parity_cases import LOSSES, Case, batches, cases, job, roles
from bench.parity_distances import Tensors, drift, farthest, gradients, tensors
from bench.parity_page import page, text
from bench.parity_reference import SHIPPED, Authors
from bench.step_environments import NoEnvironment, environment
from bench.step_process import ROOT, say

Row = dict[str, Any]
PARTIAL = 1
"""Which batch gradients are taken on: one with samples of weight 0."""


def row_of(
    case: Case, runtime: StepRuntime, steps: int, authors: Authors = SHIPPED, native: NativeRuntime | str = "left out"
) -> tuple[Row, Tensors, Tensors]:
    """Distances of the step graph and of PyTorch's float32 in a case; and float64's gradients and weights.

    `native` is the C library on the same pack, or why there is none, which becomes the row's `native`.
    """
    pack = runtime.pack
    bare, given = job(case, pack, bare=True), job(case, pack)
    made = batches(pack, given.kind)
    without = native if isinstance(native, str) else _left_out(native, given)
    others = () if without or isinstance(native, str) else (native,)
    first = gradients(bare, made[PARTIAL], runtime, authors, others)
    last = drift(given, made, steps, runtime, authors, others)
    row: Row = {
        "gradient": first.ours,
        "gradient_float32": first.float32,
        "drift": last.ours,
        "drift_float32": last.float32,
        "moved": last.moved,
    }
    if others:
        row |= {"native_gradient": first.others[0], "native_drift": last.others[0]}
    elif without:
        row["native"] = without
    return row, first.exact, last.exact


def _left_out(native: NativeRuntime, given: Job) -> str:
    """Why the library leaves a job to onnxruntime; empty where it does it."""
    native.begin(given)
    return native.reasons.get(graph_of(native.pack, given).file, "")


def native_runtime(pack: Pack, wanted: bool = True) -> NativeRuntime | str:
    """The C library on a pack, or why it is not there."""
    if not wanted:
        return "left out"
    try:
        return NativeRuntime(pack)
    except AuricleError as reason:
        return str(reason)


class OrtTraining:
    """onnxruntime-training's results on the cases of a model, from its own environment.

    Parameters
    ----------
    pack
        Whose models it trains.
    python
        Gives the Python of its environment, or the reason why there is none; asked when it is needed.
    """

    def __init__(self, pack: Pack, python: Callable[[], Path | str]) -> None:
        self._pack, self._find = pack, python
        self._found: dict[str, Any] = {}
        self._refused: dict[str, str] = {}

    def prepare(self, model: str, wanted: Sequence[Case], steps: int) -> None:
        """Run the cases of a model there."""
        self._found, self._refused = {}, {}
        if not wanted:
            return
        python = self._find()
        if isinstance(python, str):
            self._refused = {case.name: python for case in wanted}
            return
        say(f"{model}: onnxruntime-training")
        with tempfile.TemporaryDirectory(prefix="auricle-parity-") as name:
            folder = Path(name)
            (folder / "pack.tar.zst").write_bytes(pack_bytes(self._pack))
            asked = {"pack": str(folder / "pack.tar.zst"), "model": model, "steps": steps}
            (folder / "asked.json").write_text(json.dumps({**asked, "cases": [case.name for case in wanted]}))
            done = subprocess.run(
                [python, "-m", "bench.parity_ort", folder / "asked.json", folder],
                cwd=ROOT,
                text=True,
                capture_output=True,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            if done.returncode != 0:
                reason = " ".join(done.stderr.strip().splitlines()[-1:])
                self._refused = {case.name: reason for case in wanted}
                return
            self._found = dict(np.load(folder / "results.npz"))
            self._refused = json.loads((folder / "refused.json").read_text())

    def row(self, case: Case, gradients: Tensors, weights: Tensors) -> Row:
        """Its distances in a case, or why there are none."""
        if case.name in self._refused:
            return {"ort": self._refused[case.name]}
        models = roles(case, self._pack)

        def worst(kind: str, due: Tensors) -> float:
            found = {role: self._found[f"{kind}:{case.name}:{role}"] for role in models}
            return farthest({r: tensors(self._pack.table(m), found[r]) for r, m in models.items()}, due)

        return {"ort_gradient": worst("gradient", gradients), "ort_drift": worst("weights", weights)}


def rows(
    pack: Pack,
    models: Sequence[str],
    steps: int,
    ort: OrtTraining,
    known: Mapping[str, Row],
    authors: Authors = SHIPPED,
    losses: Sequence[str] = tuple(LOSSES),
    native: NativeRuntime | str = "left out",
) -> Iterator[Row]:
    """Every row of the table; those that are known are not computed."""
    runtime = StepRuntime(pack)
    library = "" if isinstance(native, str) else library_path().stem
    key_of = partial(_key, pack=pack, steps=steps, library=library)
    for model in models:
        every = [case for case in cases(model) if case.loss in losses]
        ort.prepare(model, [case for case in every if key_of(case) not in known], steps)
        for number, case in enumerate(every, 1):
            key = key_of(case)
            if key in known:
                yield known[key]
                continue
            say(f"{model}: {case.loss}, {case.optimizer} ({number} of {len(every)})")
            facts = {"key": key, "model": model, "loss": case.loss, "optimizer": case.optimizer, "steps": steps}
            row, due, weights = row_of(case, runtime, steps, authors, native)
            yield {**facts, **row, **ort.row(case, due, weights)}


def _key(case: Case, pack: Pack, steps: int, library: str) -> str:
    """What a row hangs on: the case, the graphs that are compared, and the C library."""
    files = {graph.file for graph in pack.manifest.graphs if graph.model == case.model}
    mark = hashlib.sha256("".join(e.sha256 for e in pack.manifest.files if e.path in files).encode())
    return f"{case.name}; {steps}; {len(pack.labels)}; {mark.hexdigest()[:16]}; {library}"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="only these, parted by commas")
    parser.add_argument("--module", action="append", default=[], help="FILE.py:NAME to compile and compare besides")
    parser.add_argument("--pack", default="gsc12")
    parser.add_argument("--loss", action="append", choices=tuple(LOSSES), help="one of them only")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=Path, help="where finished rows are kept")
    parser.add_argument("--no-ort-training", action="store_true", help="leave onnxruntime-training out")
    parser.add_argument("--no-native", action="store_true", help="leave the C library out")
    parser.add_argument("--out", type=Path, help="a page to write, such as docs/parity.md")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _ort_python(given: argparse.Namespace) -> Path | str:
    if given.no_ort_training:
        return "left out"
    try:
        return environment("ort-training", say)
    except NoEnvironment as reason:
        return str(reason)


def run(given: argparse.Namespace) -> list[Row]:
    """All rows, each kept as soon as it is there."""
    torch.set_num_threads(1)
    shipped = load_pack(given.pack)
    known: dict[str, Row] = {}
    if given.rows and given.rows.exists():
        known = {row["key"]: row for row in map(json.loads, given.rows.read_text().splitlines())}
    parts = [(shipped, given.models.split(",") if given.models else list(SHIPPED))]
    authors: Authors = SHIPPED
    if given.module:
        from bench.parity_modules import with_modules

        own, authors = with_modules(given.module)
        parts.append((own, [name for name in own.tables if name not in SHIPPED]))
    found = []
    for pack, models in parts:
        ort = OrtTraining(pack, partial(_ort_python, given))
        native = native_runtime(pack, not given.no_native)
        for row in rows(pack, models, given.steps, ort, known, authors, given.loss or tuple(LOSSES), native):
            found.append(row)
            if given.rows and row["key"] not in known:
                with given.rows.open("a") as file:
                    print(json.dumps(row), file=file)
    return found


def _command(given: argparse.Namespace) -> str:
    """What makes the same page."""
    words = ["python", "bench/parity.py"]
    for name in ("models", "loss", "module", "pack", "steps"):
        values = getattr(given, name)
        if values not in (None, [], "gsc12", 200):
            words += [f"--{name}={value}" for value in (values if isinstance(values, list) else [values])]
    words += [f"--no-{name.replace('_', '-')}" for name in ("ort_training", "native") if getattr(given, f"no_{name}")]
    return shlex.join([*words, f"--out={given.out}"])


def main() -> int:
    """Compare and print."""
    given = arguments()
    try:
        found = run(given)
    except AuricleError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted.", file=sys.stderr)
        return 130
    if given.out:
        given.out.write_text(page(found, _command(given)))
    print(json.dumps(found) if given.json else text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
