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
from auricle.files import NamesOnDisk, normal_form, read_text
from auricle.settings import LARGEST_BYTES
from auricle.speech.clip_folder import refuse_both_roles
from auricle.speech.sources import DOWNLOADED, Place, Steps, source_folders
from auricle_export.pretrain.clip_recipe import MOST_NAMED, ClipRecipe, Folder, FromFolders, below
from auricle_export.pretrain.corpus import Sources
from auricle_export.pretrain.other_voices import Spoken
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.varied import Number, Value, settings_of, windows_of
from auricle_export.voices.sources import ESPEAK, source_names, voice_source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED = ("digits", "gsc12", "gsc12-res", "gsc35", "home", "home-more")
"""Recipes of packs in the wheel."""
_LONGEST = 200
"""Characters of what a manifest says that weights were trained on."""
_VOICE = 40
"""Characters of a voice's name in it."""


class Recipe(FromFolders, frozen=True, kw_only=True, tag_field="kind", tag="windows"):
    """What is met beside single words, and how."""

    languages: tuple[Folder, ...] = ()
    """Folders of single words of other languages: no keywords, whatever their folders are called."""
    running: Annotated[tuple[Folder, ...], msgspec.Meta(min_length=1)]
    noise: tuple[Folder, ...] = ()
    wake: tuple[str, ...] = ()
    start: str = ""
    """A pack with trained weights of the same models, to go on from; "": random weights."""
    teachers: Annotated[tuple[str, ...], msgspec.Meta(max_length=16)] = ()
    """Packs with trained weights: their mean is learnt from beside the labels."""
    steps: Annotated[int, msgspec.Meta(ge=1)] = 500
    """Batches an epoch."""
    voices: Annotated[int, msgspec.Meta(ge=1)] = 100
    takes: Annotated[int, msgspec.Meta(ge=1)] = 4
    other_voices: Annotated[int, msgspec.Meta(ge=1)] = 80
    other_takes: Annotated[int, msgspec.Meta(ge=1)] = 30
    spoken: Spoken | None = None
    """What another voice than espeak-ng's says, which holds no keyword."""
    windows: dict[str, Value] = msgspec.field(default_factory=dict)
    """Fields of `WindowSettings` that are others than usual."""
    settings: dict[str, Number] = msgspec.field(default_factory=dict)
    """Those of `LiveSettings` that `VARIED` names."""

    def sources(self, data: Path | None, place: Place | None = None, progress: Steps = lambda *_: None) -> Sources:
        """The folders of all that is read, below a folder of data; Speech Commands is downloaded where it is named.

        Raises
        ------
        SettingsError
            A folder is relative and there is no folder of data, one is named twice or in both roles, or as of `named`.
        DataError, StorageError
            As `source_folders`.
        """
        self.named()

        def folders(names: Sequence[str], *, downloaded: bool = False) -> tuple[Path, ...]:
            found: list[Path] = []
            for name in names:
                if downloaded and name == DOWNLOADED:
                    found += source_folders([name], place or Place(), progress)
                else:
                    found.append(below(data, name))
            refuse_twice(found)
            return tuple(found)

        words, languages = folders(self.words, downloaded=True), folders(self.languages)
        refuse_both_roles(words, languages)
        return Sources(
            words,
            folders(self.running),
            folders(self.noise),
            folders(self.leave_out, downloaded=True),
            self.voices,
            self.takes,
            self.other_voices,
            self.other_takes,
            self.wake,
            languages,
            self._resolve_voice(data),
        )

    def _resolve_voice(self, data: Path | None) -> Spoken | None:
        """`[spoken]` with the path of a folder below that of the data."""
        if self.spoken is None or self.spoken.voice in source_names():
            return self.spoken
        folder = Path(self.spoken.voice) if data is None else data / self.spoken.voice
        return msgspec.structs.replace(self.spoken, voice=str(folder)) if folder.is_dir() else self.spoken

    def named(self) -> tuple[str, ...]:
        """Whom a pack names: for recordings, and for what another voice says.

        Raises
        ------
        SettingsError
            More than a pack can say, or no source of voices can be loaded.
        """
        voice = "" if self.spoken is None else self.spoken.voice
        of_voice = voice_source(voice).attribution if voice in source_names() else ()
        named = tuple(dict.fromkeys((*self.attribution, *of_voice)))
        if len(named) > MOST_NAMED:
            raise SettingsError(
                f"The recipe's attribution and its voice name {len(named)}, and a pack {MOST_NAMED} at most: join some."
            )
        return named

    def training(self, model: str, usual: LiveSettings) -> LiveSettings:
        """How one model is trained; SettingsError where `[windows]` or `[settings]` is not possible."""
        made = replace(settings_of(self.settings, usual), windows=windows_of(self.windows))
        if made.steady and not made.windows.shift[1]:
            raise SettingsError(
                "The recipe's steady in [settings] compares two windows of one sound: set shift in [windows], as in "
                "[3, 20]."
            )
        if "taught" in self.settings and not self.teachers:
            raise SettingsError("The recipe's taught in [settings] is a share of what teachers say: name teachers.")
        return replace(made, epochs=self.epochs[model], steps=self.steps)

    def data(self) -> str:
        """What a manifest says that weights were trained on: folders' names, no path."""
        folders = (*self.words, *self.languages)
        names = ", ".join(Path(name).name if Path(name).is_absolute() else name for name in folders)
        known = [Path(name).name for name in dict.fromkeys((self.start, *self.teachers)) if name]
        people, packs = (names, f"{len(folders)} folders"), (", ".join(known), f"{len(known)} packs")
        voice = Path(self.spoken.voice).name[:_VOICE] if self.spoken and self.spoken.voice != ESPEAK else ""
        said = [
            _training_sentence(people[one], packs[other] if known else "", voice)
            for one, other in ((0, 0), (1, 0), (0, 1), (1, 1))
        ]
        return next((text for text in said if len(text) <= _LONGEST), said[-1])


def _training_sentence(people: str, packs: str, voice: str) -> str:
    voices = f"espeak-ng and {voice}" if voice else "espeak-ng"
    return f"recordings of people in {people}, and {voices}{f'; what {packs} had learnt' if packs else ''}"


def refuse_twice(folders: Sequence[Path]) -> None:
    """Refuse a folder that is named more than once, with a SettingsError."""
    resolved = [folder.resolve() for folder in folders]
    for place, folder in enumerate(folders):
        if resolved[place] in resolved[:place]:
            raise SettingsError(f"The folder {folder} is named twice: name it once.")


def load_recipe(name: str) -> Recipe | ClipRecipe:
    """Read a recipe: a shipped one's name, or a TOML file; one for single clips says `kind = "clips"`.

    Raises
    ------
    SettingsError
        There is no such recipe, or it is not one; the sentence says what is wrong.
    """
    try:
        kinds: type[Recipe | ClipRecipe] = Recipe | ClipRecipe  # type: ignore[assignment]
        recipe = msgspec.convert({"kind": "windows"} | tomllib.loads(_text(name)), kinds)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:  # also a number of too many digits
        raise SettingsError(f"The recipe {name} is not valid: {error}.") from error
    if isinstance(recipe, Recipe):
        recipe = msgspec.structs.replace(recipe, wake=tuple(map(normal_form, recipe.wake)))
        for model in recipe.epochs:
            recipe.training(model, LiveSettings())
    return recipe


def _text(name: str) -> str:
    if name in SHIPPED:
        shipped = resources.files("auricle_export.pretrain").joinpath("recipes").joinpath(f"{name}.toml")
        return shipped.read_text("utf-8")
    path = Path(name)
    if not NamesOnDisk().find(path).exists():
        raise SettingsError(
            f'There is no recipe "{name}": name a TOML file, or one of {", ".join(SHIPPED)}; {nearest(name, SHIPPED)}'
        )
    return read_text(path, "The recipe", most=LARGEST_BYTES)
