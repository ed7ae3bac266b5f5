"""What a recipe says of windows and of the training itself, checked and put over the defaults."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields

import msgspec

from auricle.errors import SettingsError, nearest
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.window_settings import LEAD_FRAMES, WindowSettings

Number = int | float
Value = float | tuple[float, float]
"""A number, or a range from which one is drawn."""

VARIED = ("batch", "rate", "judged", "mined", "taught", "steady")
"""Fields of `LiveSettings` that a recipe may set in `[settings]`."""
LARGEST_VALUE = 1_000_000_000
"""Of a number in `[settings]`, with either sign."""
_WHOLE = ("batch", "judged", "mined")
_ELSEWHERE = {
    "epochs": "epochs are in the table [epochs], by model",
    "steps": "steps stands at the top of the recipe",
    "alone": "it is of a head over a front-end's network, which export wakeword trains",
    "composed": "it is of a head over a front-end's network, which export wakeword trains",
    "windows": "windows are in the table [windows]",
    "seed": "the seed is the option --seed",
    "device": "the device is the option --device",
    "threads": "threads are the option --threads",
}
_WITHOUT_KEYWORD = ("cut", "noise_only", "running", "alike")
"""Shares of the windows without a keyword; what they leave is other words by people."""
_CHANGES = ("tempo", "warp")
"""Relative changes: less than the whole."""


def windows_of(said: Mapping[str, Value]) -> WindowSettings:
    """Settings of windows with some of them changed.

    Raises
    ------
    SettingsError
        A name is not one of them, or a value is not possible; the sentence says which.
    """
    usual = WindowSettings()
    names = tuple(field.name for field in fields(usual))
    _refuse_unknown("windows", said, names)
    for name, value in said.items():
        if isinstance(getattr(usual, name), tuple) != isinstance(value, tuple):
            kind = "a range of two numbers, [least, most]" if not isinstance(value, tuple) else "one number"
            raise SettingsError(f"The recipe's {name} in [windows] has to be {kind}.")
        _refuse_value(name, value)
    made = msgspec.convert(msgspec.to_builtins(usual) | dict(said), WindowSettings)
    total = sum(getattr(made, name) for name in _WITHOUT_KEYWORD)
    if total > 1:
        raise SettingsError(
            f"The recipe's {', '.join(_WITHOUT_KEYWORD)} in [windows] are {total:g} together: shares of one whole are "
            "at most 1."
        )
    return made


def settings_of(said: Mapping[str, Number], usual: LiveSettings) -> LiveSettings:
    """Settings of a training with some of them changed.

    Raises
    ------
    SettingsError
        As of `windows_of`.
    """
    for name in said:
        if name in _ELSEWHERE:
            raise SettingsError(f'The recipe\'s [settings] cannot set "{name}": {_ELSEWHERE[name]}.')
    _refuse_unknown("settings", said, VARIED)
    for name, value in said.items():
        if not abs(value) <= LARGEST_VALUE:
            raise SettingsError(f"The recipe's {name} in [settings] has to be a number of at most {LARGEST_VALUE:,}.")
        if name in _WHOLE and int(value) != value:
            raise SettingsError(f"The recipe's {name} in [settings] is {value:g}: it has to be a whole number.")
    changes = {name: int(value) if name in _WHOLE else value for name, value in said.items()}
    try:
        return msgspec.convert(msgspec.to_builtins(usual) | changes, LiveSettings)
    except SettingsError as error:
        raise SettingsError(f"In the recipe's [settings], {error}") from error


def _refuse_unknown(table: str, said: Mapping[str, object], names: Collection[str]) -> None:
    for name in said:
        if name not in names:
            raise SettingsError(f'The recipe\'s table [{table}] has no "{name}": {nearest(name, names)}')


def _refuse_value(name: str, value: Value) -> None:
    where = f"The recipe's {name} in [windows]"
    low, high = value if isinstance(value, tuple) else (value, value)
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise SettingsError(f"{where} has to be finite numbers, the least one first.")
    if name.endswith("_db"):
        if not isinstance(value, tuple) and low < 0:
            raise SettingsError(f"{where} is {value:g}: it has to be 0 or more.")
    elif isinstance(value, tuple):
        if name == "shift" and (high > LEAD_FRAMES or low != int(low) or high != int(high)):
            raise SettingsError(f"{where} has to be whole frames, at most {LEAD_FRAMES}.")
        if (low < 0 and name != "led_gap") or (name == "decay" and low == 0):
            raise SettingsError(
                f"{where} begins at {low:g}: it has to be {'above 0' if name == 'decay' else '0 or more'}."
            )
    elif not 0 <= value <= 1 or (name in _CHANGES and value == 1):
        raise SettingsError(f"{where} is {value:g}: it has to be 0 to 1{', less than 1' if name in _CHANGES else ''}.")
