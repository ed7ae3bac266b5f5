"""Graphs of synthesisers: onnxruntime with one thread, since takes are spoken several at once."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from auricle.errors import DataError, extra_command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

_LONGEST_REASON = 200


def missing_library(what: str) -> str | None:
    """Why a graph that takes espeak-ng's phonemes cannot run here: a library is not installed."""
    for module in ("onnxruntime", "espeakng_loader"):
        if find_spec(module) is None:
            return f"{what} needs {module}, which is not installed: {extra_command('export')}."
    return None


def open_graph(path: Path, *inputs: str) -> InferenceSession:
    """Load a graph that has these inputs.

    Raises
    ------
    DataError
        It is not one.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise DataError(f"{path} is not the graph of a voice ({_line(error)}): take the voice's own file.") from error
    known = [each.name for each in session.get_inputs()]
    if lacking := [name for name in inputs if name not in known]:
        raise DataError(f"{path} is not the graph of a voice, for it has no {lacking[0]}: take the voice's own file.")
    return session


def run_graph(session: InferenceSession, given: Mapping[str, NDArray[np.generic]], what: str) -> object:
    """The first output.

    Raises
    ------
    DataError
        It fails; `what` begins the sentence.
    """
    try:
        return session.run(None, dict(given))[0]
    except Exception as error:  # onnxruntime has no class of its own for what a graph does
        raise DataError(f"{what} cannot be computed ({_line(error)}): choose another voice with --voice.") from error


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_LONGEST_REASON]
