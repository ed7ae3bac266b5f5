"""Runtimes of a board behind one interface: what runs a pack's graphs on the device.

`step` (stock onnxruntime), `native` (a C library of our own) and `ort-training` train and recognise, `tflite`
recognises; other packages add theirs. Each is loaded only when it is chosen, so that none of them needs another
one's package.
"""

from __future__ import annotations

from auricle_edge.runtimes.choice import (
    RUNTIMES,
    Choice,
    RuntimeKind,
    choose_runtime,
    fastest_trainer,
    runtime_names,
)

__all__ = ["RUNTIMES", "Choice", "RuntimeKind", "choose_runtime", "fastest_trainer", "runtime_names"]
