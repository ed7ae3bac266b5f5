"""Settings: one frozen struct, and a hint for every mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from auricle.errors import SettingsError, nearest
from auricle.settings import from_mapping, read_toml
from auricle.wire.kinds import DeviceId


class Radio(msgspec.Struct, frozen=True):
    """A struct with a renamed field."""

    volume: Annotated[int, msgspec.Meta(ge=0, le=11)] = 5
    band: Literal["fm", "mw"] = "fm"
    name: DeviceId = "kitchen-1"
    presets: tuple[float, ...] = ()
    station: str = msgspec.field(default="one", name="channel")


class House(msgspec.Struct, frozen=True):
    """A struct with structs in it."""

    kitchen: Radio = Radio()
    others: tuple[Radio, ...] | None = None


@dataclass(frozen=True)
class Lamp:
    """A dataclass."""

    watts: float
    colour: str = "white"


def test_what_is_not_given_takes_its_default() -> None:
    assert from_mapping(Radio, {"channel": "two"}, "radio.toml") == Radio(5, station="two")
    assert from_mapping(Lamp, {"watts": 3}, "lamp.toml") == Lamp(3.0)


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
    [
        (Radio, {"volum": 1}, 'radio.toml: no setting "volum": did you mean "volume"?'),
        (
            Radio,
            {"station": "two"},
            'radio.toml: no setting "station": there is: band, channel, name, presets, volume.',
        ),
        (Radio, {"volume": 12}, "radio.toml: volume takes a whole number, at most 11, not 12."),
        (Radio, {"volume": "loud"}, 'radio.toml: volume takes a whole number, not "loud".'),
        (Radio, {"volume": None}, "radio.toml: volume takes a whole number, not nothing."),
        (Radio, {"band": "fn"}, 'radio.toml: band cannot be "fn": did you mean "fm"?'),
        (House, {"kitchen": {"band": "fn"}}, 'radio.toml: kitchen.band cannot be "fn": did you mean "fm"?'),
        (House, {"others": [{}, {"band": "fn"}]}, 'radio.toml: others[1].band cannot be "fn": did you mean "fm"?'),
        (Radio, {"name": "Pi 1"}, 'radio.toml: name takes 4 to 64 of a-z, 0-9 and hyphen, not "Pi 1".'),
        (Radio, {"presets": ["x"]}, 'radio.toml: presets[0] takes a number, not "x".'),
        (Lamp, {"watt": 1.0}, 'did you mean "watts"'),
        (Lamp, {}, "watts is missing: name it"),
    ],
)
def test_a_mistake_is_named_with_its_place(kind: type, values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        from_mapping(kind, values, "radio.toml")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"volume = 3", None),
        (b"volume = ", "is not valid TOML"),
        (b"\xff", "is not valid TOML"),
        (None, "cannot be read"),
    ],
)
def test_a_toml_file_is_read_or_refused(tmp_path: Path, content: bytes | None, sentence: str | None) -> None:
    path = tmp_path / "radio.toml"
    if content is not None:
        path.write_bytes(content)

    if sentence is None:
        assert read_toml(path) == {"volume": 3}
        return
    with pytest.raises(SettingsError, match=f"{path} {sentence}"):
        read_toml(path)


def test_the_nearest_word_or_all_of_them() -> None:
    assert nearest("lppa", ["lpa", "fedavg"]) == 'did you mean "lpa"?'
    assert nearest("xyz", ["lpa", "fedavg"]) == "there is: fedavg, lpa."
