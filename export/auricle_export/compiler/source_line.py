"""The place in a model author's program that a sentence is about."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import torch
from torch import nn

_OURS = str(Path(__file__).parents[1]) + os.sep
_ENTRIES = tuple(str(Path(__file__).with_name(name)) for name in ("trace.py", "contract.py"))
_CALLERS = ("run_module", "refuse_fixed_batch", "forward")
"""What in these files calls the user's module."""
_TORCH = str(Path(torch.__file__).parent) + os.sep
_STANDARD = str(Path(os.__file__).parent) + os.sep


def user_line() -> str:
    """`File, line N (the line's text): ` of the innermost call from the user's module, or `Layer NAME (TYPE): `."""
    return _place(list(_running()))


def error_line(error: BaseException) -> str:
    """The same, for where an exception of the module was raised, or the first of its causes that says it."""
    cause: BaseException | None = error
    while cause is not None:
        frames: list[tuple[FrameType, int]] = []
        trace = cause.__traceback__
        while trace is not None:
            frames = [] if _calls_module(trace.tb_frame) else [(trace.tb_frame, trace.tb_lineno), *frames]
            trace = trace.tb_next
        place = _place(frames)
        if place:
            return place
        cause = cause.__cause__ or cause.__context__
    return ""


def _running() -> Iterator[tuple[FrameType, int]]:
    """Frames from the innermost one outwards, up to where compiling began."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not _calls_module(frame):
        yield frame, frame.f_lineno
        frame = frame.f_back


def _calls_module(frame: FrameType) -> bool:
    return frame.f_code.co_filename in _ENTRIES and frame.f_code.co_name in _CALLERS


def _place(frames: list[tuple[FrameType, int]]) -> str:
    """The innermost of these frames that is the user's; where there is none, the innermost layer."""
    for frame, line in frames:
        file = frame.f_code.co_filename
        if _users(file):
            return f"{Path(file).name}, line {line} ({linecache.getline(file, line).strip()}): "
    layers = [part for frame, _ in frames if isinstance(part := frame.f_locals.get("self"), nn.Module)]
    if not layers:
        return ""
    name = next((name for name, part in layers[-1].named_modules() if part is layers[0]), "")
    return f"Layer {name} ({type(layers[0]).__name__}): " if name else f"{type(layers[0]).__name__}: "


def _users(file: str) -> bool:
    """Whether a file is neither PyTorch's, nor this package's, nor Python's own."""
    if file.startswith((_OURS, _TORCH, "<")):
        return False
    return not file.startswith(_STANDARD) or "-packages" in file.removeprefix(_STANDARD)
