"""What this machine can compute on, and what a coordinator will use."""

from __future__ import annotations

import importlib
import logging
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np

from auricle.errors import SettingsError
from auricle_learning.aggregation.compute.distances import Float64Array, FloatArray
from auricle_learning.aggregation.compute.matrix import Matrix, NumpyMatrix, Opener
from auricle_learning.aggregation.compute.matrix_native import processor_opener
from auricle_learning.aggregation.compute.matrix_torch import MEMORY, TorchMatrix
from auricle_learning.aggregation.compute.pieces import Spans
from auricle_learning.aggregation.options import check_choice

log = logging.getLogger("auricle.cloud")

CHOICES = ("auto", "cpu", "cuda", "mps")
"""`cuda` is AMD's ROCm too, as in PyTorch."""
_Answer = TypeVar("_Answer")
NO_FLOAT64 = "it has no float64, in which sums are taken: the processor computes"


@dataclass(frozen=True)
class Accelerator:
    """A device."""

    kind: str
    """cuda, rocm, mps or cpu."""
    device: str
    """PyTorch's name of it."""
    name: str
    memory_total: int | None
    """Bytes; None where nobody says."""
    memory_free: int | None
    used: bool
    why: str
    """Why it is used, or why not."""


@dataclass(frozen=True)
class Choice:
    """What is computed on."""

    accelerator: Accelerator
    opener: Opener
    """For `Cohort.build`."""


def accelerators(choice: str = "auto") -> tuple[Accelerator, ...]:
    """List the devices, GPUs first and the processor last; exactly one of them is used.

    Parameters
    ----------
    choice
        "auto" for the first GPU that works, "cpu", "cuda" (or ROCm), or "mps", which is listed but cannot be used.

    Raises
    ------
    SettingsError
        The choice does not exist.
    """
    check_choice("accelerator", choice, CHOICES)
    torch, missing = _pytorch()
    found = [] if torch is None else [*_gpus(torch), *_mps(torch)]
    wanted = choice in ("auto", "cuda")
    first = next((gpu.device for gpu in found if wanted and gpu.used), None)
    listed = [_decided(gpu, first, choice) for gpu in found]
    return (*listed, _processor(first, choice, missing or _none_of(listed)))


def gpu_in_sight(devices: Path = Path("/dev")) -> bool:
    """Whether a GPU may be there: without one, PyTorch and its 200 MB of memory need not be loaded to find none.

    Parameters
    ----------
    devices
        Where Linux shows NVIDIA's, AMD's, Jetson's and WSL's GPUs; other systems may always have one.
    """
    if platform.system() != "Linux":
        return True
    return any(next(devices.glob(name), None) for name in ("nvidia[0-9]*", "kfd", "nvhost*gpu*", "nvgpu", "dxg"))


def choose(choice: str = "auto", *, memory: int | None = None) -> Choice:
    """Choose what rules compute on.

    Parameters
    ----------
    choice
        As in `accelerators`.
    memory
        Bytes to use on a GPU at most; None for half of what is free there when a round is aggregated.

    Raises
    ------
    SettingsError
        The choice does not exist, or "cuda" or "mps" was asked for and does not work here.
    """
    if choice == "cpu" or (choice == "auto" and not gpu_in_sight()):
        return Choice(_processor(None, choice, "there is no GPU in sight"), processor_opener())
    listed = accelerators(choice)
    chosen = next(each for each in listed if each.used)
    if choice == "cuda" and chosen.kind == "cpu":
        raise SettingsError(f'there is no GPU to use ({chosen.why}); set the accelerator to "auto" or "cpu".')
    if choice == "mps" and not any(each.kind == "mps" for each in listed):
        raise SettingsError(f'there is no MPS device ({chosen.why}); set the accelerator to "auto" or "cpu".')
    return Choice(chosen, processor_opener() if chosen.kind == "cpu" else _opener(chosen.device, memory))


class GpuMatrix:
    """The primitives on a GPU, and on the processor from when the GPU gives up: it is full, or its driver went away.

    Parameters
    ----------
    weights
        (K, P) float32.
    device
        PyTorch's name of it.
    memory
        Bytes; None for half of what is free.
    """

    def __init__(self, weights: FloatArray, device: str, memory: int | None = None) -> None:
        self._weights, self._device, self._memory = weights, device, memory
        self._matrix: Matrix | None = None

    def weighted_sum(self, share: Float64Array, spans: Spans) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.weighted_sum`."""
        return self._on(lambda matrix: matrix.weighted_sum(share, spans))

    def layer_norms(
        self, spans: Spans, *, centre: Float64Array | None = None, share: Float64Array | None = None
    ) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.layer_norms`."""
        return self._on(lambda matrix: matrix.layer_norms(spans, centre=centre, share=share))

    def middle(self, cut: int, spans: Spans) -> tuple[Float64Array, Float64Array]:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.middle`."""
        return self._on(lambda matrix: matrix.middle(cut, spans))

    def squared_distances(self) -> Float64Array:
        """See `auricle_learning.aggregation.compute.matrix.Matrix.squared_distances`."""
        return self._on(lambda matrix: matrix.squared_distances())

    def _limit(self) -> int:
        return self._memory or _free(_torch(), self._device) // 2

    def _on(self, compute: Callable[[Matrix], _Answer]) -> _Answer:
        try:
            self._matrix = self._matrix or TorchMatrix(self._weights, device=self._device, memory=self._limit())
            return compute(self._matrix)
        except RuntimeError as error:  # what PyTorch raises for all that a device cannot do
            if isinstance(self._matrix, NumpyMatrix):
                raise
            log.warning("the GPU gives up (%s): the processor goes on", str(error).splitlines()[0])
            self._matrix = processor_opener()(self._weights)
            return compute(self._matrix)


def _opener(device: str, memory: int | None) -> Opener:
    def opened(weights: FloatArray) -> Matrix:
        if weights.dtype != np.float32:
            return NumpyMatrix(weights)  # which takes care of what only float64 models can overflow
        return GpuMatrix(weights, device, memory)

    return opened


def _torch() -> ModuleType:
    return importlib.import_module("torch")


def _pytorch() -> tuple[ModuleType | None, str]:
    """PyTorch, or None and why it cannot be used."""
    try:
        return _torch(), ""
    except ImportError as error:
        if getattr(error, "name", None) == "torch":
            return None, "PyTorch is not installed"
        return None, f"PyTorch cannot be loaded ({error})"
    except OSError as error:  # a library of the driver that is not there
        return None, f"PyTorch cannot be loaded ({error})"


def _gpus(torch: ModuleType) -> list[Accelerator]:
    """Devices of CUDA or ROCm; `used` says for now whether they work."""
    kind = "rocm" if getattr(torch.version, "hip", None) else "cuda"
    if not torch.cuda.is_available():
        return []
    return [_gpu(torch, kind, f"cuda:{number}") for number in range(torch.cuda.device_count())]


def _gpu(torch: ModuleType, kind: str, device: str) -> Accelerator:
    try:
        total = int(torch.cuda.get_device_properties(device).total_memory)
        works = float(torch.ones(2, dtype=torch.float64, device=device).sum()) == 2.0
        free, why = _free(torch, device), "" if works else "its sums are wrong"
        name = str(torch.cuda.get_device_name(device))
    except RuntimeError as error:  # what PyTorch raises for a driver or a card that does not do
        why = f"it does not work: {str(error).splitlines()[0]}"
        return Accelerator(kind, device, device, None, None, used=False, why=why)
    return Accelerator(kind, device, name, total, free, used=works, why=why)


def _free(torch: ModuleType, device: str) -> int:
    return int(torch.cuda.mem_get_info(device)[0]) if device.startswith("cuda") else MEMORY


def _mps(torch: ModuleType) -> list[Accelerator]:
    if not torch.backends.mps.is_available():
        return []
    total = int(torch.mps.recommended_max_memory())
    free = total - int(torch.mps.driver_allocated_memory())
    return [Accelerator("mps", "mps", platform.processor() or "Apple GPU", total, free, used=False, why=NO_FLOAT64)]


def _decided(gpu: Accelerator, first: str | None, choice: str) -> Accelerator:
    if gpu.device == first:
        return replace(gpu, used=True, why="asked for" if choice == "cuda" else "the first GPU that works")
    return replace(gpu, used=False, why=gpu.why or (f"{first} is used" if first else f'"{choice}" was asked for'))


def _none_of(listed: list[Accelerator]) -> str:
    if not listed:
        return "PyTorch finds no GPU"
    return "; ".join(f"{gpu.device}: {gpu.why}" for gpu in listed)


def _processor(first: str | None, choice: str, otherwise: str) -> Accelerator:
    total, free = _main_memory()
    why = f"{first} is used" if first else "asked for" if choice == "cpu" else otherwise
    return Accelerator("cpu", "cpu", _processor_name(), total, free, used=first is None, why=why)


def _processor_name() -> str:
    source = Path("/proc/cpuinfo")
    lines = source.read_text().splitlines() if source.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _main_memory() -> tuple[int | None, int | None]:
    """Bytes in all and free, from Linux; in all only elsewhere."""
    source = Path("/proc/meminfo")
    if not source.is_file():
        pages = os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in os.sysconf_names else 0
        return (pages * os.sysconf("SC_PAGE_SIZE") or None), None
    rows = dict(line.split(":", 1) for line in source.read_text().splitlines() if ":" in line)
    kilobytes = [int(rows[name].split()[0]) if name in rows else None for name in ("MemTotal", "MemAvailable")]
    total, free = (None if value is None else 1024 * value for value in kilobytes)
    return total, free
