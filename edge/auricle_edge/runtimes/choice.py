"""Which runtime a device uses: the one it was told, or the best of what is installed and what the pack has."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auricle.errors import AuricleError, SettingsError, extra_command, nearest
from auricle.packs.pack import Pack
from auricle.process.plugins import entry_points_of, guard, load, takes
from auricle_learning.native.first_use import (
    ORT_PROGRAM,
    TRIALS,
    RuntimeDiesError,
    Trial,
    death_of,
    library_is_there,
    refuse_dead,
)
from auricle_learning.runtimes.interface import Runtime

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from auricle_learning.native.library import Library

GROUP = "auricle.runtimes"
"""Entry points of runtimes of other packages."""
AUTO, STEP, NATIVE, ORT_TRAINING, TFLITE = "auto", "step", "native", "ort-training", "tflite"
_LITERT = ("ai_edge_litert", "tflite_runtime")
"""Modules that run `.tflite`, the newer one first."""
_CALLED = ("logits", "embeddings", "has", "begin", "end_training")
_INTERFACE = ("name", "pack", *_CALLED)
"""What a runtime has, and what of it is called."""


@dataclass(frozen=True)
class RuntimeKind:
    """A runtime that there can be on a device."""

    name: str
    """As in `--runtime`."""
    missing: Callable[[Pack, bool], str | None]
    """What keeps it from running a pack here, as a sentence; None when nothing does. Asked whether it has to train."""
    make: Callable[[Pack, int], Runtime]
    """It, for a pack, with so many threads inside one operator; only here it imports what it needs."""


@dataclass(frozen=True)
class Choice:
    """A runtime, and why this one."""

    runtime: Runtime
    reason: str


def choose_runtime(wanted: str, pack: Pack, threads: int = 1, *, training: bool = True) -> Choice:
    """Make the runtime that was asked for; `auto` takes the first that is installed and for which the pack has files.

    The order is native where its library is there (the wheel brings it, or it was compiled on this machine before) and
    computes here as it should, step, ort-training and, where nothing is to be trained, tflite. Nothing is compiled for
    `auto`: that is done where `native` is asked for.
    What another package offers is taken, and imported, only where it is asked for.

    Parameters
    ----------
    wanted
        `auto`, `step`, `native`, `ort-training`, `tflite`, or the name of an entry point of the group
        `auricle.runtimes`, which cannot take one of these.
    pack
        What it has to run.
    threads
        Threads inside one operator.
    training
        Whether models are to be trained; without, recognising is enough.

    Raises
    ------
    SettingsError
        There is no runtime of that name, or that of another package cannot be loaded.
    AuricleError
        Nothing fits, or what was asked for does not; the sentence says what is missing. `RuntimeDiesError` where a
        library ends the process that uses it, which was tried in a child.
    """
    if wanted == AUTO:
        return _automatic(pack, threads, training)
    kind = RUNTIMES.get(wanted) or _of_another_package(wanted)
    if (reason := kind.missing(pack, training)) is not None:
        raise AuricleError(reason)
    if RUNTIMES.get(wanted) is kind:
        refuse_dead(wanted)
    return Choice(kind.make(pack, threads), f"Runtime {wanted}: it was asked for.")


def vote_runtime(beside: Runtime, threads: int, voter: Pack) -> Runtime:
    """What runs a pack's vote beside a runtime of the pack: native and step themselves, beside others `auto`."""
    wanted = beside.name if beside.name in (NATIVE, STEP) else AUTO
    return choose_runtime(wanted, voter, threads, training=False).runtime


def fastest_trainer() -> tuple[str, str]:
    """What trains fastest on this machine, by name, and why in a clause: native, else step.

    Unlike `auto` it compiles the library where the wheel brought none (some seconds, once): for who trains many devices
    in one process. Whether a pack's graphs run is asked later, graph by graph.

    Returns
    -------
    tuple[str, str]
        `native` and where its library is from, or `step` and what keeps the library away.
    """
    from auricle_learning.native.library import brought_library, library
    from auricle_learning.native.self_test import fault_of

    try:
        why_not = death_of(NATIVE) if library_is_there() else None
        why_not = why_not or fault_of(library())
    except AuricleError as error:
        why_not = str(error)
    if why_not is not None:
        return STEP, f"onnxruntime, since the C library cannot be used. {why_not}"
    return NATIVE, f"the C library that {_origin(brought_library())}"


def _origin(brought: Library | None) -> str:
    return "was compiled on this machine" if brought is None else "came with the wheel"


def runtime_names() -> list[str]:
    """What `--runtime` can be, runtimes of other packages included; nothing of theirs is imported."""
    return sorted({AUTO, *RUNTIMES, *entry_points_of(GROUP)})


def _automatic(pack: Pack, threads: int, training: bool) -> Choice:
    from auricle_learning.native.library import brought_library, found_library, why_not_brought
    from auricle_learning.native.self_test import fault_of

    dead = death_of(NATIVE) if library_is_there() else None
    brought = brought_library() if dead is None else None
    found = brought or (found_library() if dead is None else None)
    names = [STEP, ORT_TRAINING, *([] if training else [TFLITE])]
    missing = {name: RUNTIMES[name].missing(pack, training) for name in names}
    lacks = RUNTIMES[NATIVE].missing(pack, training)
    if found is not None or dead is not None:
        missing = {NATIVE: lacks or dead or (None if found is None else fault_of(found)), **missing}
    lacking = {name for name, reason in missing.items() if reason is not None}
    chosen = _first_alive(missing)
    if chosen is None:
        died = dead is not None or bool(missing.keys() - lacking)
        reasons = [reason for reason in missing.values() if reason is not None]
        if found is None and lacks is None and dead is None:
            reasons.append(f"{why_not_brought()} Where there is a C compiler, --runtime native makes one.")
        raise RuntimeDiesError(" ".join(reasons)) if died else AuricleError(" ".join(reasons))
    reason = _why_native(_origin(brought), threads) if chosen == NATIVE else _why(chosen, missing)
    return Choice(RUNTIMES[chosen].make(pack, threads), f"Runtime {chosen}: {reason}")


def _first_alive(missing: dict[str, str | None]) -> str | None:
    """The first runtime that lacks nothing and lives in a child; of those before it the table then has the reason."""
    for name, reason in missing.items():
        if reason is None:
            missing[name] = death_of(name)
            if missing[name] is None:
                return name
    return None


def _why_native(origin: str, threads: int) -> str:
    alone = "" if threads == 1 else f" It uses one thread, not the {threads} of the settings."
    return f"its library {origin}, and computes here as it should.{alone}"


def _why(chosen: str, missing: dict[str, str | None]) -> str:
    if chosen == STEP:
        instead = f" {missing[NATIVE]}" if missing.get(NATIVE) else ""
        return f"onnxruntime {onnxruntime_version()} is installed and the pack has graphs for it.{instead}"
    return " ".join(["the next best.", *(reason for reason in missing.values() if reason is not None)])


def _missing_step(pack: Pack, training: bool) -> str | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return f"The runtime step needs onnxruntime, which is not installed: {extra_command('edge')}."
    return _missing_graphs(STEP, pack, training)


def _missing_native(pack: Pack, training: bool) -> str | None:
    return _missing_graphs(NATIVE, pack, training)


def _missing_ort_training(pack: Pack, _training: bool) -> str | None:
    if not _has_training():
        return (
            "The runtime ort-training needs onnxruntime-training, which is not installed: in an environment of its own "
            f"with Python 3.10 or 3.11 on x86_64, {extra_command('ort-training', elsewhere=True)}."
        )
    if not pack.manifest.ort_training:
        return f"The pack {pack.manifest.name} has no files for the runtime ort-training: auricle export artifacts."
    return None


def _has_training() -> bool:
    """Whether the onnxruntime that is here can train, without importing it: on some machines that ends a process."""
    spec = importlib.util.find_spec("onnxruntime")
    places = [] if spec is None else spec.submodule_search_locations or []
    return any((Path(place) / "training" / "__init__.py").is_file() for place in places)


def _missing_graphs(name: str, pack: Pack, training: bool) -> str | None:
    graphs = pack.manifest.graphs
    fits = any(graph.trains if training else graph.kind == "evaluate" for graph in graphs)
    return None if fits else f"The pack {pack.manifest.name} has no graphs for the runtime {name}."


def _missing_tflite(pack: Pack, training: bool) -> str | None:
    if training:
        return "The runtime tflite recognises and does not train: choose --runtime step."
    if not any(importlib.util.find_spec(module) for module in _LITERT):
        return f"The runtime tflite needs LiteRT, which is not installed: {extra_command('tflite')}."
    if not pack.manifest.tflite:
        return f"The pack {pack.manifest.name} has no .tflite model: auricle export tflite."
    return None


def onnxruntime_version() -> str:
    """Of what is installed of onnxruntime, under whichever name."""
    from importlib.metadata import PackageNotFoundError, version

    for name in ("onnxruntime", "onnxruntime-training", "onnxruntime-gpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"


def _make_step(pack: Pack, threads: int) -> Runtime:
    from auricle_learning.runtimes.step import StepRuntime

    return StepRuntime(pack, threads)


def _make_native(pack: Pack, threads: int) -> Runtime:
    from auricle_learning.native.runtime import NativeRuntime

    return NativeRuntime(pack, threads)


def _make_ort_training(pack: Pack, threads: int) -> Runtime:
    from auricle_edge.runtimes.ort_training import OrtTrainingRuntime

    return OrtTrainingRuntime(pack, threads)


def _make_tflite(pack: Pack, threads: int) -> Runtime:
    from auricle_edge.runtimes.tflite import TfliteRuntime

    return TfliteRuntime(pack, threads)


RUNTIMES: dict[str, RuntimeKind] = {
    kind.name: kind
    for kind in (
        RuntimeKind(STEP, _missing_step, _make_step),
        RuntimeKind(NATIVE, _missing_native, _make_native),
        RuntimeKind(ORT_TRAINING, _missing_ort_training, _make_ort_training),
        RuntimeKind(TFLITE, _missing_tflite, _make_tflite),
    )
}
"""Those that come with auricle."""
TRIALS[ORT_TRAINING] = Trial(
    f"from auricle_edge.runtimes.ort_model import load_api; load_api(); {ORT_PROGRAM}",
    ("onnxruntime-training",),
    "onnxruntime",
)
TRIALS[TFLITE] = Trial(
    "from auricle_edge.runtimes.tflite import interpreter_class; interpreter_class()",
    ("ai-edge-litert", "tflite-runtime"),
    "ai_edge_litert",
    says_why=True,
)


def _of_another_package(name: str) -> RuntimeKind:
    others = entry_points_of(GROUP)
    if name not in others:
        raise SettingsError(f'There is no runtime "{name}": {nearest(name, runtime_names())}')
    return _load(name, others[name])


def _load(name: str, entries: list[EntryPoint]) -> RuntimeKind:
    """Import a runtime of another package, and turn what it raises, or lacks, into one sentence."""
    kind, package = load("runtime", name, entries)
    where = f'The runtime "{name}" of {package}'
    if not isinstance(kind, RuntimeKind):
        raise SettingsError(
            f"{where} is no auricle_edge.runtimes.RuntimeKind but a {type(kind).__name__}; update or uninstall the "
            "package."
        )

    for part, given in (("missing", "pack, training"), ("make", "pack, threads")):
        if not takes(getattr(kind, part), 2):
            raise SettingsError(
                f"{where} has a {part} that is no function of ({given}); update or uninstall the package."
            )
    made = guard(kind.make, "runtime", where, SettingsError)

    def make(pack: Pack, threads: int) -> Runtime:
        runtime = made(pack, threads)
        lacking = [part for part in _INTERFACE if not hasattr(runtime, part)]
        lacking += [part for part in _CALLED if part not in lacking and not callable(getattr(runtime, part))]
        if lacking:
            raise SettingsError(f"{where} has no {', '.join(lacking)}; choose another runtime or update the package.")
        return runtime

    return RuntimeKind(name, guard(kind.missing, "runtime", where, SettingsError), make)
