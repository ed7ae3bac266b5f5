"""Which runtime is taken, and what a refusal says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from tests.core import tiny_pack

from auricle.errors import AuricleError, SettingsError
from auricle.packs.manifest import Buffer, OrtTraining, Tflite
from auricle.packs.pack import Pack
from auricle.process.cli import main
from auricle_edge.runtimes import InferenceOnly, Job, StepRuntime, choose_runtime
from auricle_edge.runtimes.native import library as native_library

ROOT = Path(__file__).parents[2]
ARTIFACTS = OrtTraining(
    training=tiny_pack.STEP,
    evaluation=tiny_pack.EVALUATE,
    checkpoint=tiny_pack.WEIGHTS,
    batch=4,
    optimizers={"sgd": tiny_pack.STEP},
)
TRAINER = importlib.util.find_spec("onnxruntime.training") is not None


def _evaluation_only() -> Pack:
    files = {path: data for path, data in tiny_pack.files().items() if path != tiny_pack.STEP}
    return Pack(tiny_pack.manifest(files, graphs=tiny_pack.graphs()[:1]), files)


@pytest.fixture(autouse=True)
def without_brought_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However auricle was installed: a wheel brings the library of the runtime native, a checkout does not."""
    monkeypatch.setattr(native_library, "shipped", lambda _: tmp_path / "none.so")


def test_auto_takes_step_where_it_is_installed_and_says_why() -> None:
    choice = choose_runtime("auto", tiny_pack.pack(ort_training={"lite": ARTIFACTS}))

    assert isinstance(choice.runtime, StepRuntime)
    assert choice.runtime.name == "step"
    assert choice.reason.startswith("Runtime step: onnxruntime ")
    assert choice.reason.endswith("is installed and the pack has graphs for it.")


def test_what_is_asked_for_is_taken() -> None:
    choice = choose_runtime("step", tiny_pack.pack())

    assert choice.runtime.name == "step"
    assert choice.reason == "Runtime step: it was asked for."


def test_a_runtime_that_there_is_not_is_named_with_a_hint() -> None:
    with pytest.raises(SettingsError, match='no runtime "ort-trainin": did you mean "ort-training"'):
        choose_runtime("ort-trainin", tiny_pack.pack())


@pytest.mark.skipif(TRAINER, reason="onnxruntime-training is installed here")
def test_without_onnxruntime_training_its_runtime_says_how_to_get_it() -> None:
    with pytest.raises(
        AuricleError, match=r'onnxruntime-training, which is not installed: .*"auricle\[ort-training\]"'
    ):
        choose_runtime("ort-training", tiny_pack.pack(ort_training={"lite": ARTIFACTS}))


@pytest.mark.skipif(TRAINER, reason="onnxruntime-training is installed here")
def test_a_pack_that_nothing_here_can_train_is_refused_with_every_reason() -> None:
    with pytest.raises(AuricleError, match=r"has no graphs for the runtime step\. The runtime ort-training needs"):
        choose_runtime("auto", _evaluation_only())


def test_for_recognising_an_evaluation_graph_is_enough() -> None:
    choice = choose_runtime("auto", _evaluation_only(), training=False)

    assert choice.runtime.name == "step"


def test_tflite_is_not_taken_for_training() -> None:
    model = Tflite(model="lite", precision="float32", file=tiny_pack.STEP, buffers=(Buffer(tensor="x", offset=0),))

    with pytest.raises(AuricleError, match="The runtime tflite recognises and does not train: choose --runtime step"):
        choose_runtime("tflite", tiny_pack.pack(tflite=(model,)))


def test_a_runtime_that_only_recognises_refuses_to_train() -> None:
    job = Job(kind="supervised", models={}, optimizer="sgd", weights={}, scalars={})

    with pytest.raises(AuricleError, match="recognises and does not train"):
        InferenceOnly().begin(job)
    with pytest.raises(AuricleError, match="logits only"):
        InferenceOnly().embeddings("lite", np.zeros(1, np.float32), np.zeros((1, 5, 3), np.float32))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stepp", 'There is no runtime "stepp": did you mean "step"?'),
        ("tflite", "The runtime tflite recognises and does not train: choose --runtime step."),
    ],
)
def test_the_command_refuses_a_runtime_before_it_looks_at_clips(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is neither a broker nor a folder of clips."""
    options = {
        "device": "kitchen",
        "fleet": "home",
        "broker": "mqtt://127.0.0.1:1",
        "coordinator": "0" * 64,
        "data": str(tmp_path / "none"),
        "state": str(tmp_path),
        "pack": "digits",
        "runtime": name,
    }

    code = main(["edge", "run", *(f"--{option}={value}" for option, value in options.items())])

    assert code == 2
    assert capsys.readouterr().err == f"auricle: {said}\n"


def test_without_onnxruntime_the_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    """In an environment that has everything but onnxruntime."""
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith("onnxruntime"):
            (tmp_path / path.name).symlink_to(path)
    program = (
        "from tests.core import tiny_pack\n"
        "from auricle.errors import AuricleError\n"
        "from auricle_edge.runtimes import choose_runtime\n"
        "try:\n"
        "    choose_runtime('auto', tiny_pack.pack())\n"
        "except AuricleError as error:\n"
        "    print(error)\n"
    )
    paths = [tmp_path, ROOT, ROOT / "core", ROOT / "edge"]

    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(path) for path in paths)},
    )

    assert done.stdout.startswith(
        'The runtime step needs onnxruntime, which is not installed: pip install "auricle[edge]".'
    ), done.stderr
