"""`auricle export tflite`: what a user sees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.export.tflite_toy import needs_schema

from auricle.checks.tflite_weights import with_weights
from auricle.packs.pack import load_pack
from auricle.packs.start import start_file
from auricle.process.cli import main

needs_schema()


def test_a_pack_with_tflite_models_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "with.tar.zst"
    assert main(["export", "tflite", "gsc12", "--out", str(out), "--models", "crnn-lite", "--json"]) == 0
    facts, pack = json.loads(capsys.readouterr().out), load_pack(out)
    assert facts["identity"] == pack.identity
    assert [(m["model"], m["precision"]) for m in facts["models"]] == [("crnn-lite", "float32"), ("crnn-lite", "int8")]
    assert [m["bytes"] for m in facts["models"]] == [len(pack.files[e.file]) for e in pack.manifest.tflite]
    assert pack.manifest.graphs == load_pack("gsc12").manifest.graphs


def test_an_int8_model_is_rebuilt_with_a_runs_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = load_pack("gsc12").plugin_table
    weights = table.initial(9)
    (tmp_path / "run.safetensors").write_bytes(start_file(table, weights, "F32"))
    out = tmp_path / "with.tar.zst"
    arguments = ["--models", "crnn-lite", "--precision", "int8", "--weights", str(tmp_path / "run.safetensors")]
    assert main(["export", "tflite", "gsc12", "--out", str(out), *arguments]) == 0

    assert "crnn-lite int8: " in capsys.readouterr().out
    pack = load_pack(out)
    (entry,) = pack.manifest.tflite
    assert pack.files[entry.file] == with_weights(pack, entry, weights)


def test_words_may_be_others_than_the_packs(tmp_path: Path) -> None:
    out = tmp_path / "with.tar.zst"
    arguments = ["--models", "crnn-lite", "--precision", "float32", "--words", "left, right"]
    assert main(["export", "tflite", "gsc12", "--out", str(out), *arguments]) == 0
    pack = load_pack(out)
    assert pack.labels == ("left", "right")
    assert np.prod([len(entry.buffers) for entry in pack.manifest.tflite]) == len(pack.plugin_table.specs)


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        ("--models crnn-lit", '"crnn-lite"'),
        ("--precision int4", '"int8"'),
        ("--weights x.safetensors", "--models"),
        ("--models crnn-lite --weights /no/where", "/no/where"),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: str, noun: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "tflite", "gsc12", "--out", str(tmp_path / "x.tar.zst"), *arguments.split()]) == 2
    assert noun in capsys.readouterr().err
    assert not (tmp_path / "x.tar.zst").exists()


@pytest.mark.slow
def test_without_the_schema_package_the_command_says_what_to_install(tmp_path: Path) -> None:
    absent = "import sys; sys.modules['tflite'] = None"
    program = f"{absent}; from auricle.process.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["export", "tflite", "gsc12", "--out", str(tmp_path / "x.tar.zst")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "[export]" in " ".join(done.stderr.split())
