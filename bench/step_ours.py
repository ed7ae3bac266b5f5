"""The step graph of a pack: on stock onnxruntime alone (`bare`), or through a runtime of the edge part.

`runtime` is that on onnxruntime, `native` that on the C library.

Run by `bench/step.py` in an environment that holds only the `edge` extra.
"""

from __future__ import annotations

from importlib import import_module
from itertools import cycle
from typing import Any

from bench.step_worker import Facts, Step, memory, serve


def bare(spec: Facts) -> tuple[Step, Facts]:
    """A loop around `session.run` that carries weights and optimizer state from step to step."""
    import numpy as np
    import onnxruntime as ort

    facts = {"imported": memory(), "with": f"onnxruntime {ort.__version__}"}
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(spec["graph"], options, providers=["CPUExecutionProvider"])
    data = np.load(spec["data"])
    feeds: dict[str, Any] = {name.removeprefix("feed:"): data[name] for name in data if name.startswith("feed:")}
    batches = cycle({"x": x, "target": y} for x, y in zip(data["x"], data["target"], strict=True))
    outputs, losses = spec["outputs"], spec["losses"]
    names = [name.removeprefix("new/") for name in outputs[losses:]]
    counters = [name for name in feeds if name.endswith(".step")]
    done = 0

    def step() -> float:
        nonlocal done
        done += 1
        feeds.update(next(batches))
        for name in counters:
            feeds[name] = np.array(done, np.float32)
        values = session.run(outputs, feeds)
        feeds.update(zip(names, values[losses:], strict=True))
        return float(sum(values[:losses]))

    return step, facts


def runtime(spec: Facts) -> tuple[Step, Facts]:
    """The training session that a board's agent uses, on the pack itself."""
    import numpy as np

    from auricle.packs.pack import load_pack
    from auricle_learning.runtimes import Job

    name, module = {
        "runtime": ("StepRuntime", "auricle_learning.runtimes.step"),
        "native": ("NativeRuntime", "auricle_learning.native.runtime"),
    }[spec["mode"]]
    chosen = getattr(import_module(module), name)
    facts = {"imported": memory(), "with": f"{module}.{name}"}
    data, models = np.load(spec["data"]), spec["models"]
    job = Job(
        kind=spec["kind"],
        models=models,
        optimizer=spec["optimizer"],
        scalars=spec["scalars"],
        weights={role: data[f"weights:{role}"] for role in models},
    )
    level = {"level": spec["level"]} if spec.get("level") else {}
    training = chosen(load_pack(spec["pack"]), **level).begin(job)
    weight = data["feed:weight"]
    batches = cycle({"x": x, "target": y, "weight": weight} for x, y in zip(data["x"], data["target"], strict=True))
    return (lambda: sum(training.step(next(batches)).values())), facts


if __name__ == "__main__":
    serve(lambda spec: {"bare": bare, "runtime": runtime, "native": runtime}[spec["mode"]](spec))
