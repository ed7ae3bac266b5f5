"""Which lines of its modules a target's inputs reach."""

from __future__ import annotations

import importlib
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.run import Fuzzer
from tests.fuzz.scratch import scratch_folder, use
from tests.fuzz.target import Target


def reached(target: Target, seed: int, cases: int) -> dict[str, object]:
    """Lines of the target's modules, how many of them were reached, and which were not, by module."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    with scratch_folder() as folder:
        child = context.Process(target=_measured, args=(target.name, seed, cases, folder, theirs))
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


def _measured(name: str, seed: int, cases: int, folder: Path, answer: Connection) -> None:
    import coverage

    from tests.fuzz.target import TARGETS
    from tests.fuzz.targets import load

    use(folder)
    measure = coverage.Coverage(data_file=None, config_file=False, messages=False)
    measure.start()
    load()
    target = TARGETS[name]
    Fuzzer(target, seed).run(cases)
    measure.stop()
    lines, missing = 0, {}
    for module in target.modules:
        file = importlib.import_module(module).__file__
        assert file is not None
        _, statements, _, left, _ = measure.analysis2(file)
        lines += len(statements)
        missing[module] = left
    answer.send({"lines": lines, "lines_reached": lines - sum(map(len, missing.values())), "not_reached": missing})
