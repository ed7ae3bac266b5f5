"""What trains a run where nothing is named: the C library, or onnxruntime with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle_edge.runtimes.choice import fastest_trainer
from auricle_fleet import training_runtime as chosen
from auricle_fleet.training_runtime import left_to_onnxruntime, training_runtime
from auricle_learning.native import first_use, library


@pytest.fixture
def without_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wheel brought the library, and none was compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for module in (library, first_use.compiling):
        monkeypatch.setattr(module, "shipped", lambda _: tmp_path / "none.so")
    monkeypatch.setattr(library, "compiler", lambda: None)
    monkeypatch.setattr(chosen, "compiler", lambda: None)


@pytest.mark.usefixtures("without_library")
def test_without_library_and_compiler_onnxruntime_trains_and_the_reason_is_told() -> None:
    told: list[str] = []
    by = training_runtime("auto", told.append)
    assert by.name == "step" and "needs a C compiler" in by.sentence and not told
    assert training_runtime("step").reason == "onnxruntime, as asked for"
    assert training_runtime("native").sentence.startswith("Devices train with native")


@pytest.mark.usefixtures("without_library")
def test_a_compiler_is_used_and_said_where_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "compiler", lambda: "/usr/bin/cc")
    told: list[str] = []
    training_runtime("auto", told.append)
    assert len(told) == 1 and "compiles" in told[0]


@pytest.mark.skipif(library.compiler() is None, reason="there is no C compiler here")
def test_the_library_is_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fastest_trainer()[0] == "native"
    monkeypatch.setattr("auricle_learning.native.self_test.fault_of", lambda _: "It computes wrongly here.")
    name, reason = fastest_trainer()
    assert name == "step" and reason.endswith("It computes wrongly here.")


def test_what_the_runtime_leaves_to_onnxruntime_is_listed_by_file() -> None:
    class Leaving:
        """A runtime that cannot run a graph of each model."""

        def left_out(self, model: str) -> dict[str, str]:
            return {f"{model}.onnx": "it has the operator LSTM"}

    assert left_to_onnxruntime(Leaving(), ("a", "b")) == dict.fromkeys(  # type: ignore[arg-type]
        ("a.onnx", "b.onnx"), "it has the operator LSTM"
    )
    assert left_to_onnxruntime(object(), ("a",)) == {}  # type: ignore[arg-type]
