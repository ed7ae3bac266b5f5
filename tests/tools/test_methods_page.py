"""docs/methods.md has every method as the code has it: options, formula, needs, what travels, source and file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tools import methods_page

from auricle.errors import SettingsError
from auricle_learning.methods import METHODS

ROOT = Path(__file__).parents[2]


def section(name: str) -> str:
    found: str = methods_page.section(METHODS[name])
    return found


def test_a_page_that_is_out_of_date_is_named_and_its_part_by_hand_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert methods_page.main(["--check"]) == 0
    page = tmp_path / "methods.md"
    page.write_text(f"# By hand\n\n{methods_page.MARK}\nold\n", encoding="utf-8")
    monkeypatch.setattr(methods_page, "PAGE", page)
    assert methods_page.main(["--check"]) == 1
    assert "run python tools/methods_page.py" in capsys.readouterr().out
    assert methods_page.main([]) == 0
    assert methods_page.main(["--check"]) == 0
    assert page.read_text(encoding="utf-8").startswith(f"# By hand\n\n{methods_page.MARK}\n\n## All methods\n")
    with pytest.raises(SettingsError, match="does not say where"):
        methods_page.written("# By hand\n", METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_section_has_every_option_a_formula_a_source_and_files_that_are_there(name: str) -> None:
    text, method = section(name), METHODS[name]
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    assert {option for row in rows for option in re.findall(r"`([^`]+)`", row)} == set(method.rule.settings)
    (formula,) = re.findall(r"```text\n(.+?)\n```", text, re.DOTALL)
    assert formula.strip() and max(map(len, formula.splitlines())) <= methods_page.WIDTH
    files = re.findall(r"\[\w+\.py\]\(\.\./(.+?)\)", text)
    assert files and all((ROOT / file).is_file() for file in files)
    for vector in (*method.needs.down, *method.needs.up):
        assert f"`{vector.name}` (" in text
        assert vector.allowed_by is None or f"owner allows `{vector.allowed_by}`" in text


def test_the_formula_is_the_first_sentence_that_has_one() -> None:
    formulas = {name: methods_page.formula(METHODS[name].rule.function) for name in METHODS}
    assert formulas["feddyn"] == "h ← h - (α/N) Σ_S (θ_i - θ^t), θ ← mean_S θ_i - h/α."
    assert formulas["fedvsa"] == "f_k = clip(F_k, 0, C), p = softmax(f), w = Σ_k p_k w_k (eq. 6-8); n_k is not used."
    assert formulas["multi-krum"] == methods_page.summary(METHODS["multi-krum"].rule.function), "which has none"


def test_what_travels_is_told_with_the_option_and_the_owners_word() -> None:
    assert list(methods_page.down(METHODS["feddc"])) == ["`g` (P numbers)", "`size` (1 number)"]
    assert list(methods_page.up(METHODS["scaffold"])) == []
    (histogram,) = methods_page.up(METHODS["feddisco"])
    assert histogram.endswith("from devices whose owner allows `histogram`; others decline")
    maps, gradients = methods_page.up(METHODS["acmu"])
    assert "with `maps`" in maps and maps.endswith("owner allows `maps`; others decline")
    assert "with `pkcf`" in gradients and gradients.endswith("owner allows `gradients`; others take part without")
    assert list(methods_page.down(METHODS["acmu"])) == [f"{methods_page.FEATURES} with `pkcf`"]


def test_needs_are_told_with_what_they_exclude() -> None:
    assert methods_page.needs(METHODS["fedavg"].rule_for_rounds) == "nothing but the updates"
    assert "`--labelled`. Not with detection." in section("zeno")
    assert "Not with asynchronous rounds or detection. It is the server's step itself" in section("scaffold")


def test_a_half_of_another_module_has_a_place() -> None:
    method = METHODS["scaffold"]
    halves = replace(METHODS["fedavg"], before=method.before)
    assert "[scaffold.py](" in methods_page.source(halves) and "[fedavg.py](" in methods_page.source(halves)
