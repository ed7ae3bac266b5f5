"""An exported graph without what the exporter leaves in it: constants folded, idle operators and repeated ones removed.

The passes are those of `onnxscript.optimizer.optimize_ir`, with rules named here, so that another version's set changes
no pack. Six of its rules are left out. SlicesSplit compares each slice with every other and lists the whole graph for
each node; it makes a Split of two halves, which no module here is written as, and took most of the time that a network
of shifted slices needed. The others are of operators that no graph here has: two of Dropout, which training writes as
masks and evaluation leaves out, two of paddings before ConvInteger and one of the bias of QLinearConv.
"""

from __future__ import annotations

from typing import Any

from onnxscript import ir
from onnxscript.optimizer import fold_constants_ir
from onnxscript.rewriter import RewritePass
from onnxscript.rewriter.rules import common

passes: Any = ir.passes.common

TURNS = 2
"""How often the whole is done: names and joined tensors of the first turn let the second remove some more."""
STEPS = 2
"""How often constants are folded and rules tried within a turn, unless a step changes nothing."""

RULES = (
    *common.mul_by_1_rule.commute(),
    *common.add_0_rule.commute(),
    common.sub_0_rule,
    common.div_by_1_rule,
    common.two_reshapes_matmul_reshape_rule,
    common.one_reshape_matmul_reshape_rule,
    common.cast_constant_of_shape_rule,
    common.cast_constant_of_shape_without_value_rule,
    common.collapse_slice_rule,
    common.collapse_slice2_rule,
    common.materialize_reshape_shape_rule,
    common.min_min_rule,
    common.max_max_rule,
    common.min_max_rule,
    common.max_min_rule,
    common.successive_clip_relu_rule,
    common.successive_relu_clip_rule,
    common.successive_relu_rule,
    common.successive_clip_rule,
    common.cast_cast_rule,
    common.no_op_cast_rule,
    common.no_op_expand_rule,
    common.flatten_to_reshape_rule,  # before the next
    common.reshape_reshape_rule,
    common.no_op_transpose_rule,
    common.transpose_transpose_rule,
    common.unsqueeze_unsqueeze_rule,
    common.squeeze_reshape_1d_rule,
    common.no_op_dynamic_scatter_nd_rule,
    common.no_op_static_scatter_nd_rule,
    common.normalize_pad_format_conv_rule,
    common.fuse_pad_into_conv_rule,
    common.fuse_batchnorm_into_conv_rule,
    common.fuse_batchnorm_into_conv_transpose_rule,
    common.fuse_batchnorm_into_gemm_rule,
    common.remove_optional_bias_from_conv_rule,
    common.remove_optional_bias_from_conv_transpose_rule,
    common.remove_optional_bias_from_gemm_rule,
)


def simplify(model: ir.Model) -> None:
    """Fold, rewrite and remove, in place; the interface stays."""
    inline, unused = passes.InlinePass(), passes.RemoveUnusedNodesPass()
    cleaning = (RewritePass(RULES), unused, passes.RemoveUnusedFunctionsPass(), passes.RemoveUnusedOpsetsPass())
    finishing = (
        unused,
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        passes.LiftSubgraphInitializersToMainGraphPass(),
        passes.DeduplicateInitializersPass(),
        passes.CommonSubexpressionEliminationPass(),
        passes.OutputFixPass(),
        passes.NameFixPass(),
    )
    for _ in range(TURNS):
        inline(model)
        for _ in range(STEPS):
            is_changed = fold_constants_ir(model, onnx_shape_inference=True).modified
            for each in cleaning:
                is_changed |= each(model).modified
            if not is_changed:
                break
        for each in finishing:
            each(model)
