"""What one core of this machine reaches in float32: large matrix products, by NumPy's BLAS or by onnxruntime.

Run by `bench/step.py`. A "step" is one product of two square matrices; its "loss" is a number of the result.
"""

from __future__ import annotations

from bench.step_worker import Facts, Step, memory, serve


def peer(spec: Facts) -> tuple[Step, Facts]:
    """A product of two (size, size) matrices, into memory that is already there."""
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
