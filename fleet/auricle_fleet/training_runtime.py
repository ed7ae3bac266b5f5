"""What trains the devices of a run: the runtime that its settings name, or the fastest that this machine has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from auricle_edge.runtimes import fastest_trainer
from auricle_edge.runtimes.choice import AUTO, NATIVE, STEP
from auricle_learning.native.first_use import library_is_there
from auricle_learning.native.library import compiler
from auricle_learning.runtimes import Partial, Runtime

KNOWN = {NATIVE: "the C library", STEP: "onnxruntime"}
"""What the runtimes that a run usually has are."""


@dataclass(frozen=True)
class TrainingRuntime:
    """The runtime of a run, and why this one."""

    name: str
    reason: str
    """A clause: what it is, and where it is from or why it is no faster one."""

    @property
    def sentence(self) -> str:
        """For a person."""
        return f"Devices train with {self.name}: {self.reason.rstrip('.')}."


def is_at_hand(named: str) -> bool:
    """Whether nothing has to be compiled before a run can say what trains it."""
    return named != AUTO or library_is_there() or compiler() is None


def training_runtime(named: str, say: Callable[[str], None] = lambda _: None, resumes: bool = False) -> TrainingRuntime:
    """The runtime that trains a run's devices: as named, or for `auto` the fastest; a C library is compiled for it.

    Parameters
    ----------
    named
        As `FleetSettings.runtime`.
    say
        Told before the library is compiled, which takes some seconds, once on a machine.
    resumes
        Whether a run goes on that has chosen already.
    """
    if named != AUTO:
        why = "as the run began" if resumes else "as asked for"
        return TrainingRuntime(named, f"{KNOWN[named]}, {why}" if named in KNOWN else why)
    if not library_is_there() and compiler() is not None:
        say("compiles the C library that trains the devices: some seconds, once on this machine")
    return TrainingRuntime(*fastest_trainer())


def left_to_onnxruntime(runtime: Runtime, models: Iterable[str]) -> dict[str, str]:
    """Why onnxruntime runs a graph of these models, by its file; empty where the runtime runs all of them itself."""
    found: dict[str, str] = {}
    if isinstance(runtime, Partial):
        for model in models:
            found |= runtime.left_out(model)
    return found
