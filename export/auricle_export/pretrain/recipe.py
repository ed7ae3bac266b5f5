"""A recipe: what a pack that listens is trained on, for how long, and whom its recordings' licences ask to name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from auricle.errors import SettingsError, nearest
from auricle.manifest import Sentence
from auricle.messages import Token
from auricle.speech.sources import DOWNLOADED, Place, Steps, source_folders
from auricle_export.pretrain.corpus import Sources
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.varied import Number, Value, settings_of, windows_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Folder = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
SHIPPED = ("gsc12", "gsc12-res", "home")
"""Recipes of packs in the wheel."""
_LONGEST = 200
"""Characters of what a manifest says that weights were trained on."""


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Folders are relative to the folder of data; the word `speech-commands` is the whole set, downloaded."""

    pack: Folder
    """The pack whose models are trained: a shipped one's name, or a path."""
    words: Annotated[tuple[Folder, ...], msgspec.Meta(min_length=1)]
    running: Annotated[tuple[Folder, ...], msgspec.Meta(min_length=1)]
    noise: tuple[Folder, ...] = ()
    leave_out: tuple[Folder, ...] = ()
    """Folders of single words whose speakers are heard in no part: those that a later measurement needs."""
    wake: tuple[str, ...] = ()
    attribution: Annotated[tuple[Sentence, ...], msgspec.Meta(max_length=50)] = ()
    epochs: Annotated[dict[Token, Annotated[int, msgspec.Meta(ge=1, le=10_000)]], msgspec.Meta(min_length=1)]
    """By model, in the order in which they are trained."""
    steps: Annotated[int, msgspec.Meta(ge=1)] = 500
    """Batches an epoch."""
    voices: Annotated[int, msgspec.Meta(ge=1)] = 100
    takes: Annotated[int, msgspec.Meta(ge=1)] = 4
    other_voices: Annotated[int, msgspec.Meta(ge=1)] = 80
    other_takes: Annotated[int, msgspec.Meta(ge=1)] = 30
    windows: dict[str, Value] = {}
    """Fields of `WindowSettings` that are others than usual."""
    settings: dict[str, Number] = {}
    """Those of `LiveSettings` that `VARIED` names."""

    def sources(self, data: Path | None, place: Place | None = None, progress: Steps = lambda *_: None) -> Sources:
        """The folders of all that is read, below a folder of data; Speech Commands is downloaded where it is named.

        Raises
        ------
        SettingsError
            A folder is relative and there is no folder of data, or one is named twice.
        DataError, StorageError
            As `source_folders`.
        """

        def folders(names: Sequence[str], *, downloaded: bool = False) -> tuple[Path, ...]:
            found: list[Path] = []
            for name in names:
                if downloaded and name == DOWNLOADED:
                    found += source_folders([name], place or Place(), progress)
                else:
                    found.append(_below(data, name))
            _refuse_twice(found)
            return tuple(found)

        return Sources(
            folders(self.words, downloaded=True),
            folders(self.running),
            folders(self.noise),
            folders(self.leave_out, downloaded=True),
            self.voices,
            self.takes,
            self.other_voices,
            self.other_takes,
            self.wake,
        )

    def with_words(self, added: Sequence[str], attribution: Sequence[str] = ()) -> Recipe:
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
                Recipe,
            )
        except msgspec.ValidationError as error:
            raise SettingsError(f"What --words or --attribution names is not possible: {error}.") from error

    def training(self, model: str, usual: LiveSettings) -> LiveSettings:
        """How one model is trained; SettingsError where `[windows]` or `[settings]` is not possible."""
        made = settings_of(self.settings, usual)
        return replace(made, epochs=self.epochs[model], steps=self.steps, windows=windows_of(self.windows))

    def data(self) -> str:
        """What a manifest says that weights were trained on: folders' names, no path."""
        names = (Path(name).name if Path(name).is_absolute() else name for name in self.words)
        said = f"recordings of people in {', '.join(names)}, and espeak-ng"
        return said if len(said) <= _LONGEST else f"recordings of people in {len(self.words)} folders, and espeak-ng"


def _below(data: Path | None, name: str) -> Path:
    if data is None and not Path(name).is_absolute():
        raise SettingsError(f'The recipe reads the folder "{name}": say with --data in which folder it is.')
    return Path(name) if data is None else data / name


def _refuse_twice(folders: Sequence[Path]) -> None:
    resolved = [folder.resolve() for folder in folders]
    for place, folder in enumerate(folders):
        if resolved[place] in resolved[:place]:
            raise SettingsError(f"The folder {folder} is named twice: name it once.")


def load_recipe(name: str) -> Recipe:
    """Read a recipe: a shipped one's name, or a TOML file.

    Raises
    ------
    SettingsError
        There is no such recipe, or it is not one; the sentence says what is wrong.
    """
    try:
        recipe = msgspec.convert(tomllib.loads(_text(name)), Recipe)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SettingsError(f"The recipe {name} is not valid: {error}.") from error
    for model in recipe.epochs:
        recipe.training(model, LiveSettings())
    return recipe


def _text(name: str) -> str:
    if name in SHIPPED:
        shipped = resources.files("auricle_export.pretrain").joinpath("recipes").joinpath(f"{name}.toml")
        return shipped.read_text("utf-8")
    path = Path(name)
    if not path.is_file():
        raise SettingsError(
            f'There is no recipe "{name}": name a TOML file, or one of {", ".join(SHIPPED)}; {nearest(name, SHIPPED)}'
        )
    return path.read_text("utf-8", errors="replace")
