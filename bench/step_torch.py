"""The same training step as a PyTorch user writes it: eager, or through `torch.compile`.

Run by `bench/step.py` in an environment that holds PyTorch and NumPy alone. Plain means over the batch (no sample
weights), no clipping, both losses of mutual learning in one backward pass: the least work that learns the same.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable
from itertools import cycle
from typing import Any

from bench.step_worker import Facts, Step, block, memory, serve

HOW: dict[str, dict[str, bool]] = {"foreach": {"foreach": True}, "fused": {"fused": True}, "plain": {"foreach": False}}
"""PyTorch's implementations of an optimizer; the fastest one here is measured."""
TRIAL = 30


def peer(spec: Facts) -> tuple[Step, Facts]:
    """Modules with the given weights and a step over them."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    facts: Facts = {"imported": memory(), "with": f"torch {torch.__version__}"}
    data = np.load(spec["data"])
    modules = {role: _module(torch, model, spec, data, role) for role, model in spec["models"].items()}
    batches = [
        (torch.from_numpy(x), torch.from_numpy(y.argmax(1))) for x, y in zip(data["x"], data["target"], strict=True)
    ]
    if spec["compile"]:
        return _compiled(torch, modules, batches, spec, facts)
    how = fastest(torch, modules, batches, spec)
    return train_step(torch, modules, batches, spec, how), {**facts, "note": f"{spec['optimizer']} {how}"}


def _module(torch: Any, model: str, spec: Facts, data: Any, role: str) -> Any:
    """This project's module of an architecture, with weights from the pack's table."""
    from auricle_export.packs.models import ARCHITECTURES, WHEEL_CRNNS, Crnn

    module = Crnn(ARCHITECTURES[WHEEL_CRNNS[model]], spec["labels"])
    flat, start, tensors = data[f"weights:{role}"], 0, {}
    for name, shape in spec["tensors"][role]:
        size = int(torch.Size(shape).numel())
        tensors[name] = torch.from_numpy(flat[start : start + size].reshape(shape).copy())
        start += size
    module.load_state_dict(tensors)
    return module


def _losses(torch: Any, modules: dict[str, Any], spec: Facts) -> Callable[[Any, Any], Any]:
    """Sum of the losses of a batch; each depends on one model's weights."""
    F, given = torch.nn.functional, spec["scalars"]
    if spec["kind"] == "supervised":
        model = modules["model"]
        return lambda x, y: F.cross_entropy(model(x), y)
    local, plugin = modules["local"], modules["plugin"]
    alpha, plugin_ce, temperature = given["alpha"], given["plugin_ce"], given["temperature"]

    def divergence(teacher: Any, student: Any) -> Any:
        log_p, log_q = (F.log_softmax(z / temperature, 1) for z in (student, teacher.detach()))
        return F.kl_div(log_p, log_q, reduction="batchmean", log_target=True)

    def mutual(x: Any, y: Any) -> Any:
        a, b = local(x), plugin(x)
        own = alpha * F.cross_entropy(a, y) + (1 - alpha) * divergence(b, a)
        return own + plugin_ce * F.cross_entropy(b, y) + divergence(a, b)

    return mutual


def train_step(
    torch: Any, modules: dict[str, Any], batches: list[Any], spec: Facts, how: str, wrap: Any = None
) -> Step:
    """A step with an optimizer of an implementation; `wrap` is put around the losses."""
    losses = _losses(torch, modules, spec)
    losses = wrap(losses) if wrap else losses
    makers: dict[str, Any] = {
        "sgd": lambda p, rate: torch.optim.SGD(p, rate, **HOW[how]),
        "adamw": lambda p, rate: torch.optim.AdamW(p, rate, weight_decay=0.0, **HOW[how]),
    }
    make, scalars = makers[spec["optimizer"]], spec["scalars"]
    optimizers = [make(module.parameters(), scalars[f"{role}.rate"]) for role, module in modules.items()]
    turn = cycle(batches)

    def step() -> float:
        x, y = next(turn)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss: Any = losses(x, y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return float(loss.item())

    return step


def fastest(torch: Any, modules: dict[str, Any], batches: list[Any], spec: Facts) -> str:
    """The implementation of the optimizer whose steps, tried on copies, take the least median time."""
    times = {}
    for how in HOW:
        step = train_step(torch, {r: copy.deepcopy(m) for r, m in modules.items()}, batches, spec, how)
        times[how] = statistics.median(block(step, 5, TRIAL)["seconds"])
    return min(times, key=lambda how: times[how])


def _compiled(torch: Any, modules: dict[str, Any], batches: list[Any], spec: Facts, facts: Facts) -> tuple[Step, Facts]:
    """Forward and loss through `torch.compile`, mode default; the GRU compiled or left to PyTorch, the faster way."""
    import torch._dynamo as dynamo

    how = fastest(torch, modules, batches, spec)
    times: dict[bool, float] = {}
    for unrolled in (False, True):
        dynamo.reset()
        dynamo.config.allow_rnn = unrolled
        copies = {role: copy.deepcopy(module) for role, module in modules.items()}
        step = train_step(torch, copies, batches, spec, how, torch.compile)
        times[unrolled] = statistics.median(block(step, 5, TRIAL)["seconds"])
    unrolled = times[True] < times[False]
    dynamo.reset()
    dynamo.config.allow_rnn = unrolled
    note = f"{spec['optimizer']} {how}, GRU {'compiled' if unrolled else 'left to PyTorch'}"
    return train_step(torch, modules, batches, spec, how, torch.compile), {**facts, "note": note}


if __name__ == "__main__":
    serve(peer)
