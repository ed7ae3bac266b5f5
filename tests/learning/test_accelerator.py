"""What is found on this machine, what is used, and that nothing needs PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle_learning.aggregation.compute.accelerator import CHOICES, GpuMatrix, accelerators, choose, gpu_in_sight
from auricle_learning.aggregation.compute.matrix import NumpyMatrix

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None\n"


@pytest.mark.parametrize("choice", [choice for choice in CHOICES if choice != "mps"])
def test_the_processor_is_always_listed_and_exactly_one_device_is_used(choice: str) -> None:
    listed = accelerators(choice)
    assert listed[-1].kind == "cpu"
    assert sum(each.used for each in listed) == 1
    assert all(each.name and each.why for each in listed)
    if choice == "cpu":
        assert listed[-1].used and isinstance(choose(choice).opener(np.ones((1, 1), np.float32)), NumpyMatrix)
        if Path("/proc/meminfo").is_file():
            assert 0 < (listed[-1].memory_free or 0) <= (listed[-1].memory_total or 0)


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingsError, match="gpu"):
        accelerators("gpu")


def python(code: str) -> list[str]:
    """The lines that it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_without_pytorch_numpy_computes_and_a_gpu_that_is_asked_for_is_refused() -> None:
    code = WITHOUT_TORCH + (
        "import numpy\nfrom auricle.errors import SettingsError\n"
        "from auricle_learning.aggregation.compute.accelerator import accelerators, choose\n"
        "import auricle_learning.aggregation.rules\n"
        "opened = choose().opener(numpy.ones((1, 1)))\n"
        "print([(each.kind, each.why) for each in accelerators()], type(opened).__name__)\n"
        "for choice in ('cuda', 'mps'):\n"
        "    try:\n        choose(choice)\n"
        "    except SettingsError as error:\n        print('PyTorch' in str(error))"
    )

    assert python(code) == ["[('cpu', 'PyTorch is not installed')] NumpyMatrix", "True", "True"]


def test_importing_the_cloud_part_imports_no_pytorch() -> None:
    modules = "auricle_learning.aggregation.rules, auricle_learning.aggregation.next_model"
    assert python(f"import sys, {modules}; print('torch' in sys.modules)") == ["False"]


@pytest.mark.slow
def test_the_processor_goes_on_where_a_device_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    weights = np.array([[1, 2], [3, 6], [5, 1]], np.float32)
    # PyTorch's "meta" device takes everything and gives nothing back.
    matrix = GpuMatrix(weights, "meta", memory=1 << 20)
    spans = [(slice(0, 2),)]
    assert matrix.middle(1, spans)[0].tolist() == [3, 2]
    assert matrix.squared_distances().tolist() == NumpyMatrix(weights).squared_distances().tolist()
    assert len(caplog.records) == 1


def test_a_gpu_is_used_when_there_is_one() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")
    first = accelerators()[0]
    assert first.used and first.memory_total and first.memory_free
    assert not isinstance(choose().opener(np.ones((2, 2), np.float32)), NumpyMatrix)
    assert isinstance(choose().opener(np.ones((2, 2))), NumpyMatrix)


def test_a_gpu_is_in_sight_where_the_system_shows_one(tmp_path: Path) -> None:
    (tmp_path / "null").touch()
    assert not gpu_in_sight(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert gpu_in_sight(tmp_path)
