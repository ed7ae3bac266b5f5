"""What every kind of recipe says of recordings: the folders, where they are, and how a command adds some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from auricle.errors import SettingsError
from auricle.packs.manifest import Sentence
from auricle.speech.sources import DOWNLOADED
from auricle.wire.kinds import Token

Folder = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
AnyRecipe = TypeVar("AnyRecipe", bound="FromFolders")


class FromFolders(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Folders are relative to the folder of data; the word `speech-commands` is the whole set, downloaded."""

    pack: Folder
    """The pack whose models are trained: a shipped one's name, or a path."""
    words: Annotated[tuple[Folder, ...], msgspec.Meta(min_length=1)]
    """Folders of single words."""
    leave_out: tuple[Folder, ...] = ()
    """Folders of single words whose speakers are heard in no part: those that a later measurement needs."""
    attribution: Annotated[tuple[Sentence, ...], msgspec.Meta(max_length=50)] = ()
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
