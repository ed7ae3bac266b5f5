"""A recipe for a pack that names single clips: whose recordings, how much synthetic speech, how long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from auricle.speech.sources import DOWNLOADED, describe_sources
from auricle_export.pretrain.recipe_folders import FromFolders, below
from auricle_export.pretrain.settings import PretrainSettings


class ClipRecipe(FromFolders, frozen=True, kw_only=True, tag_field="kind", tag="clips"):
    """The background noise in the folders of words is mixed in."""

    voices: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 80
    """Of espeak-ng; 0 for recordings alone."""
    takes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4
    """Of each word by each voice."""
    spoken: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.35
    """Share of the clips of an epoch that are by espeak-ng, where there are voices."""
    balance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    """How equally often the words are heard, where there are voices: 1 equally, 0 about as often as people say them."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=1)] = 4e-3
    """Highest learning rate of AdamW."""
    batch: Annotated[int, msgspec.Meta(ge=1)] = 64
    smoothing: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.05

    def folders(self, data: Path | None) -> list[str]:
        """The folders of words below a folder of data, as `read_sources` takes them.

        Raises
        ------
        SettingsError
            One is relative, and there is no folder of data.
        """
        return [name if name == DOWNLOADED else str(below(data, name)) for name in self.words]

    def strangers(self, data: Path | None) -> list[Path]:
        """The folders whose speakers are left out; SettingsError as of `folders`."""
        return [below(data, name) for name in self.leave_out]

    def training(self, model: str, usual: PretrainSettings) -> PretrainSettings:
        """How one model is trained: all its epochs, of which the best one is kept."""
        epochs = self.epochs[model]
        return replace(
            usual, epochs=epochs, patience=epochs, batch=self.batch, rate=self.rate, smoothing=self.smoothing
        )

    def data(self, labels: int) -> str:
        """What a manifest says that weights were trained on: folders' names, no path."""
        said = describe_sources(self.words, labels)
        return f"{said}, and espeak-ng" if self.voices else said
