"""A recipe: what a pack that listens is trained on, for how long, and whom its recordings' licences ask to name."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from auricle.errors import SettingsError, nearest
from auricle.messages import Token
from auricle_export.pretrain.corpus import Sources

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Folder = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
SHIPPED = ("gsc12-res", "home")
"""Recipes of packs in the wheel."""


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Folders are relative to the folder of data."""

    pack: Folder
    """The pack whose models are trained: a shipped one's name, or a path."""
    words: Annotated[tuple[Folder, ...], msgspec.Meta(min_length=1)]
    running: Annotated[tuple[Folder, ...], msgspec.Meta(min_length=1)]
    noise: tuple[Folder, ...] = ()
    leave_out: tuple[Folder, ...] = ()
    """Folders of single words whose speakers are heard in no part: those that a later measurement needs."""
    wake: tuple[str, ...] = ()
    attribution: Annotated[tuple[str, ...], msgspec.Meta(max_length=50)] = ()
    epochs: dict[Token, Annotated[int, msgspec.Meta(ge=1, le=10_000)]]
    """By model, in the order in which they are trained."""
    steps: Annotated[int, msgspec.Meta(ge=1)] = 500
    """Batches an epoch."""
    voices: Annotated[int, msgspec.Meta(ge=1)] = 100
    takes: Annotated[int, msgspec.Meta(ge=1)] = 4
    other_voices: Annotated[int, msgspec.Meta(ge=1)] = 80
    other_takes: Annotated[int, msgspec.Meta(ge=1)] = 30

    def sources(self, root: Path) -> Sources:
        """The folders below a folder of data."""

        def below(names: tuple[str, ...]) -> tuple[Path, ...]:
            return tuple(root / name for name in names)

        return Sources(
            below(self.words),
            below(self.running),
            below(self.noise),
            below(self.leave_out),
            self.voices,
            self.takes,
            self.other_voices,
            self.other_takes,
            self.wake,
        )


def load_recipe(name: str) -> Recipe:
    """Read a recipe: a shipped one's name, or a TOML file.

    Raises
    ------
    SettingsError
        There is no such recipe, or it is not one; the sentence says what is wrong.
    """
    if name in SHIPPED:
        text = (
            resources.files("auricle_export.pretrain").joinpath("recipes").joinpath(f"{name}.toml").read_text("utf-8")
        )
    else:
        path = Path(name)
        if not path.is_file():
            raise SettingsError(
                f'There is no recipe "{name}": name a TOML file, or one of {", ".join(SHIPPED)}; '
                f"{nearest(name, SHIPPED)}"
            )
        text = path.read_text("utf-8", errors="replace")
    try:
        return msgspec.convert(tomllib.loads(text), Recipe)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SettingsError(f"The recipe {name} is not valid: {error}.") from error
