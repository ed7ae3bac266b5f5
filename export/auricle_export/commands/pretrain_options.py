"""Options of `auricle export pretrain`: how a training is set comes from its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from auricle.errors import SettingsError
from auricle.process.options import Option, option_of
from auricle.settings import list_settings
from auricle_export.pretrain.settings import PretrainSettings

FLAGS = {"check": ("--check",), "as_json": ("--json",)}
"""Options that are written in another way than their name."""

DECIDED = ("rate", "batch", "epochs", "patience", "models", "model", "speakers", "takes", "leave_out")
"""What a recipe decides."""


class PretrainOptions(Struct, frozen=True, kw_only=True):
    """A training by options or by a recipe, or a check of a pack."""

    data: Annotated[
        list[str] | None,
        Meta(
            description="synthetic, folders <word>/<speaker>_nohash_<n>.(wav|flac), lists in CSV, speech-commands, "
            "once for each; or the one folder that a recipe's are in."
        ),
    ] = None
    leave_out: Annotated[
        list[Path] | None,
        Meta(description="A folder of words whose speakers are left out of all parts; once for each."),
    ] = None
    out: Annotated[Path | None, Meta(description="The pack to write, a .tar.zst.")] = None
    pack: Annotated[
        str | None,
        Meta(
            description="The pack whose models to train: gsc12, gsc35, digits, a folder, .tar.zst [gsc12, or the "
            "recipe's]."
        ),
    ] = None
    recipe: Annotated[
        str | None,
        Meta(
            description="Train as a recipe says: home, home-more, gsc12-res, gsc12, gsc35, digits, or a TOML file "
            "(docs/pretrain.md)."
        ),
    ] = None
    check: Annotated[
        bool, Meta(description="Train nothing: compare a pack with what its recipe and recordings give now.")
    ] = False
    words: Annotated[
        list[str] | None,
        Meta(
            description="a,b,c, gsc12, gsc35, digits, or common:N [the pack's]. With --recipe: a folder of more words, "
            "or speech-commands; once for each."
        ),
    ] = None
    attribution: Annotated[
        list[str] | None,
        Meta(description="With --recipe: whom the licence of added recordings asks to name; once for each."),
    ] = None
    models: Annotated[str, Meta(description="Models to train, separated by commas, or all.")] = "all"
    model: Annotated[
        list[str] | None, Meta(description="FILE.py:NAME of a model that is not built in; once for each.")
    ] = None
    epochs: Annotated[int, Meta(description="Most passes over the clips.")] = PretrainSettings.epochs
    patience: Annotated[
        int, Meta(description="Stop after so many epochs without a lower loss on the validation speakers.")
    ] = PretrainSettings.patience
    batch: Annotated[int, Meta(description="Clips a step.")] = PretrainSettings.batch
    rate: Annotated[float, Meta(description="Highest learning rate of AdamW.")] = PretrainSettings.rate
    speakers: Annotated[int, Meta(description="Synthetic speech: voices.")] = 80
    takes: Annotated[int, Meta(description="Synthetic speech: takes of each word by each voice.")] = 8
    seed: Annotated[int, Meta(description="Random seed of speech, split, initial weights and every draw.")] = (
        PretrainSettings.seed
    )
    state: Annotated[
        Path | None,
        Meta(description="Folder that keeps an interrupted training; give the same one to continue [OUT.state]."),
    ] = None
    compute: Annotated[str, Meta(description="auto, cpu or cuda.")] = PretrainSettings.device
    threads: Annotated[
        int | None, Meta(description="PyTorch's threads [1]; more help only where nothing else runs.")
    ] = None
    as_json: Annotated[bool, Meta(description="Print a JSON object an epoch and the result, nothing else.")] = False

    @property
    def one_folder(self) -> str | None:
        """Where a recipe's recordings are; SettingsError where several are named."""
        if len(self.data or ()) > 1:
            raise SettingsError("A recipe names its folders: give --data once, the folder that they are in.")
        return self.data[0] if self.data else None

    def changed(self, names: tuple[str, ...]) -> list[str]:
        """Those of these options that are not as they are without being given, as they are written."""
        usual = PretrainOptions()
        given = (name for name in names if (getattr(self, name) or None) != (getattr(usual, name) or None))
        return [f"--{name.replace('_', '-')}" for name in given]


def pretrain_options() -> list[Option]:
    """For the command."""
    return [option_of(setting, *FLAGS.get(setting.name, ())) for setting in list_settings(PretrainOptions)]
