"""The mutation run: which changes it makes, and that it tells a change that is seen from one that is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from mutant_runs import FAILED, PASSED, Tree
from mutants import PLAN, ROOT, read_plan
from mutations import mutants_of


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
    for each in judged:
        tests = [test for test in each.tests if test.endswith(".py")]
        assert tests
        assert all((ROOT / test).is_file() for test in tests)
        known = {mutant.after for mutant in mutants_of(each.file, (ROOT / each.file).read_bytes())}
        assert each.equivalent <= known, f"a change of {each.file} that is named as equivalent is no longer one"
