"""The mutation run: which changes it makes, and that it tells a change that is seen from one that is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from mutant_runs import FAILED, PASSED, Tree
from mutants import OF_A_FILE, PLAN, ROOT, Judged, Result, by_area, drawn, read_plan
from mutations import Mutant, mutants_of

AREAS = {"rules", "methods", "gate", "claims", "TUF", "detection", "step runtime", "virtual engine"}


def _changed(source: str) -> list[str]:
    """The changed lines of a one-line function's body, or of a module's one line."""
    return [mutant.after for mutant in mutants_of("f.py", source.encode())]


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = (a) - (b)", ["x = (a) + (b)"]),
        ("x = a and not b", ["x = a and b", "x = a or not b"]),
        ("x = b if a else c", ["x = b if not (a) else c"]),
        ("x = 0.5", ["x = 1.5"]),
        ("x = True", ["x = False"]),
        ("x = 'late'", ["x = 'lateXX'"]),
        ("x = 'A sentence.'", []),
        ("x: Literal['late'] = y", []),
        ("class A(B, frozen=True):\n    x = 3", ["x = 4"]),
        ("log.info('late')", []),
        ("x = f(a, b, k=c)", ["x = f(a, b)", "x = f(b, a, k=c)"]),
        ("x = max(a, b)", []),
        ("x = zip(a, b, strict=True)", ["x = zip(b, a, strict=True)"]),
        ("x = b('Sub', p, q)", ["x = b('Add', p, q)", "x = b('Sub', q, p)"]),
        ("x = b('Add', p, q)", ["x = b('Sub', p, q)"]),
        ("x -= a", ["x += a"]),
        ("f()", ["pass"]),
        ("raise Error(a, b)", ["pass", "raise Error(b, a)"]),
    ],
)
def test_each_kind_of_change(source: str, changed: list[str]) -> None:
    assert sorted(_changed(source)) == sorted(changed)


def test_what_a_function_returns_may_be_missing_and_its_docstring_is_left_alone() -> None:
    found = mutants_of("f.py", b'LIMIT = 3\n\ndef f(a: "str") -> int:\n    """What."""\n    return a.size\n')
    assert [(m.line, m.before, m.after, m.inside) for m in found] == [
        (1, "LIMIT = 3", "LIMIT = 4", False),
        (5, "return a.size", "return None", True),
    ]


def test_places_are_bytes_where_letters_are_not() -> None:
    found = mutants_of("f.py", "å = 'ö ü' if α < β else γ\n".encode())
    expected = [f"å = 'ö ü' if α {sign} β else γ\n" for sign in ("<=", ">=")]
    assert [mutant.source.decode() for mutant in found] == expected


def test_a_draw_takes_as_many_changes_of_each_area_and_another_seed_takes_others() -> None:
    files = ("learning/auricle_learning/aggregation/rules/krum.py", "learning/auricle_learning/aggregation/caps.py")
    gate = "edge/auricle_edge/board/gate.py"
    plan = [Judged(file, (), frozenset(), "rules") for file in files]
    plan += [Judged(gate, (), frozenset(), "gate"), Judged("core/auricle/wire/claims.py", (), frozenset(), "")]

    def lines(count: int, seed: int) -> dict[str, list[Mutant]]:
        return {judged.file: mutants for judged, mutants in drawn(plan, count, seed)}

    few = lines(2 * OF_A_FILE, 1)
    assert {file: len(mutants) for file, mutants in few.items()} == {
        files[0]: OF_A_FILE,
        files[1]: OF_A_FILE,
        gate: 2 * OF_A_FILE,
    }
    assert all(len({mutant.source for mutant in mutants}) == len(mutants) for mutants in few.values())
    assert lines(2 * OF_A_FILE, 1) == few != lines(2 * OF_A_FILE, 2)
    (one,) = (lines(4, 3).keys() & {*files}) or {""}
    assert one and len(lines(4, 3)[one]) == 4, "few are of one file"
    equivalent = frozenset(mutant.after for mutant in few[gate])
    without = drawn([Judged(gate, (), equivalent, "gate")], 10_000, 1)[0][1]
    assert 0 < len(without) < 10_000 and not {mutant.after for mutant in without} & equivalent


def test_a_draw_is_judged_by_the_survivors_of_all_areas_together() -> None:
    (mutant,) = mutants_of("f.py", b"LEAST = 3\n")
    results = [
        Result("a", "rules", 9, 1, 60, ()),
        Result("b", "gate", 5, 0, 40, (mutant,)),
        Result("c", "gate", 5, 0, 0, ()),
    ]
    sums = [(each.file, each.possible, each.equivalent, each.tried, each.percent) for each in by_area(results)]
    assert sums == [("gate", 10, 0, 40, 2.5), ("rules", 9, 1, 60, 0.0), ("all", 19, 1, 100, 1.0)]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A project of one file and one test, which does not look at 10."""
    root = tmp_path / "root"
    (root / "core").mkdir(parents=True)
    (root / "core" / "toy.py").write_text("LEAST = 3\n\n\ndef enough(count):\n    return LEAST <= count < 10\n")
    (root / "test_toy.py").write_text(
        "from toy import enough\n\n\ndef test_enough():\n    assert [enough(n) for n in (2, 3, 11)] == [0, 1, 0]\n"
    )
    (root / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    return Tree(root, tmp_path / "copy")


@pytest.mark.slow
def test_a_change_that_no_test_sees_survives(tree: Tree) -> None:
    source = (tree.folder / "core" / "toy.py").read_bytes()
    inner = {m.after: m for m in mutants_of("core/toy.py", source) if m.inside}

    codes = list(tree.in_place("core/toy.py", ["test_toy.py"], [mutant.source for mutant in inner.values()]))

    assert codes[0] == PASSED, tree.said
    assert dict(zip(inner, codes[1:], strict=True)) == {
        "return LEAST < count < 10": FAILED,
        "return LEAST > count < 10": FAILED,
        "return LEAST <= count <= 10": PASSED,
        "return LEAST <= count >= 10": FAILED,
        "return LEAST <= count < 11": PASSED,
        "return None": FAILED,
    }


@pytest.mark.slow
def test_a_change_outside_of_functions_is_imported(tree: Tree) -> None:
    source = (tree.folder / "core" / "toy.py").read_bytes()
    (outer,) = [m for m in mutants_of("core/toy.py", source) if not m.inside]
    assert outer.after == "LEAST = 4"
    assert tree.from_start("core/toy.py", ["test_toy.py"], source, 60.0) == PASSED, tree.said
    assert tree.from_start("core/toy.py", ["test_toy.py"], outer.source, 60.0) == FAILED
    assert (tree.folder / "core" / "toy.py").read_bytes() == source


@pytest.mark.slow
@pytest.mark.nightly
def test_the_plan_names_files_and_tests_that_are_there() -> None:
    judged = read_plan(PLAN.read_text(), [])
    with pytest.raises(SystemExit, match=r"elsewhere\.py"):
        read_plan(PLAN.read_text(), ["elsewhere.py"])

    assert len(judged) >= 28
    assert {each.area for each in judged} - {""} == AREAS
    for each in judged:
        tests = [test for test in each.tests if test.endswith(".py")]
        assert tests
        assert all((ROOT / test).is_file() for test in tests)
        known = {mutant.after for mutant in mutants_of(each.file, (ROOT / each.file).read_bytes())}
        assert each.equivalent <= known, f"a change of {each.file} that is named as equivalent is no longer one"
