"""A tiny pack's graph, changed and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from tests.core import tiny_pack
from tests.core.tiny_pack import EVALUATE

from auricle.checks.graph_check import check_graph


def check_bytes(changed: onnx.ModelProto | bytes, file: str = EVALUATE) -> None:
    data = changed if isinstance(changed, bytes) else changed.SerializeToString()
    pack = tiny_pack.pack({file: data})
    check_graph(pack, next(graph for graph in pack.manifest.graphs if graph.file == file))


def evaluation(change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    built = tiny_pack.evaluation()
    change(built)
    return built
