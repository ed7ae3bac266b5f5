"""What a central training is told; PyTorch is imported only to ask which device there is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from auricle.errors import SettingsError, nearest
from auricle.speech.synthesis import MOST_SPEAKERS
from auricle_export.pretrain.window_settings import WindowSettings

if TYPE_CHECKING:
    import torch

SEEDS = 1 << 63
"""As many as PyTorch takes."""
_DEVICES = ("auto", "cpu", "cuda")
_LATER = ("judged", "mined", "steady", "alone", "composed")


class _OnDevice:
    """What `device` means to PyTorch."""

    device: str

    @property
    def torch_device(self) -> torch.device:
        """Where to train: a GPU when there is one and it is allowed."""
        import torch

        gpu = self.device == "cuda" or (self.device == "auto" and torch.cuda.is_available())
        return torch.device("cuda" if gpu else "cpu")


def _refuse_device(device: str) -> None:
    if device not in _DEVICES:
        raise SettingsError(f'There is no device "{device}"; {nearest(device, _DEVICES)}')
    if device != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise SettingsError("PyTorch finds no CUDA GPU here: take --compute cpu, or auto.")


@dataclass(frozen=True)
class PretrainSettings(_OnDevice):
    """How models are trained."""

    epochs: int = 40
    patience: int = 10
    """Epochs without a lower loss on the validation speakers after which a training stops."""
    batch: int = 64
    rate: float = 3e-3
    """Highest learning rate; it falls to 0 over the epochs, as half a cosine."""
    seed: int = 0
    device: str = "auto"
    threads: int = 1
    """PyTorch's threads; augmentation has one of its own. On a busy machine each more waits for the others by spinning,
    which makes models this small several times slower."""
    smoothing: float = 0.0
    """Of the labels: what a clip's own label gives to all labels alike."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        for name, value in (
            ("epochs", self.epochs),
            ("patience", self.patience),
            ("batch", self.batch),
            ("threads", self.threads),
        ):
            if not 1 <= value <= MOST_SPEAKERS:
                raise SettingsError(f"--{name} is {value}: it has to be 1 to {MOST_SPEAKERS:,}.")
        if not 0 < self.rate <= 1:
            raise SettingsError(f"--rate is {self.rate:g}: it has to be above 0 and at most 1.")
        if not 0 <= self.seed < SEEDS:
            raise SettingsError(f"--seed is {self.seed}: it has to be 0 to {SEEDS - 1:,}.")
        if not 0 <= self.smoothing < 1:
            raise SettingsError(f"smoothing is {self.smoothing:g}: it has to be 0 or more and below 1.")
        _refuse_device(self.device)


@dataclass(frozen=True)
class LiveSettings(_OnDevice):
    """How models are trained on windows as they come live."""

    epochs: int = 40
    steps: int = 500
    """Of an epoch."""
    batch: int = 128
    rate: float = 4e-3
    """Highest learning rate; it falls to a hundredth over the epochs, as half a cosine."""
    judged: int = 8
    """Epochs between two looks at the validation streams."""
    mined: int = 8
    """Epochs between two searches for what the model takes for a keyword wrongly."""
    taught: float = 0.5
    """Share of the teachers' posteriors in a target, where there are teachers."""
    steady: float = 0.0
    """Weight of how far the posteriors of the two windows of one sound are from their mean."""
    alone: float = 0.5
    """Share of a batch that is of the sounds without a keyword, where the front-end has a network (`VectorPool`)."""
    composed: int = 24_000
    """Windows that are put together there; each costs a speech embedding 4 ms."""
    seed: int = 0
    device: str = "auto"
    threads: int = 1
    """PyTorch's threads; one more puts the windows together."""
    windows: WindowSettings = field(default_factory=WindowSettings)

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        for name in ("epochs", "steps", "batch", "judged", "mined", "composed", "threads"):
            value = getattr(self, name)
            if not 1 <= value <= MOST_SPEAKERS:
                raise SettingsError(f"{name} is {value}: it has to be 1 to {MOST_SPEAKERS:,}.")
        if not (math.isfinite(self.rate) and 0 < self.rate <= 1):
            raise SettingsError(f"rate is {self.rate:g}: it has to be above 0 and at most 1.")
        for name, share in (("taught", self.taught), ("alone", self.alone)):
            if not 0 <= share <= 1:
                raise SettingsError(f"{name} is {share:g}: it has to be 0 to 1.")
        if not 0 <= self.steady <= 100:
            raise SettingsError(f"steady is {self.steady:g}: it has to be 0 to 100.")
        if self.windows.shift[1] and self.batch % 2:
            raise SettingsError(f"batch is {self.batch}: with shift it has to be even.")
        if not 0 <= self.seed < SEEDS:
            raise SettingsError(f"--seed is {self.seed}: it has to be 0 to {SEEDS - 1:,}.")
        _refuse_device(self.device)

    @property
    def looks(self) -> dict[str, int | float]:
        """What states of before say nothing of, by name, where that is not as usual."""
        usual = {field.name: field.default for field in fields(self) if field.name in _LATER}
        return {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
