"""The same step in onnxruntime-training, on artifacts that `bench/step_artifacts.py` made of the pack.

Run by `bench/step.py` in an environment that holds onnxruntime-training. In mutual learning its two models are two
modules, and a module gives its logits only while it trains or is evaluated: the plug-in's forward pass runs twice.
"""

from __future__ import annotations

import sys
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.step_worker import Facts, Step, memory, serve


def peer(spec: Facts) -> tuple[Step, Facts]:
    """Modules and optimizers of `onnxruntime.training.api`, without the parts of it that need PyTorch."""
    for name in ("optim", "amp"):
        sys.modules.setdefault(f"onnxruntime.training.{name}", ModuleType(name))
    import numpy as np
    import onnxruntime
    from onnxruntime.training import api

    facts = {"imported": memory(), "with": f"onnxruntime-training {onnxruntime.__version__}"}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    models = {role: _load(api, options, Path(spec["artifacts"]) / role) for role in spec["models"]}
    for role, (_, optimizer) in models.items():
        optimizer.set_learning_rate(spec["scalars"][f"{role}.rate"])
    data = np.load(spec["data"])
    turn = cycle(zip(data["x"], data["target"], strict=True))
    weight = data["feed:weight"]
    if spec["kind"] == "supervised":
        return _supervised(np, models["model"], turn, weight), facts
    return _mutual(np, models, turn, weight, spec["scalars"]), facts


def _load(api: Any, options: Any, folder: Path) -> tuple[Any, Any]:
    state = api.CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    files = [str(folder / f"{name}.onnx") for name in ("training", "evaluation", "optimizer")]
    module = api.Module(files[0], state, files[1], session_options=options)
    return module, api.Optimizer(files[2], module)


def _train(model: tuple[Any, Any], *inputs: Any) -> tuple[float, Any]:
    module, optimizer = model
    module.train()
    loss, logits = module(*inputs)
    optimizer.step()
    module.lazy_reset_grad()
    return float(loss), logits


def _supervised(np: Any, model: tuple[Any, Any], turn: Any, weight: Any) -> Step:
    one, zero = np.ones((), np.float32), np.zeros((), np.float32)

    def step() -> float:
        x, target = next(turn)
        return _train(model, x, target, target, weight, one, zero, one)[0]

    return step


def _mutual(np: Any, models: dict[str, Any], turn: Any, weight: Any, scalars: Facts) -> Step:
    one = np.ones((), np.float32)
    alpha, rest, plugin_ce, cool = (
        np.array(value, np.float32)
        for value in (scalars["alpha"], 1 - scalars["alpha"], scalars["plugin_ce"], scalars["temperature"])
    )
    plugin = models["plugin"]

    def step() -> float:
        x, target = next(turn)
        plugin[0].eval()
        taught = plugin[0](x, target, target, weight, one, one, one)[1]
        own, seen = _train(models["local"], x, target, taught, weight, alpha, rest, cool)
        return own + _train(plugin, x, target, seen, weight, plugin_ce, one, cool)[0]

    return step


if __name__ == "__main__":
    serve(peer)
