"""Settings: one frozen struct, a hint for every mistake, and the options of a command that it declares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import typer
from msgspec import NODEFAULT, Meta, Struct
from typer.testing import CliRunner

from auricle.errors import SettingsError, nearest
from auricle.process.options import Given, Option, option_of, optional, with_options
from auricle.settings import Setting, from_mapping, list_settings, read_toml, toml_key
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
        (Radio, {"station": "two"}, '"station": there is: band, channel, name, presets, volume.'),
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


def test_a_toml_file_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "radio.toml"
    with pytest.raises(SettingsError, match="cannot be read"):
        read_toml(path)
    path.write_bytes(b"volume = 3")
    assert read_toml(path) == {"volume": 3}
    path.write_bytes(b"\xef\xbb\xbfvolume = 4\r\n")
    assert read_toml(path) == {"volume": 4}
    for content, says in ((b"volume = ", "is not valid TOML"), (b"\xff", "is not text"), (b"a = 1\0", "zero bytes")):
        path.write_bytes(content)
        with pytest.raises(SettingsError, match=f"{path} .*{says}"):
            read_toml(path)


def test_a_key_is_written_as_toml_reads_it(tmp_path: Path) -> None:
    names = ("yes", "für", "hey jarvis", "don't", "日本", 'a"b', "a\\b")
    (tmp_path / "a.toml").write_text("".join(f"{toml_key(name)} = 1\n" for name in names), "utf-8")
    assert read_toml(tmp_path / "a.toml") == dict.fromkeys(names, 1)


def test_the_nearest_word_or_all_of_them() -> None:
    assert nearest("lppa", ["lpa", "fedavg"]) == 'did you mean "lpa"?'
    assert nearest("xyz", ["lpa", "fedavg"]) == "there is: fedavg, lpa."
    assert nearest("xyz", []) == "there are none yet."


Share = Annotated[float, Meta(gt=0, le=1)]


class Oven(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="Whose it is.")]
    heat: Annotated[int, Meta(ge=0, description="In degrees.")] = 180
    share: Annotated[Share | None, Meta(description="Of the heat.")] = None
    kind: Literal["gas", "wood"] = "gas"
    racks: dict[str, int] = {}


def _answered(*arguments: str) -> str:
    app = typer.Typer()
    heat, share = (option_of(setting) for setting in list_settings(Oven) if setting.name in ("heat", "share"))
    book = Option("book", Path | None, typer.Option(None, help="To read."))

    @app.command()
    @with_options(warm=[heat, share], read=[book])
    def bake(
        *, dish: str = typer.Argument("bread"), warm: Given, as_json: bool = typer.Option(False, "--json"), read: Given
    ) -> int:
        """Bake a dish."""
        print(dish, dict(warm), as_json, dict(read))
        return 0

    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})
    assert result.exit_code == (2 if "--warm" in arguments else 0), result.output
    return result.output


def test_a_struct_declares_its_settings_in_order_without_limits() -> None:
    assert list(list_settings(Oven)) == [
        Setting("name", str, NODEFAULT, "Whose it is."),
        Setting("heat", int, 180, "In degrees."),
        Setting("share", float | None, None, "Of the heat."),
        Setting("kind", Literal["gas", "wood"], "gas", ""),
        Setting("racks", dict[str, int], {}, ""),
    ]


def test_a_command_gets_its_options_by_group_and_its_own_as_they_are() -> None:
    assert _answered() == "bread {'heat': 180, 'share': None} False {'book': None}\n"
    assert _answered("pie", "--heat", "7", "--share", "0.5", "--json", "--book", "a.txt") == (
        "pie {'heat': 7, 'share': 0.5} True {'book': PosixPath('a.txt')}\n"
    )


def test_options_stand_where_their_group_stands_and_the_group_is_none() -> None:
    shown = _answered("--help")
    places = [shown.index(word) for word in ("Bake a dish.", "--heat", "180", "--share", "--json", "--book")]
    assert places == sorted(places)
    assert "No such option" in _answered("--warm", "1")


def test_an_option_for_what_a_file_may_give_too_is_none_without_it_and_says_the_default() -> None:
    heat, share = (optional(setting) for setting in list_settings(Oven) if setting.name in ("heat", "share"))
    app = typer.Typer()

    @app.command()
    @with_options(given=[heat, share])
    def bake(*, given: Given) -> int:
        print(dict(given))
        return 0

    assert CliRunner().invoke(app, ["--heat", "9"]).output == "{'heat': 9, 'share': None}\n"
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    assert "[180]" in shown and "[None]" not in shown


def test_a_group_that_the_function_does_not_have_is_a_mistake_of_the_author() -> None:
    with pytest.raises(TypeError, match="colour"):

        @with_options(colour=[])
        def paint(*, given: Given) -> int:
            return len(given)
