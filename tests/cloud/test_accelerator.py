"""What is found on this machine, what is used, and that nothing needs PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle_cloud.aggregation.compute.accelerator import CHOICES, GpuMatrix, accelerators, choose, gpu_in_sight
from auricle_cloud.aggregation.compute.matrix import NumpyMatrix

WITHOUT_TORCH = """
import importlib.abc, sys
class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("choice", [choice for choice in CHOICES if choice != "mps"])
def test_the_processor_is_always_listed_and_exactly_one_device_is_used(choice: str) -> None:
    listed = accelerators(choice)

    assert listed[-1].kind == "cpu"
    assert sum(each.used for each in listed) == 1
    for each in listed:
        assert each.name
        assert each.why


def test_the_processor_has_memory_and_a_reason() -> None:
    processor = accelerators("cpu")[-1]

    assert (processor.used, processor.why) == (True, "asked for")
    if Path("/proc/meminfo").is_file():
        assert processor.memory_total is not None
        assert processor.memory_free is not None
        assert 0 < processor.memory_free <= processor.memory_total


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingsError, match='accelerator is "gpu"; did you mean'):
        accelerators("gpu")


def test_asking_for_the_processor_gives_numpy() -> None:
    assert choose("cpu").opener is NumpyMatrix


def test_without_pytorch_numpy_computes_and_says_why() -> None:
    code = WITHOUT_TORCH + (
        "from auricle_cloud.aggregation.compute.accelerator import accelerators, choose\n"
        "import auricle_cloud.aggregation.rules\n"
        "print([(each.kind, each.why) for each in accelerators()], choose().opener.__name__)"
    )

    assert run(code) == "[('cpu', 'PyTorch is not installed')] NumpyMatrix"


def test_asking_for_a_gpu_without_pytorch_is_one_sentence() -> None:
    code = WITHOUT_TORCH + (
        "from auricle_cloud.aggregation.compute.accelerator import choose\n"
        "from auricle.errors import SettingsError\n"
        "for choice in ('cuda', 'mps'):\n"
        "    try:\n        choose(choice)\n"
        "    except SettingsError as error:\n        print(error)"
    )

    assert run(code).splitlines() == [
        'there is no GPU to use (PyTorch is not installed); set the accelerator to "auto" or "cpu".',
        'there is no MPS device (PyTorch is not installed); set the accelerator to "auto" or "cpu".',
    ]


def test_importing_the_cloud_part_imports_no_pytorch() -> None:
    part = "auricle_cloud.aggregation"
    modules = f"{part}.rules, {part}.compute.accelerator, {part}.next_model"
    code = f"import sys, {modules}; print('torch' in sys.modules)"

    assert run(code) == "False"


@pytest.mark.slow
def test_the_processor_goes_on_where_a_device_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    weights = np.array([[1, 2], [3, 6], [5, 1]], np.float32)

    # PyTorch's "meta" device takes everything and gives nothing back.
    matrix = GpuMatrix(weights, "meta", memory=1 << 20)

    spans = [(slice(0, 2),)]
    assert matrix.middle(1, spans)[0].tolist() == [3, 2]
    assert matrix.squared_distances().tolist() == NumpyMatrix(weights).squared_distances().tolist()
    assert "the processor goes on" in caplog.text
    assert len(caplog.records) == 1


def test_a_gpu_is_used_when_there_is_one() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")

    first = accelerators()[0]

    assert first.used
    assert first.memory_total
    assert first.memory_free
    assert not isinstance(choose().opener(np.ones((2, 2), np.float32)), NumpyMatrix)
    assert isinstance(choose().opener(np.ones((2, 2))), NumpyMatrix)


def test_a_gpu_is_in_sight_where_the_system_shows_one(tmp_path: Path) -> None:
    (tmp_path / "null").touch()
    assert not gpu_in_sight(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert gpu_in_sight(tmp_path)
