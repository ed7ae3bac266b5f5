"""Small changes of a Python source, one at a time: what a test that looks should notice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

WORD = re.compile(r"[\w./:-]{1,40}")
"""A name or a code; sentences for people are not changed, nor are names of operators that have no other one."""
COMPARED: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
}
COMPUTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
GRAPH = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Min": "Max", "Max": "Min", "Sqrt": "Abs"}
GRAPH |= {"Exp": "Abs", "Neg": "Abs", "Pow": "Mul", "Softmax": "LogSoftmax", "LogSoftmax": "Softmax", "Sum": "Mean"}
GRAPH |= {"ArgMax": "ArgMin", "GreaterOrEqual": "Greater", "ReduceSum": "ReduceMean", "ReduceMax": "ReduceMin"}
"""ONNX operators that take what another one takes."""
SYMMETRIC = {"Add", "Mul", "Max", "Min", "Sum", "min", "max", "minimum", "maximum", "equal"}
"""Operators and functions for which the order of what they take does not matter."""
UNSEEN = {"strict", "stacklevel", "frozen"}
"""Keywords that only matter to a caller who is wrong already; who changes what is frozen is told by mypy, too."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    before: str
    """The lines it changes, without what is only layout."""
    after: str
    inside: bool
    """Of a function: what runs when a module is imported stays as it is."""
    source: bytes
    """The whole file after the change."""


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Every change of a source, in the order of its lines, each once; those that do not compile are left out."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[bytes, Mutant] = {}
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for start, end, text in sorted(_Finder(source, starts).changes(tree)):
        changed = source[:start] + text + source[end:]
        first = source.rfind(b"\n", 0, start) + 1
        last = source.find(b"\n", end) if b"\n" in source[end:] else len(source)
        before, after = source[first:last], source[first:start] + text + source[end:last]
        try:
            compile(changed, file, "exec")
        except SyntaxError:
            continue
        line = source.count(b"\n", 0, start) + 1
        inside = any(f.lineno <= line <= (f.end_lineno or 0) for f in functions)
        found.setdefault(changed, Mutant(file, line, _squeezed(before), _squeezed(after), inside, changed))
    return [mutant for changed, mutant in found.items() if changed != source]


def _squeezed(text: bytes) -> str:
    return " ".join(text.decode().split())


Change = tuple[int, int, bytes]
"""From one byte to another one, and what comes there."""


class _Finder:
    """Finds the changes of a source by its syntax tree."""

    def __init__(self, source: bytes, starts: list[int]) -> None:
        self._source, self._starts = source, starts

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _whole(self, node: ast.expr | ast.stmt, text: str) -> Change:
        return self._start(node), self._end(node), text.encode()

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Change:
        start, end = self._end(left), self._start(right)
        return start, end, self._source[start:end].decode().replace(old, new, 1).encode()

    def changes(self, node: ast.AST) -> Iterator[Change]:
        """All changes in a node and what it holds."""
        if _is_left_alone(node):
            return
        yield from self._of(node)
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from self.changes(child)

    def _of(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare():
                for left, kind, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                    old, others = COMPARED[type(kind)]
                    yield from (self._between(left, right, old, new) for new in others)
            case ast.BinOp() if type(node.op) in COMPUTED:
                yield self._between(node.left, node.right, *COMPUTED[type(node.op)])
            case ast.BoolOp():
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield self._between(left, right, old, new)
            case ast.UnaryOp():
                yield self._whole(node, self._text(node).removeprefix("not").lstrip("-~ "))
            case ast.Constant():
                yield from self._constant(node)
            case ast.Call():
                yield from self._call(node)
            case ast.If() | ast.IfExp() | ast.While():
                yield from self._condition(node.test)
            case ast.comprehension():
                for test in node.ifs:
                    yield from self._condition(test)
            case ast.stmt():
                yield from self._statement(node)

    def _condition(self, test: ast.expr) -> Iterator[Change]:
        if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield self._whole(test, f"not ({self._text(test)})")

    def _constant(self, node: ast.Constant) -> Iterator[Change]:
        value = node.value
        if isinstance(value, bool):
            yield self._whole(node, str(not value))
        elif isinstance(value, int | float):
            yield self._whole(node, repr(value + 1))
        elif isinstance(value, str) and WORD.fullmatch(value) and (value in GRAPH or not value[0].isupper()):
            yield self._whole(node, repr(GRAPH.get(value, f"{value}XX")))

    def _call(self, node: ast.Call) -> Iterator[Change]:
        function, given = self._text(node.func), [self._text(each) for each in node.args]
        named = [f"{k.arg}={self._text(k.value)}" if k.arg else f"**{self._text(k.value)}" for k in node.keywords]
        operator = getattr(node.args[0], "value", "") if node.args else ""
        symmetric = operator in SYMMETRIC or function.rpartition(".")[2] in SYMMETRIC
        for i in range(1 if operator and isinstance(operator, str) else 0, 0 if symmetric else len(given) - 1):
            swapped = [*given[:i], given[i + 1], given[i], *given[i + 2 :], *named]
            yield self._whole(node, f"{function}({', '.join(swapped)})")
        for i, keyword in enumerate(node.keywords):
            if keyword.arg is not None and keyword.arg not in UNSEEN:
                yield self._whole(node, f"{function}({', '.join([*given, *named[:i], *named[i + 1 :]])})")

    def _statement(self, node: ast.stmt) -> Iterator[Change]:
        match node:
            case ast.Expr() | ast.Raise():
                yield self._whole(node, "pass")
            case ast.Return(value=ast.Constant(value=None | False)):
                pass
            case ast.Return(value=ast.expr()):
                yield self._whole(node, "return None")
            case ast.AugAssign() if type(node.op) in COMPUTED:
                old, new = COMPUTED[type(node.op)]
                yield self._between(node.target, node.value, f"{old}=", f"{new}=")
            case ast.Break():
                yield self._whole(node, "continue")
            case ast.Continue():
                yield self._whole(node, "break")


def _is_left_alone(node: ast.AST) -> bool:
    """Docstrings, sentences, what is logged, and types."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
            return True
        case ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.keyword(arg=name):
            return name in UNSEEN
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
    return False
