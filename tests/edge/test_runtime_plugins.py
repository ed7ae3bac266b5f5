"""Runtimes of other packages: real distributions in a folder of their own on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.core import tiny_pack

from auricle.errors import AuricleError, SettingsError
from auricle_edge.runtimes import choose_runtime, runtime_names
from auricle_edge.service.checkup import pack_runs
from auricle_learning.runtimes import StepRuntime

PAGE = (Path(__file__).parents[2] / "docs" / "runtimes.md").read_text(encoding="utf-8")
OF_THE_PAGE = PAGE.split("```python")[1].split("```")[0]
BAD = """
from auricle_edge.runtimes import RuntimeKind
none = RuntimeKind("none", lambda pack, training: "It has no accelerator: attach one.", lambda pack, threads: None)
raising = RuntimeKind("raising", lambda pack, training: 1 / 0, lambda pack, threads: None)
failing = RuntimeKind("failing", lambda pack, training: None, lambda pack, threads: {}["driver"])
empty = RuntimeKind("empty", lambda pack, training: None, lambda pack, threads: object())
number = 7
one = RuntimeKind("one", lambda pack: None, lambda pack, threads: None)
text = RuntimeKind("text", lambda pack, training: None, "make")
half = RuntimeKind("half", lambda pack, training: None, lambda pack, threads: Half())

class Half:
    name, pack, logits, embeddings, has, begin = "half", None, 7, print, print, print
"""

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Write distributions as an installer leaves them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def installed(package: str, runtimes: str, code: str) -> None:
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[auricle.runtimes]\n{runtimes}\n")

    yield installed
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_runtime_of_the_documentation_recognises_as_step_does(install: Install) -> None:
    pytest.importorskip("onnxruntime")
    install("acme_runtime", "counting = acme_runtime:kind", OF_THE_PAGE)
    pack = tiny_pack.pack()
    task, weights = pack.manifest.task, pack.plugin_table.initial(0)
    features = np.random.default_rng(0).random((3, task.frames, task.frontend.mels), np.float32)

    choice = choose_runtime("counting", pack)

    assert choice.reason == "Runtime counting: it was asked for."
    ours, theirs = (each.logits("lite", weights, features) for each in (choice.runtime, StepRuntime(pack)))
    assert ours.tobytes() == theirs.tobytes()
    assert choice.runtime.clips == 3  # type: ignore[attr-defined]
    assert "Runtime counting" in pack_runs(pack, "counting")


def test_nothing_of_another_package_is_imported_before_it_is_asked_for(install: Install) -> None:
    install("acme_broken", "broken = acme_broken:kind", "raise RuntimeError('no driver\\nat all')")
    assert "broken" in runtime_names() and "step" in runtime_names()
    assert choose_runtime("step", tiny_pack.pack()).runtime.name == "step"
    with pytest.raises(SettingsError, match='did you mean "broken"'):
        choose_runtime("brokem", tiny_pack.pack())
    with pytest.raises(SettingsError, match=r'"broken" of acme_broken cannot be loaded \(no driver\)'):
        choose_runtime("broken", tiny_pack.pack())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "attach one"),
        ("raising", r"acme_bad failed \(division by zero\)"),
        ("failing", r"acme_bad failed \('driver'\)"),
        ("empty", "has no name, pack, logits, embeddings, has, begin, end_training"),
        ("one", r"has a missing that is no function of \(pack, training\)"),
        ("text", r"has a make that is no function of \(pack, threads\)"),
        ("half", "has no end_training, logits"),
        ("number", "no auricle_edge.runtimes.RuntimeKind but a int"),
    ],
)
def test_one_that_does_not_do_what_a_runtime_does_is_a_sentence(install: Install, name: str, says: str) -> None:
    install("acme_bad", f"{name} = acme_bad:{name}", BAD)
    with pytest.raises(AuricleError, match=says):
        choose_runtime(name, tiny_pack.pack())


def test_a_name_of_ours_stays_ours_and_one_of_two_packages_is_refused(install: Install) -> None:
    install("acme_one", "step = acme_one:number\nboth = acme_one:none", BAD)
    install("acme_two", "both = acme_two:none", BAD)
    assert choose_runtime("step", tiny_pack.pack()).runtime.name == "step"
    with pytest.raises(SettingsError, match="comes from acme_one and acme_two; uninstall one"):
        choose_runtime("both", tiny_pack.pack())
