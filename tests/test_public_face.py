"""What the packages promise: the names are there, importing them is light, and the page tells the truth."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tools import api_page

from auricle import load_pack
from auricle.errors import SettingsError, refuse_misfits
from auricle_fleet import FleetRun, FleetSettings, Group, RoundRow
from auricle_fleet.results.result import Summary
from auricle_learning import average, get_method
from auricle_learning.aggregation.cohort_checks import CohortError

ROOT = Path(__file__).parents[1]
PROMISED = {
    "auricle": {"Pack", "load_pack"},
    "auricle_fleet": {
        "DeviceRow",
        "FleetResult",
        "FleetRun",
        "FleetSettings",
        "Group",
        "Network",
        "Trace",
        "RoundRow",
        "View",
    },
    "auricle_learning": {"METHODS", "Aggregate", "Cohort", "Rule", "Runtime", "Trainer", "average", "get_method"},
    "auricle_cloud": {"Coordinator", "Operations", "RunSettings"},
    "auricle_edge": {"Agent", "AgentSettings", "Listener"},
}
TABLES = {"METHODS"}
"""Promised names that are neither class nor function."""
NOT_TRIED = {"Runtime", "average", "get_method"} | TABLES
"""A protocol, and functions that take options of any name."""
HEAVY = {"numpy", "msgspec", "onnxruntime", "sqlalchemy", "aiohttp", "typer", "rich", "cryptography", "paho"}


@pytest.mark.parametrize("part", PROMISED)
def test_what_is_promised_is_there_and_documented(part: str) -> None:
    package = importlib.import_module(part)

    assert set(package.__all__) == PROMISED[part]
    assert set(dir(package)) >= PROMISED[part] | {"__doc__", "__name__"}
    for name in set(package.__all__) - TABLES:
        assert getattr(package, name).__name__ == name
        assert inspect.getdoc(getattr(package, name))
    with pytest.raises(AttributeError, match=f"module '{part}' has no attribute 'FleetRum'"):
        _ = package.FleetRum


@pytest.mark.parametrize(
    ("part", "name"),
    [(part, name) for part, names in PROMISED.items() for name in sorted(names - NOT_TRIED)],
)
def test_a_value_that_has_no_place_is_refused_in_a_sentence(part: str, name: str) -> None:
    promised = getattr(importlib.import_module(part), name)

    with pytest.raises(SettingsError, match=f'^{name}.* "nonsense": (there is: .+[.]|did you mean ".+"[?])$'):
        promised(nonsense=1)
    with pytest.raises(SettingsError, match=f"^{name} does not take these values: too many positional arguments[.]$"):
        promised(*range(60))


def test_the_nearest_name_is_a_hint() -> None:
    with pytest.raises(SettingsError, match=r'^FleetSettings: no setting "round": did you mean "rounds"[?]$'):
        FleetSettings(round=3)  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match=r'^FleetRun takes no "setings": did you mean "settings"[?]$'):
        FleetRun(setings=None)  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match=r'^FleetRun.resume takes no "round": did you mean "rounds"[?]$'):
        FleetRun.resume("runs/1", round=3)  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match=r"^load_pack does not take these values: missing .* 'source'[.]$"):
        load_pack()  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match=r"^get_method does not take these values: missing .* 'name'[.]$"):
        get_method(beta=0.1)  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match=r'^the method "trimmed-mean" has no option "bta"; did you mean "beta"[?]$'):
        average([np.ones(2)], method="trimmed-mean", bta=0.1)
    with pytest.raises(SettingsError, match=r"^cut is 9{20}; a number may have at most 53 bits[.]$"):
        get_method("trimmed-mean", cut=int("9" * 20))
    with pytest.raises(SettingsError, match=r"^a method is named by a text, not by 3; there is: acmu, "):
        get_method(3)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r'^The method "zeno" needs '):
        average([np.ones(2)], method="zeno")


def test_settings_of_a_program_are_checked_as_those_of_a_file() -> None:
    with pytest.raises(SettingsError, match=r'^FleetSettings: rate takes a number, not "fast"[.]$'):
        FleetSettings(rate="fast")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"^Group: name is missing"):
        Group()  # type: ignore[call-arg]

    settings = FleetSettings(data=Path("clips"), rate=np.float64(0.5), groups=[Group(name="a", count=2)])  # type: ignore[arg-type]

    assert settings == FleetSettings(data="clips", rate=0.5, groups=(Group(name="a", count=2),))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.arange(3), "rounds takes a whole number, not "),
        (np.float64, "rounds takes a whole number, not "),
        (10**5_000, "rounds is a number of 16610 bits: it takes at most 64."),
    ],
    ids=["array", "kind", "digits"],
)
def test_a_value_that_no_file_has_is_refused_in_a_sentence(value: object, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        FleetSettings(rounds=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("models", "named", "said"),
    [
        ("", {}, "the models have the shape (); give a row for each client."),
        ([[1.0, 2.0], [3.0]], {}, "the models cannot be read as numbers: "),
        ([[1.0]], {"start": ["one"]}, "the start cannot be read as numbers: "),
        ([[1.0]], {"samples": [{}]}, "the sample counts cannot be read as numbers: "),
        ([[1.0]], {"layers": [("head", "all")]}, "layers are pairs of a name and a number of values."),
        ([[1.0]], {"extras": 3}, "extras are a int; "),
    ],
)
def test_arrays_that_are_none_are_refused_in_a_sentence(models: object, named: dict[str, object], said: str) -> None:
    with pytest.raises(CohortError, match=re.escape(said)):
        average(models, **named)  # type: ignore[arg-type]


def test_an_error_of_what_fits_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match=r"^object of type 'int' has no len\(\)$"):
        refuse_misfits(lambda value: len(value))(5)


def test_importing_a_part_imports_no_library() -> None:
    program = f"import sys, {', '.join(PROMISED)}; print(*({HEAVY!r} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_the_page_is_what_the_code_promises() -> None:
    page = api_page.PAGE.read_text(encoding="utf-8")

    assert api_page.filled(page) == page
    assert tuple(PROMISED) == api_page.PARTS
    for names in PROMISED.values():
        assert all(re.search(rf"^\| `{name}[(`]", page, re.MULTILINE) for name in names)


@pytest.mark.parametrize("kind", [RoundRow, Summary])
def test_every_field_of_a_result_is_described(kind: type[RoundRow] | type[Summary]) -> None:
    described = re.findall(r"^\| `(\w+)` \| \S", api_page.field_table(kind), re.MULTILINE)

    assert described == list(kind.__annotations__)


def test_a_page_that_is_out_of_date_is_noticed() -> None:
    page = api_page.PAGE.read_text(encoding="utf-8").replace("`FleetRun.stop()`", "`FleetRun.halt()`")

    assert "`FleetRun.stop()`" in api_page.filled(page)


@pytest.mark.slow
def test_the_ten_lines_run_as_they_stand(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    (example,) = re.findall(r"```python\n(.*?)```", api_page.PAGE.read_text(encoding="utf-8"), re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )

    assert done.returncode == 0, done.stderr
    assert len(example.strip().splitlines()) <= 10
    *rounds, report = done.stdout.splitlines()
    assert [line.split()[0] for line in rounds] == ["1", "2", "dev-000", "dev-001", "dev-002", "dev-003"]
    assert (tmp_path / report).is_file()
