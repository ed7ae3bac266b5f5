"""Which rules simplify an exported graph, and that they do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxscript", reason="compiling needs onnxscript")

from onnxscript import ir
from onnxscript.rewriter import _DEFAULT_REWRITE_RULES
from onnxscript.rewriter.rules import common

from auricle_export.compiler.simplify import RULES, simplify

LEFT_OUT = {
    common.slice_split_rule,
    common.dropout_zero_rule,
    common.dropout_inference_rule,
    common.normalize_pad_format_conv_integer_rule,
    common.fuse_pad_into_conv_integer_rule,
    common.remove_optional_bias_from_qlinear_conv_rule,
}
COMMUTED = 4
"""Rules of a sum and a product with their operands either way, which are made anew for each list."""


def test_every_rule_of_the_exporter_is_there_but_for_those_that_are_left_out() -> None:
    theirs = set(_DEFAULT_REWRITE_RULES)
    assert theirs >= LEFT_OUT
    assert len(theirs - set(RULES) - LEFT_OUT) == len(set(RULES) - theirs) == COMMUTED
    assert len(RULES) == len(set(RULES)) == len(theirs) - len(LEFT_OUT)


def test_what_writes_over_everything_is_what_it_writes() -> None:
    """ScatterND of all four rows in order, and a sum with 0 and a product with 1 behind it: one Relu is left."""
    zero, one = (
        numpy_helper.from_array(np.array(value, np.float32), name) for value, name in ((0, "zero"), (1, "one"))
    )
    rows = numpy_helper.from_array(np.arange(4, dtype=np.int64)[:, None], "rows")
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("ScatterND", ["data", "rows", "y"], ["all"]),
        helper.make_node("Add", ["zero", "all"], ["sum"]),
        helper.make_node("Mul", ["sum", "one"], ["z"]),
    ]
    x, data, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 3]) for name in ("x", "data", "z"))
    graph = helper.make_graph(nodes, "net", [x, data], [z], [zero, one, rows])
    model = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))

    simplify(model)

    made = onnx.ModelProto.FromString(ir.to_proto(model).SerializeToString())
    assert [node.op_type for node in made.graph.node] == ["Relu"]
    assert [value.name for value in made.graph.input] == ["x", "data"]
    assert [value.name for value in made.graph.output] == ["z"]
