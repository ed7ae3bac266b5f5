"""What a device listens with: its own settings, over what its pack says, over the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack
from auricle_edge.listening.detect.rules import make_rules
from auricle_edge.listening.detect.settings import DetectSettings, DetectTable, DeviceSettings

T = TypeVar("T")


def detect_settings(said: DetectTable, pack: Pack) -> DetectSettings:
    """Settings for a detector: the table `[detect]`, over the pack's `listening`, over the defaults.

    Thresholds are merged word by word. A `threshold` in the table is for every keyword that the table itself gives
    none: the pack's are then left out. `wake = []` makes a pack with wake words listen to every keyword always.

    Raises
    ------
    SettingsError
        A word that is no keyword of the pack, with the nearest that is; wake words that leave no command.
    """
    listening = pack.listening or Listening()
    wake = listening.wake if said.wake is None else said.wake
    settings = DetectSettings(
        **{name: getattr(said, name) for name in DeviceSettings.__struct_fields__},
        hop=_first(said.hop, listening.hop),
        smoothing=_first(said.smoothing, listening.smoothing),
        patience=_first(said.patience, listening.patience),
        threshold=_first(said.threshold, DetectSettings().threshold),
        thresholds={**(listening.thresholds if said.threshold is None else {}), **said.thresholds},
        wake=wake,
        window=_first(said.window, listening.window),
        commands=_commands(listening.commands, said.commands, wake),
    )
    make_rules(pack.labels, settings)
    return settings


def _commands(packs: Mapping[str, float], own: Mapping[str, float], wake: tuple[str, ...]) -> dict[str, float]:
    """The pack's thresholds of commands, but for words that are wake words here, and the device's own over them."""
    kept = {word: threshold for word, threshold in packs.items() if word not in wake}
    return {**kept, **own}


def _first(own: T | None, usual: T) -> T:
    return usual if own is None else own
