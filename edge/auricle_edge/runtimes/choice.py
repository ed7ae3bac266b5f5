"""Which runtime a device uses: the one it was told, or the best of what is installed and what the pack has."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from auricle.errors import AuricleError, SettingsError, nearest
from auricle.packs.pack import Pack
from auricle_learning.runtimes.interface import Runtime

STEP, NATIVE, ORT_TRAINING, TFLITE = "step", "native", "ort-training", "tflite"
RUNTIMES = ("auto", STEP, NATIVE, ORT_TRAINING, TFLITE)
_LITERT = ("ai_edge_litert", "tflite_runtime")
"""Modules that run `.tflite`, the newer one first."""


@dataclass(frozen=True)
class Choice:
    """A runtime, and why this one."""

    runtime: Runtime
    reason: str


def choose_runtime(wanted: str, pack: Pack, threads: int = 1, *, training: bool = True) -> Choice:
    """Make the runtime that was asked for; `auto` takes the first that is installed and for which the pack has files.

    The order is native where the wheel brings its library and it computes here as it should, step, ort-training and,
    where nothing is to be trained, tflite. Nothing is compiled for `auto`: that is done where `native` is asked for.

    Parameters
    ----------
    wanted
        `auto`, `step`, `native`, `ort-training` or `tflite`.
    pack
        What it has to run.
    threads
        Threads inside one operator.
    training
        Whether models are to be trained; without, recognising is enough.

    Raises
    ------
    SettingsError
        There is no runtime of that name.
    AuricleError
        Nothing fits, or what was asked for does not; the sentence says what is missing.
    """
    if wanted not in RUNTIMES:
        raise SettingsError(f'There is no runtime "{wanted}": {nearest(wanted, RUNTIMES)}')
    from auricle_edge.runtimes.native.library import brought_library, why_not_brought
    from auricle_edge.runtimes.native.self_test import fault_of

    brought = brought_library() if wanted == "auto" else None
    names = [wanted] if wanted != "auto" else [STEP, ORT_TRAINING, *([] if training else [TFLITE])]
    missing = {name: _missing(name, pack, training) for name in names}
    if brought is not None:
        missing = {NATIVE: _missing(NATIVE, pack, training) or fault_of(brought), **missing}
    fitting = [name for name, reason in missing.items() if reason is None]
    if not fitting:
        reasons = [reason for reason in missing.values() if reason is not None]
        if wanted == "auto" and brought is None and _missing(NATIVE, pack, training) is None:
            reasons.append(f"{why_not_brought()} Where there is a C compiler, --runtime native makes one.")
        raise AuricleError(" ".join(reasons))
    chosen = fitting[0]
    reason = "it was asked for." if wanted != "auto" else _why(chosen, missing, threads)
    return Choice(_make(chosen, pack, threads), f"Runtime {chosen}: {reason}")


def _why(chosen: str, missing: dict[str, str | None], threads: int) -> str:
    if chosen == NATIVE:
        alone = "" if threads == 1 else f" It uses one thread, not the {threads} of the settings."
        return f"the wheel brings its library, which computes here as it should.{alone}"
    if chosen == STEP:
        instead = missing.get(NATIVE)
        return (
            f"onnxruntime {_version()} is installed and the pack has graphs for it.{f' {instead}' if instead else ''}"
        )
    return " ".join(["the next best.", *(reason for reason in missing.values() if reason is not None)])


def _missing(name: str, pack: Pack, training: bool) -> str | None:
    """What keeps a runtime from doing the work here, as a sentence; None when nothing does."""
    if name == TFLITE:
        return _missing_tflite(pack, training)
    if name == NATIVE:
        return _missing_graphs(name, pack, training)
    if importlib.util.find_spec("onnxruntime") is None:
        return 'The runtime step needs onnxruntime, which is not installed: pip install "auricle[edge]".'
    if name == STEP:
        return _missing_graphs(name, pack, training)
    if importlib.util.find_spec("onnxruntime.training") is None:
        return (
            "The runtime ort-training needs onnxruntime-training, which is not installed: in an environment of its own "
            'with Python 3.10 or 3.11 on x86_64, pip install "auricle[ort-training]".'
        )
    if not pack.manifest.ort_training:
        return f"The pack {pack.manifest.name} has no files for the runtime ort-training: auricle export artifacts."
    return None


def _missing_graphs(name: str, pack: Pack, training: bool) -> str | None:
    kinds = {graph.kind for graph in pack.manifest.graphs}
    fits = bool(kinds - {"evaluate"} if training else kinds & {"evaluate"})
    return None if fits else f"The pack {pack.manifest.name} has no graphs for the runtime {name}."


def _missing_tflite(pack: Pack, training: bool) -> str | None:
    if training:
        return "The runtime tflite recognises and does not train: choose --runtime step."
    if not any(importlib.util.find_spec(module) for module in _LITERT):
        return 'The runtime tflite needs LiteRT, which is not installed: pip install "auricle[tflite]".'
    if not pack.manifest.tflite:
        return f"The pack {pack.manifest.name} has no .tflite model: auricle export tflite."
    return None


def _version() -> str:
    for name in ("onnxruntime", "onnxruntime-training", "onnxruntime-gpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"


def _make(name: str, pack: Pack, threads: int) -> Runtime:
    if name == ORT_TRAINING:
        from auricle_edge.runtimes.ort_training import OrtTrainingRuntime

        return OrtTrainingRuntime(pack, threads)
    if name == TFLITE:
        from auricle_edge.runtimes.tflite import TfliteRuntime

        return TfliteRuntime(pack, threads)
    if name == NATIVE:
        from auricle_edge.runtimes.native.runtime import NativeRuntime

        return NativeRuntime(pack, threads)
    from auricle_learning.runtimes.step import StepRuntime

    return StepRuntime(pack, threads)
