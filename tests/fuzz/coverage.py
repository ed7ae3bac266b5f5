"""Which lines of its modules a target's inputs reach: of those in functions, for others run when they are imported."""

from __future__ import annotations

import ast
import importlib
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.run import Fuzzer, Knowledge
from tests.fuzz.scratch import scratch_folder
from tests.fuzz.target import Target

LIMIT = 2000
"""Inputs that are made for it, beside those of the corpus and those that led somewhere new."""
SECONDS = 60.0


def reached(target: Target, seed: int, cases: int = LIMIT, known: Knowledge | None = None) -> dict[str, object]:
    """Lines of the target's modules, how many of them were reached, and which were not, by module.

    Parameters
    ----------
    known
        Its inputs that led somewhere new are decoded, too.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with scratch_folder():
        child = context.Process(target=_measure, args=(target, seed, cases, known or Knowledge(), theirs))
        child.start()
        theirs.close()
        try:
            answer: dict[str, object] = ours.recv()
        except EOFError:
            answer = {}
        finally:
            child.kill()
            child.join()
    return answer


def _measure(target: Target, seed: int, cases: int, known: Knowledge, answer: Connection) -> None:
    import coverage

    files = {module: Path(str(importlib.import_module(module).__file__)) for module in target.modules}
    measure = coverage.Coverage(data_file=None, config_file=False, include=[str(file) for file in files.values()])
    measure.set_option("run:disable_warnings", ["no-data-collected"])
    measure.start()
    Fuzzer(target, seed).run(min(cases, LIMIT), SECONDS)
    again = Fuzzer(target, seed)
    for data in known.pool:
        again.one(data)
    measure.stop()
    lines, missing = 0, {}
    for module, file in files.items():
        inside = set(_inside(file))
        _, statements, _, left, _ = measure.analysis2(str(file))
        lines += len(inside.intersection(statements))
        missing[module] = sorted(inside.intersection(left))
    answer.send({"lines": lines, "lines_reached": lines - sum(map(len, missing.values())), "not_reached": missing})


def _inside(file: Path) -> Iterator[int]:
    """The lines inside of a module's functions."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from range(node.body[0].lineno, (node.end_lineno or 0) + 1)
