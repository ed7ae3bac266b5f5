"""What one core of this machine reaches in float32: on registers alone, and in large matrix products.

Run by `bench/step.py`. A "step" is one product of two square matrices by NumPy's BLAS or by onnxruntime, its "loss" a
number of the result; or so many fused multiply-adds (`step_peak.c`, compiled for this machine), which is the peak.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

from bench.step_worker import Facts, Step, memory, serve

ROUNDS = 200_000


def registers() -> tuple[Step, Facts]:
    """Multiply-adds that touch no memory; `operations` is how many a step has."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "peak.so"
        source = Path(__file__).with_suffix(".c")
        command = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
        subprocess.run([*command, str(source), "-o", str(made)], check=True, capture_output=True)
        function = ctypes.CDLL(str(made)).peak
    function.restype, function.argtypes = ctypes.c_double, (ctypes.c_long, ctypes.POINTER(ctypes.c_float))
    out = ctypes.c_float()
    operations = function(ROUNDS, ctypes.byref(out))

    def compute() -> float:
        function(ROUNDS, ctypes.byref(out))
        return out.value

    return compute, {"imported": memory(), "with": "multiply-adds on registers", "operations": operations}


def peer(spec: Facts) -> tuple[Step, Facts]:
    """A product of two (size, size) matrices, into memory that is already there."""
    if spec["mode"] == "registers":
        return registers()
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((spec["size"], spec["size"]), np.float32) for _ in range(2))
    if spec["mode"] == "numpy":
        out = np.empty_like(a)

        def multiply() -> float:
            np.matmul(a, b, out=out)
            return float(out[0, 0])

        return multiply, {"imported": memory(), "with": f"numpy {np.__version__}"}
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(spec["graph"], options, providers=["CPUExecutionProvider"])
    feeds = {"a": a, "b": b}
    facts = {"imported": memory(), "with": f"onnxruntime {ort.__version__}"}
    return (lambda: float(session.run(None, feeds)[0][0, 0])), facts


if __name__ == "__main__":
    serve(peer)
