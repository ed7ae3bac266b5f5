"""Graphs are judged from their bytes: what is sound passes, everything else is refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.core import tiny_pack
from tests.core.checked_graph import check_bytes, evaluation
from tests.core.tiny_pack import EVALUATE, STEP, model, value

from auricle.checks.graph_check import LARGEST_TOTAL, CheckedModel, check_foreign_graph, check_graph
from auricle.checks.layout_shapes import RULES
from auricle.checks.onnx_reader import read_model
from auricle.errors import PackError
from auricle.packs.graph_interface import step_inputs, step_outputs
from auricle.packs.pack import load_pack
from auricle.packs.shipped import SHIPPED

ort = pytest.importorskip("onnxruntime", reason="shapes are compared with those of onnxruntime")


def test_the_graphs_of_a_sound_pack_pass() -> None:
    pack = tiny_pack.pack()
    for graph in pack.manifest.graphs:
        ort.InferenceSession(pack.files[graph.file])
        check_graph(pack, graph)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_graph_passes(name: str) -> None:
    pack = load_pack(name)
    for graph in pack.manifest.graphs:
        check_graph(pack, graph)


CASES: list[tuple[str, list[Any], dict[str, Any], int]] = [
    ("Relu", [(2, 3)], {}, 1),
    ("Gelu", [(2, 3)], {}, 1),
    ("Softmax", [(2, 3)], {"axis": 1}, 1),
    ("Cast", [(2, 3)], {"to": TensorProto.INT32}, 1),
    ("Clip", [(2, 3), np.float32(0), np.float32(1)], {}, 1),
    ("LayerNormalization", [(2, 3, 4), (3, 4), (3, 4)], {"axis": 1}, 3),
    ("BatchNormalization", [(2, 3, 4), (3,), (3,), (3,), (3,)], {}, 1),
    ("InstanceNormalization", [(2, 3, 4), (3,), (3,)], {}, 1),
    ("Dropout", [(2, 3)], {}, 2),
    ("Add", [(4, 1, 3), (5, 1)], {}, 1),
    ("Max", [(4, 1), (3,), ()], {}, 1),
    ("Greater", [(4, 1), (3,)], {}, 1),
    ("Where", [np.array([True, False]), (3, 1), (2,)], {}, 1),
    ("ReduceSum", [(2, 3, 4), np.array([0, -1])], {}, 1),
    ("ReduceSum", [(2, 3, 4)], {"keepdims": 0}, 1),
    ("ReduceLogSumExp", [(2, 3, 4), np.array([1])], {"keepdims": 0}, 1),
    ("ReduceL2", [(2, 3), np.array([1])], {}, 1),
    ("ArgMax", [(2, 3)], {"axis": -1}, 1),
    ("ArgMax", [(2, 3)], {"axis": 0, "keepdims": 0}, 1),
    ("TopK", [(2, 6), np.array([4])], {"axis": 1}, 2),
    ("CumSum", [(2, 3), np.array(1)], {}, 1),
    ("MatMul", [(5, 1, 2, 3), (4, 3, 6)], {}, 1),
    ("MatMul", [(3,), (3, 6)], {}, 1),
    ("MatMul", [(2, 3), (3,)], {}, 1),
    ("MatMul", [(3,), (3,)], {}, 1),
    ("Gemm", [(3, 2), (4, 3), (4,)], {"transA": 1, "transB": 1}, 1),
    ("Einsum", [(2, 3, 4), (2, 4, 5)], {"equation": "bij, bjk -> bik"}, 1),
    ("Einsum", [(2, 3)], {"equation": "ij->j"}, 1),
    ("Col2Im", [(1, 12, 6), np.array([4, 3]), np.array([2, 2])], {}, 1),
    ("Conv", [(2, 4, 9), (6, 4, 3), (6,)], {"pads": [1, 1], "strides": [2]}, 1),
    ("Conv", [(2, 4, 9, 8), (4, 1, 3, 2)], {"group": 4, "dilations": [2, 1], "strides": [1, 2]}, 1),
    ("Conv", [(1, 2, 7), (2, 2, 3)], {"auto_pad": "SAME_UPPER", "strides": [2]}, 1),
    ("Conv", [(1, 2, 7), (2, 2, 3)], {"auto_pad": "VALID"}, 1),
    ("ConvTranspose", [(1, 2, 5), (2, 3, 4)], {"strides": [2], "pads": [1, 0], "output_padding": [1]}, 1),
    ("ConvTranspose", [(1, 4, 5, 3), (4, 3, 2, 2)], {"group": 2, "strides": [2, 1]}, 1),
    ("MaxPool", [(2, 3, 9)], {"kernel_shape": [2], "strides": [2]}, 1),
    ("MaxPool", [(2, 3, 9)], {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}, 2),
    ("AveragePool", [(2, 3, 9, 8)], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}, 1),
    ("GlobalAveragePool", [(2, 3, 9, 8)], {}, 1),
    ("GRU", [(7, 2, 3), (1, 15, 3), (1, 15, 5)], {"hidden_size": 5}, 2),
    ("GRU", [(7, 2, 3), (2, 15, 3), (2, 15, 5)], {"hidden_size": 5, "direction": "bidirectional"}, 2),
    ("LSTM", [(7, 2, 3), (1, 20, 3), (1, 20, 5)], {"hidden_size": 5}, 3),
    ("RNN", [(7, 2, 3), (1, 5, 3), (1, 5, 5)], {"hidden_size": 5}, 2),
    ("Reshape", [(2, 3, 4), np.array([0, -1])], {}, 1),
    ("Reshape", [(1, 1), np.array([], np.int64)], {}, 1),
    ("Flatten", [(2, 3, 4)], {"axis": 2}, 1),
    ("Flatten", [(2, 3, 4)], {"axis": -1}, 1),
    ("Transpose", [(2, 3, 4)], {"perm": [2, 0, 1]}, 1),
    ("Transpose", [(2, 3, 4)], {}, 1),
    ("Squeeze", [(1, 3, 1)], {}, 1),
    ("Squeeze", [(1, 3, 1), np.array([-1])], {}, 1),
    ("Unsqueeze", [(3,), np.array([0, -1])], {}, 1),
    ("Concat", [(2, 3), (2, 5)], {"axis": -1}, 1),
    ("Split", [(7, 2)], {"num_outputs": 3}, 3),
    ("Split", [(7, 2), np.array([1, 6])], {}, 2),
    ("Slice", [(9, 4), np.array([1]), np.array([8]), np.array([0]), np.array([3])], {}, 1),
    ("Slice", [(9, 4), np.array([-1]), np.array([-100]), np.array([0]), np.array([-2])], {}, 1),
    ("Slice", [(9, 4), np.array([2, -3]), np.array([2**62, -1])], {}, 1),
    ("Slice", [(9, 4), np.array([5]), np.array([2])], {}, 1),
    ("Gather", [(5, 4), np.array([[0, 1, 2]])], {"axis": 1}, 1),
    ("GatherElements", [(5, 4), np.array([[0, 1]])], {"axis": 1}, 1),
    ("GatherND", [(5, 4, 3), np.array([[0, 1], [2, 3]])], {}, 1),
    ("ScatterND", [(5, 4), np.array([[0], [2]]), (2, 4)], {}, 1),
    ("ScatterElements", [(5, 4), np.array([[0, 1]]), (1, 2)], {"axis": 1}, 1),
    ("Pad", [(2, 3), np.array([1, 0, 0, 4])], {}, 1),
    ("Pad", [(2, 3), np.array([-1, 4]), np.float32(0), np.array([0])], {}, 1),
    ("Expand", [(3, 1), np.array([2, 1, 6])], {}, 1),
    ("Tile", [(3, 1), np.array([2, 6])], {}, 1),
    ("Shape", [(3, 1, 4)], {}, 1),
    ("Shape", [(3, 1, 4)], {"start": 1, "end": -1}, 1),
    ("Size", [(3, 1, 4)], {}, 1),
    ("ConstantOfShape", [np.array([3, 0, 2])], {}, 1),
    ("Range", [np.array(2), np.array(9), np.array(3)], {}, 1),
    ("Range", [np.array(9), np.array(2), np.array(-2)], {}, 1),
    ("OneHot", [np.array([1, 2]), np.array(5), np.array([0, 1], np.float32)], {"axis": 0}, 1),
    ("EyeLike", [(3, 4)], {}, 1),
    ("Trilu", [(3, 4)], {}, 1),
    ("DepthToSpace", [(1, 8, 2, 3)], {"blocksize": 2}, 1),
    ("SpaceToDepth", [(1, 2, 4, 6)], {"blocksize": 2}, 1),
]


def _single(operator: str, given: list[Any], attributes: dict[str, Any], outputs: int) -> onnx.ModelProto:
    """One operator: shapes become inputs, arrays become constants."""
    names = [f"i{i}" for i in range(len(given))]
    inputs = [(name, list(shape)) for name, shape in zip(names, given, strict=True) if isinstance(shape, tuple)]
    held = {name: array for name, array in zip(names, given, strict=True) if not isinstance(array, tuple)}
    made = [f"o{i}" for i in range(outputs)]
    built = model([helper.make_node(operator, names, made, **attributes)], inputs, [], held)
    built.opset_import[0].version = 20
    built.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in made)
    return built


def _followed(built: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    bare = onnx.ModelProto()
    bare.CopyFrom(built)
    del bare.graph.output[:]
    read = read_model(bare.SerializeToString(), "It")
    checked = CheckedModel(read, "It")
    shapes = {tensor.name: tensor.array.shape for tensor in read.initialisers}
    shapes |= {value.name: tuple(d for d in value.dims or () if isinstance(d, int)) for value in read.inputs}
    checked.follow(shapes)
    return shapes


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "outputs"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_shapes_are_those_of_onnxruntime(
    operator: str, given: list[Any], attributes: dict[str, Any], outputs: int
) -> None:
    built = _single(operator, given, attributes, outputs)
    session = ort.InferenceSession(onnx.shape_inference.infer_shapes(built).SerializeToString())
    feeds = {f"i{i}": np.ones(shape, np.float32) for i, shape in enumerate(given) if isinstance(shape, tuple)}
    made = session.run(None, feeds)
    shapes = _followed(built)
    assert [shapes[f"o{i}"] for i in range(outputs)] == [np.shape(array) for array in made]


def test_every_allowed_operator_is_one_of_the_standard() -> None:
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert set(RULES) <= standard
    assert not {"If", "Loop", "Scan", "RandomUniform", "RandomNormalLike", "NonZero", "StringConcat"} & set(RULES)


def test_a_size_that_is_computed_from_shapes_is_followed() -> None:
    """What exporters write for a reshape by a symbolic dimension."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "zero1"], ["rows1"]),
        helper.make_node("Mul", ["rows1", "three"], ["many"]),
        helper.make_node("Concat", ["rows1", "many", "rest"], ["wanted"], axis=0),
        helper.make_node("Expand", ["y", "wanted"], ["z"]),
    ]
    held = {"zero": np.array(0), "zero1": np.array([0]), "three": np.array([3]), "rest": np.array([1])}

    shapes = _followed(model(nodes, [("x", [4, 2]), ("y", [1])], [], held))

    assert shapes["z"] == (4, 12, 1)


def _shape(name: str, *numbers: int) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value_ints=numbers)


def _filled(**shapes: tuple[int, ...]) -> list[onnx.NodeProto]:
    """Tensors of these shapes, by name."""
    made = [(_shape(f"{n}.is", *s), helper.make_node("ConstantOfShape", [f"{n}.is"], [n])) for n, s in shapes.items()]
    return [node for pair in made for node in pair]


def _huge(operator: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, ["huge"], **attributes)


def _doubling(times: int) -> list[onnx.NodeProto]:
    names = ["x", *(f"d{i}" for i in range(times))]
    return [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in itertools.pairwise(names)]


CROSSED = _filled(column=(1 << 20, 1), row=(1, 1 << 20))
LARGE: dict[str, list[onnx.NodeProto]] = {
    "ConstantOfShape": _filled(huge=(50_000, 50_000)),
    "ConstantOfShape of an axis that nothing fills": _filled(huge=(0, 1 << 40)),
    "ConstantOfShape of a negative axis": _filled(huge=(-5, -5)),
    "Expand": [_shape("big", 1 << 32, 64, 5, 3), _huge("Expand", "x", "big")],
    "Tile": [_shape("big", 1 << 30, 1, 1), _huge("Tile", "x", "big")],
    "Pad": [_shape("big", 0, 0, 0, 1 << 40, 0, 0), _huge("Pad", "x", "big")],
    "Range": [
        *(helper.make_node("Constant", [], [name], value_int=n) for name, n in (("a", 0), ("b", 1 << 60), ("c", 1))),
        _huge("Range", "a", "b", "c"),
    ],
    "doubling": _doubling(40),
    "an outer product": [*CROSSED, _huge("MatMul", "column", "row")],
    "a broadcast": [*CROSSED, _huge("Add", "column", "row")],
    "padding of a pool": [_huge("MaxPool", "x", kernel_shape=[1], pads=[1 << 40, 1 << 40])],
    "columns of a convolution": [*_filled(k=(1, 5, 1 << 16)), _huge("Conv", "x", "k", pads=[1 << 16, 1 << 16])],
    "OneHot": [
        helper.make_node("Cast", ["x"], ["indices"], to=TensorProto.INT64),
        helper.make_node("Constant", [], ["depth"], value_int=1 << 40),
        helper.make_node("Constant", [], ["values"], value_floats=[0.0, 1.0]),
        _huge("OneHot", "indices", "depth", "values"),
    ],
}


@pytest.mark.parametrize("how", LARGE)
def test_a_tensor_too_large_for_a_board_is_refused_wherever_it_arises(how: str) -> None:
    with pytest.raises(PackError, match=rf"The graph {EVALUATE} of the pack tiny is refused: .*(numbers|dimension)"):
        check_bytes(evaluation(lambda built: built.graph.node.extend(LARGE[how])))


def test_many_large_tensors_are_refused_together() -> None:
    nodes = _filled(**{f"large{i}": (1 << 26,) for i in range(40)})
    with pytest.raises(PackError, match=f"more than {LARGEST_TOTAL} numbers"):
        check_bytes(evaluation(lambda built: built.graph.node.extend(nodes)))


def _initialiser(**changes: Any) -> Callable[[onnx.ModelProto], Any]:
    """Adds a float32 constant of two numbers, changed."""

    def change(built: onnx.ModelProto) -> None:
        tensor = numpy_helper.from_array(np.array([1, 2], np.float32), "extra")
        for name, content in changes.items():
            if isinstance(content, (list, tuple)):
                tensor.ClearField(name)
                getattr(tensor, name).extend(content)
            else:
                setattr(tensor, name, content)
        built.graph.initializer.append(tensor)

    return change


def _numbers(*numbers: float) -> Callable[[onnx.ModelProto], Any]:
    return _initialiser(raw_data=np.array(numbers, np.float32).tobytes(), dims=[len(numbers)])


def _node(*arguments: Any, **attributes: Any) -> Callable[[onnx.ModelProto], Any]:
    return lambda built: built.graph.node.append(helper.make_node(*arguments, **attributes))


def _external(built: onnx.ModelProto) -> None:
    _initialiser(data_location=TensorProto.EXTERNAL)(built)


def _sparse(built: onnx.ModelProto) -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "extra")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "where")
    built.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [1 << 40]))


def _cycle(built: onnx.ModelProto) -> None:
    built.graph.node.append(helper.make_node("Add", ["x", "b"], ["a"]))
    built.graph.node.append(helper.make_node("Relu", ["a"], ["b"]))


def _unsorted(built: onnx.ModelProto) -> None:
    built.graph.node.append(built.graph.node[0])
    del built.graph.node[0]


def _attribute_type(built: onnx.ModelProto) -> None:
    built.graph.node[0].attribute[0].type = onnx.AttributeProto.FLOAT


def _attribute_twice(built: onnx.ModelProto) -> None:
    built.graph.node[0].attribute.append(built.graph.node[0].attribute[0])


def _set(name: str, content: Any) -> Callable[[onnx.ModelProto], Any]:
    return lambda built: setattr(built, name, content)


def _opset(version: int, domain: str = "") -> Callable[[onnx.ModelProto], Any]:
    return lambda built: built.opset_import[0].CopyFrom(helper.make_opsetid(domain, version))


def _input_shape(index: int, *shape: Any, kind: int = TensorProto.FLOAT) -> Callable[[onnx.ModelProto], Any]:
    return lambda built: built.graph.input[index].CopyFrom(value(built.graph.input[index].name, list(shape), kind))


UNSOUND: dict[str, tuple[Callable[[onnx.ModelProto], Any], str]] = {
    "contrib domain": (_node("Gelu", ["x"], ["y"], domain="com.microsoft"), "ONNX standard"),
    "random": (_node("RandomNormalLike", ["x"], ["y"]), "may use"),
    "depends on the data": (_node("NonZero", ["x"], ["y"]), "may use"),
    "size by data": (_node("Tile", ["x", "x"], ["y"]), "input 1"),
    "control characters in a name": (_node("Ev\x1b[31mil", ["x"], ["y"]), r"'Ev\\x1b\[31mil'"),
    "overload": (lambda built: setattr(built.graph.node[0], "overload", "f"), "calls a function"),
    "training": (lambda built: built.training_info.add(), "field 20"),
    "external location": (_external, "outside the file"),
    "sparse": (_sparse, "sparse"),
    "one NaN": (_numbers(np.nan), "'extra' holds NaN"),
    "infinities": (_numbers(1, np.inf), "'extra' holds infinite numbers"),
    "NaN in an attribute": (_node("Elu", ["x"], ["y"], alpha=float("nan")), "attribute 'alpha' of a node"),
    "NaN in a Constant": (_node("Constant", [], ["y"], value_floats=[0.0, float("nan")]), "holds NaN"),
    "dims that overflow": (_initialiser(dims=[1 << 32, 1 << 32, 0]), "claims 0 numbers but holds 8"),
    "dims and data": (_initialiser(dims=[3]), "claims 3 numbers but holds 8 bytes"),
    "data twice": (_initialiser(float_data=[1.0, 2.0]), "holds its numbers twice"),
    "negative dims": (_initialiser(dims=[-1, -2]), "negative one"),
    "rank": (_initialiser(dims=[1] * 9), "more than 8 dimensions"),
    "text": (_initialiser(data_type=TensorProto.STRING), "an element type that a pack's graph may not have"),
    "complex": (_initialiser(data_type=TensorProto.COMPLEX64), "an element type that a pack's graph may not have"),
    "no element type": (_initialiser(data_type=0), "an element type that a pack's graph may not have"),
    "large shape of a value": (lambda built: built.graph.value_info.append(value("mean", [1 << 40])), "'mean'"),
    "self": (_node("Add", ["y", "x"], ["y"]), "it is cyclic: 'y'"),
    "unsorted": (_unsorted, "takes 'mean' before it is made"),
    "undefined": (_node("Add", ["nothing", "x"], ["y"]), "takes 'nothing', which nothing makes"),
    "constant over input": (lambda built: setattr(built.graph.initializer[0], "name", "x"), "defines 'x' twice"),
    "input twice": (lambda built: built.graph.input.append(built.graph.input[0]), "defines 'x' twice"),
    "no outputs": (_node("Relu", ["x"], []), "gives nothing"),
    "more outputs": (_node("MatMul", ["mean", "mix"], ["p", "q"]), "more outputs than such a one has"),
    "attribute type": (_attribute_type, "has no type or two values"),
    "attribute twice": (_attribute_twice, "'keepdims' twice"),
    "IR 11": (_set("ir_version", 11), "IR version 11"),
    "IR 3": (_set("ir_version", 3), "IR version 3"),
    "opset 22": (_opset(22), "opset 22"),
    "opset 11": (_opset(11), "opset 11"),
    "no opset": (_opset(18, "com.example"), "opset 0"),
    "opset twice": (lambda built: built.opset_import.append(built.opset_import[0]), "operator set '' twice"),
    "more inputs": (lambda built: built.graph.input.append(value("more", [1])), "'more' for one"),
    "fewer inputs": (lambda built: built.graph.input.pop(), "which nothing makes"),
    "fewer outputs": (lambda built: built.graph.output.pop(), "does not give the outputs"),
    "other body": (_input_shape(1, 7), r"its input 'model/body' is \(7,\), which the pack's tables do not say"),
    "batch for labels": (_input_shape(2, "batch", 2), "'model/head.weight' is"),
    "fixed batch": (_input_shape(0, 64, 5, 3), "fixed batch where the manifest says any"),
    "integers": (_input_shape(0, "batch", 5, 3, kind=TensorProto.INT64), "not a float32 tensor of 3 dimensions"),
    "other rank": (_input_shape(0, "batch", 15), "not a float32 tensor of 3 dimensions"),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_an_unsound_graph_is_refused_by_name(what: str) -> None:
    change, sentence = UNSOUND[what]
    with pytest.raises(PackError, match=sentence) as caught:
        check_bytes(evaluation(change))
    assert str(caught.value).startswith(f"The graph {EVALUATE} of the pack tiny is refused: ")
    assert str(caught.value).isprintable()


def test_an_output_of_another_shape_is_refused() -> None:
    built = tiny_pack.step()
    next(node for node in built.graph.node if node.output[0] == "loss").attribute[0].i = 1
    with pytest.raises(PackError, match=r"its output 'loss' is \(1,\) and not float32 of \(\)"):
        check_bytes(built, STEP)


def test_one_infinity_is_a_limit_and_allowed() -> None:
    check_bytes(evaluation(_numbers(-np.inf)))


def test_a_graph_of_another_runtime_may_use_its_operators_and_must_be_wired() -> None:
    own = evaluation(_node("GRUGrad", ["x"], ["y"], domain="com.microsoft"))
    check_foreign_graph(own.SerializeToString(), "The file", ["com.microsoft"])
    for change in (_cycle, _external, _numbers(1, np.nan), _node("Evil", ["x"], ["y"], domain="com.example")):
        change(own)
        with pytest.raises(PackError, match="The file is refused"):
            check_foreign_graph(own.SerializeToString(), "The file", ["com.microsoft"])
        own = evaluation(lambda built: None)


def test_the_unlabelled_batch_is_the_same_everywhere() -> None:
    """A FixMatch graph chooses the size of its unlabelled batch, once."""
    plain = {"kind": "fixmatch", "file": "graphs/f.onnx", "noise": {"mask": (4, 2)}}
    entry = msgspec.structs.replace(tiny_pack.graphs()[1], **plain)
    graph = msgspec.structs.replace(entry, inputs=tuple(step_inputs(entry)), outputs=tuple(step_outputs(entry)))
    shapes = {name: list(shape) for name, shape in [*tiny_pack.MODEL, *tiny_pack.MOMENTUM]}
    shapes |= {f"teacher/{part}": shape for part, shape in tiny_pack.SHAPES.items()}
    shapes |= {"x": [4, 5, 3], "target": [4, "labels"], "weight": [4], "mask": [4, 2]}
    shapes |= {"weak": [9, 5, 3], "strong": [9, 5, 3], "weight.unlabelled": [9]}

    def check(**changed: Any) -> None:
        inputs = [(name, {**shapes, **changed}.get(name, [])) for name in step_inputs(entry)]
        nodes = [helper.make_node("ReduceSum", ["weight"], [n], keepdims=0) for n in step_outputs(entry)[:4]]
        nodes += [helper.make_node("Identity", [n.removeprefix("new/")], [n]) for n in step_outputs(entry)[4:]]
        data = model(nodes, inputs, [(n, None) for n in step_outputs(entry)]).SerializeToString()
        check_graph(tiny_pack.pack({entry.file: data}, graphs=(*tiny_pack.graphs(), graph)), graph)

    check()
    with pytest.raises(PackError, match="'strong' is"):
        check(strong=[8, 5, 3])
    with pytest.raises(PackError, match="'mask' is"):
        check(mask=[4, 3])


ATTRIBUTES = [
    *("allowzero", "auto_pad", "axes", "axis", "batch_dims", "blocksize", "ceil_mode", "dilations", "end", "equation"),
    *("group", "hidden_size", "keepdims", "kernel_shape", "num_outputs", "pads", "perm", "start", "strides", "to"),
    *("value_float", "value_floats", "value_int", "value_ints"),
]
_SHAPE = st.lists(st.integers(0, 5), max_size=4).map(tuple)
_ARRAY = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-4, 9), max_size=5).map(
    lambda v: np.array(v, np.int64)
)


@pytest.mark.slow
@settings(max_examples=1000, deadline=2000)
@given(
    operator=st.sampled_from(sorted(RULES)),
    given_=st.lists(_SHAPE | _ARRAY, max_size=5),
    outputs=st.integers(1, 3),
    attributes=st.dictionaries(
        st.sampled_from(ATTRIBUTES),
        st.integers(-9, 9)
        | st.integers(-(2**63), 2**63 - 1)
        | st.lists(st.integers(-3, 5), min_size=1, max_size=5)
        | st.sampled_from(["ij,jk->ik", "ij->", "VALID", "SAME_UPPER", "é"]),
        max_size=3,
    ),
)
def test_no_operator_crashes_it(operator: str, given_: list[Any], outputs: int, attributes: dict[str, Any]) -> None:
    try:
        _followed(_single(operator, given_, attributes, outputs))
    except PackError as error:
        assert str(error).startswith("It is refused: ")
