"""What every recipe says of recordings, and a recipe for single clips: whose, how much synthetic speech, how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from auricle.errors import SettingsError
from auricle.packs.frontend import Sentence
from auricle.speech.sources import DOWNLOADED, describe_sources
from auricle.wire.kinds import Token
from auricle_export.pretrain.settings import PretrainSettings

Folder = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
MOST_NAMED = 50
"""Whom a pack can name."""
AnyRecipe = TypeVar("AnyRecipe", bound="FromFolders")


class FromFolders(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Folders are relative to the folder of data; the word `speech-commands` is the whole set, downloaded."""

    pack: Folder
    """The pack whose models are trained: a shipped one's name, or a path."""
    words: Annotated[tuple[Folder, ...], msgspec.Meta(min_length=1)]
    """Folders of single words."""
    leave_out: tuple[Folder, ...] = ()
    """Folders of single words whose speakers are heard in no part: those that a later measurement needs."""
    attribution: Annotated[tuple[Sentence, ...], msgspec.Meta(max_length=MOST_NAMED)] = ()
    epochs: Annotated[dict[Token, Annotated[int, msgspec.Meta(ge=1, le=10_000)]], msgspec.Meta(min_length=1)]
    """By model, in the order in which they are trained."""

    def with_words(self: AnyRecipe, added: Sequence[str], attribution: Sequence[str] = ()) -> AnyRecipe:
        """The recipe with more folders of single words, relative to the working folder, and whom they ask to name.

        Raises
        ------
        SettingsError
            More people are named than a pack can say, or one in no or too many characters.
        """
        words = [name if name == DOWNLOADED else str(Path(name).resolve()) for name in added]
        try:
            return msgspec.convert(
                msgspec.to_builtins(self)
                | {"words": (*self.words, *words), "attribution": (*self.attribution, *attribution)},
                type(self),
            )
        except msgspec.ValidationError as error:
            raise SettingsError(f"What --words or --attribution names is not possible: {error}.") from error


def below(data: Path | None, name: str) -> Path:
    """A folder of a recipe; SettingsError where it is relative and there is no folder of data."""
    if data is None and not Path(name).is_absolute():
        raise SettingsError(f'The recipe reads the folder "{name}": say with --data in which folder it is.')
    return Path(name) if data is None else data / name


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
