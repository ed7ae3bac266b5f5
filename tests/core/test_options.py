"""Options of a command that a settings struct declares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from msgspec import NODEFAULT, Meta, Struct
from typer.testing import CliRunner

from auricle.process.options import Given, Option, option_of, with_options
from auricle.settings import Setting, declared

Share = Annotated[float, Meta(gt=0, le=1)]


class Oven(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="Whose it is.")]
    heat: Annotated[int, Meta(ge=0, description="In degrees.")] = 180
    share: Annotated[Share | None, Meta(description="Of the heat.")] = None
    kind: Literal["gas", "wood"] = "gas"
    racks: dict[str, int] = {}


def _answered(*arguments: str) -> str:
    app = typer.Typer()
    heat, share = (option_of(setting) for setting in declared(Oven) if setting.name in ("heat", "share"))
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
    assert list(declared(Oven)) == [
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

    places = [shown.index(word) for word in ("Bake a dish.", "--heat", "--share", "--json", "--book")]
    assert places == sorted(places)
    assert "In degrees." in shown
    assert "180" in shown
    assert "No such option" in _answered("--warm", "1")


def test_a_group_that_the_function_does_not_have_is_a_mistake_of_the_author() -> None:
    with pytest.raises(TypeError, match="colour"):

        @with_options(colour=[])
        def paint(*, given: Given) -> int:
            return len(given)
