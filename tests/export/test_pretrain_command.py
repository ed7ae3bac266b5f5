"""`auricle export pretrain` as a user sees it: in this process, and as a real one that is interrupted."""

from __future__ import annotations

import builtins
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.export import pretrain_toy
from tests.export.pretrain_toy import crnn_pack, tiny_pack, write_pack, write_tones
from tests.system.conftest import Command

from auricle.packs.pack import load_pack
from auricle.packs.start import start_weights
from auricle.process.cli import main

Printed = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tones(tmp_path_factory.mktemp("tones"))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pack(tmp_path_factory.mktemp("pack") / "toy.tar.zst", crnn_pack())


def command(folder: Path, pack: Path, out: Path, *more: str) -> list[str]:
    given = ["export", "pretrain", "--data", str(folder), "--pack", str(pack), "--out", str(out)]
    return [*given, "--batch", "16", "--compute", "cpu", *more]


def test_it_prints_an_epoch_a_line_and_the_result(folder: Path, pack: Path, tmp_path: Path, capsys: Printed) -> None:
    out = tmp_path / "new" / "trained.tar.zst"

    assert main(command(folder, pack, out, "--epochs", "2", "--json")) == 0

    *epochs, result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    loaded = load_pack(out)
    assert [(line["model"], line["epoch"], line["epochs"]) for line in epochs] == [("crnn-lite", n, 2) for n in (1, 2)]
    assert result["identity"] == loaded.identity
    assert result["path"] == str(out)
    assert result["speakers"] == {"train": 8, "validation": 1, "test": 1}
    assert result["clips"] == {"train": 96, "validation": 12, "test": 12}
    assert result["models"]["crnn-lite"]["accuracy"] == loaded.manifest.start["crnn-lite"].accuracy
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_it_says_how_well_it_did_and_on_whom(folder: Path, pack: Path, tmp_path: Path, capsys: Printed) -> None:
    out = tmp_path / "trained.tar.zst"
    assert main(command(folder, pack, out, "--epochs", "1", "--words", "low,high")) == 0
    said = capsys.readouterr()
    assert "of 8 clips of 1 unheard speakers" in said.err
    assert load_pack(out).identity[:12] in said.out


MISTAKES = {"--models": "crnn-light", "--words": "low,hihg", "--epochs": "0", "--compute": "gpu"}


@pytest.mark.parametrize("option", MISTAKES)
def test_mistakes_are_one_sentence(folder: Path, pack: Path, tmp_path: Path, option: str, capsys: Printed) -> None:
    assert main(command(folder, pack, tmp_path / "x.tar.zst", option, MISTAKES[option])) == 2
    said = capsys.readouterr()
    noun = {"--models": '"crnn-lite"', "--words": "hihg", "--compute": '"gpu"'}.get(option, option)
    assert noun in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "x.tar.zst").exists()


def test_places_that_cannot_be_written_are_said_first(pack: Path, tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "file").write_text("")
    assert main(command(Path("/no/such/folder"), pack, tmp_path)) == 2
    assert main(command(Path("/no/such/folder"), pack, tmp_path / "file" / "x.tar.zst")) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path} is a folder" in said and "written" in said


def test_an_authors_module_is_trained_under_its_packs_name(folder: Path, tmp_path: Path, capsys: Printed) -> None:
    own = write_pack(tmp_path / "own.tar.zst", tiny_pack())
    file = Path(pretrain_toy.__file__)
    assert main(command(folder, own, tmp_path / "x.tar.zst")) == 2
    assert "tiny" in capsys.readouterr().err

    assert main(command(folder, own, tmp_path / "x.tar.zst", "--model", f"{file}:Tiny", "--epochs", "1")) == 0
    assert main(command(folder, own, tmp_path / "x.tar.zst", "--model", f"{file}:Tyni")) == 2

    assert start_weights(load_pack(tmp_path / "x.tar.zst"), "tiny").any()
    assert 'has no "Tyni"' in capsys.readouterr().err


def test_without_pytorch_it_says_what_to_install(
    folder: Path, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    importing = builtins.__import__

    def without_torch(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return importing(name, *rest, **more)

    kept = ("auricle_export.commands.pretrain_commands", "auricle_export.pretrain")
    parts = [name for name in sys.modules if name.startswith("auricle_export.pretrain.") and name not in kept]
    for name in [*parts, "torch"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in parts:
        monkeypatch.delattr(sys.modules["auricle_export.pretrain"], name.rpartition(".")[2], raising=False)
    monkeypatch.setattr(builtins, "__import__", without_torch)

    assert main(command(folder, pack, tmp_path / "x.tar.zst")) == 2

    assert "[export]" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.nightly
def test_a_signal_ends_it_and_the_command_it_names_goes_on(
    folder: Path, pack: Path, tmp_path: Path, number: int
) -> None:
    out = tmp_path / "my packs" / "trained.tar.zst"
    first = Command(*command(folder, pack, out, "--epochs", "12", "--patience", "12", "--json"))
    first.wait_line(lambda line: line.get("epoch") == 1)
    first.signal(number)

    assert first.end() == 130
    assert "Traceback" not in first.errors
    last = first.lines[-1]
    assert last["interrupted"] is True
    done = max(line["epoch"] for line in first.lines if "epoch" in line)
    assert done < 12
    assert not out.exists()

    arguments = shlex.split(last["go_on"])
    assert arguments[:3] == ["auricle", "export", "pretrain"]
    rest = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=100, check=False)
    assert rest.returncode == 0, rest.stderr
    lines = [json.loads(line) for line in rest.stdout.splitlines()]
    assert [line["epoch"] for line in lines[:-1]] == list(range(done + 1, 13))
    assert start_weights(load_pack(out), "crnn-lite").shape == (load_pack(out).plugin_table.size,)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_the_real_command_learns_from_synthetic_speech(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    out = tmp_path / "digits.tar.zst"

    given = "export pretrain --data synthetic --pack digits --models crnn-lite,crnn-base --speakers 30 --takes 4"
    command = [sys.executable, "-m", "auricle", *given.split(), "--epochs", "12", "--batch", "16", "--out", str(out)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=500, check=False)

    assert done.returncode == 0, done.stderr
    pack, known = load_pack(out), load_pack("digits")
    assert pack.labels == known.labels
    for model in ("crnn-lite", "crnn-base"):
        start = pack.manifest.start[model]
        assert start.data == "synthetic speech (espeak-ng), 10 words"
        assert (start.speakers, start.clips, start.judged_clips) == (22, 880, 160)
        assert start.accuracy > 0.5
