"""Every target keeps the rule on a few hundred inputs; the fuzzer itself finds what breaks it."""

from __future__ import annotations

import json
import mmap
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.__main__ import main, write_corpus
from tests.fuzz.protobuf import changed, parse
from tests.fuzz.run import Fuzzer
from tests.fuzz.scratch import PREFIX, scratch_folder, written
from tests.fuzz.target import FOUND, TARGETS, Target
from tests.fuzz.targets import load
from tests.fuzz.watched import watched

load()
CASES = 25
"""Inputs of each target in a fast run."""
SEED = 1
NAMES = sorted(TARGETS)


@pytest.mark.reliability("C2", load="every decoder, 25 inputs each; by night many more")
@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_returns_or_refuses(name: str) -> None:
    result = Fuzzer(TARGETS[name], SEED).run(CASES, seconds=8)
    assert {what: finding.trace for what, finding in result.findings.items()} == {}
    assert result.decoded >= 1


@pytest.mark.parametrize("name", NAMES)
def test_its_examples_are_decoded_and_not_refused(name: str) -> None:
    examples = [path for path in TARGETS[name].corpus.iterdir() if not path.name.startswith(FOUND)]
    assert examples, f"python -m tests.fuzz {name} --write-corpus"
    for path in examples:
        TARGETS[name].decode(path.read_bytes())


# -- the fuzzer itself


def _made(name: str, decode: object, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> Target:
    monkeypatch.setattr("tests.fuzz.target.CORPUS", folder)
    made = Target(name, decode, ("json",), lambda: {"one": b'{"a": [1, 2]}'}, **options)  # type: ignore[arg-type]
    write_corpus(made)
    return made


@pytest.mark.slow
def test_what_is_no_refusal_is_found_with_its_shortest_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(data: bytes) -> int:
        value = json.loads(data)  # UnicodeDecodeError and RecursionError get out, and what is not a table
        return len(value["a"])

    result = Fuzzer(_made("careless", decode, tmp_path, monkeypatch, form="json", refusals=(ValueError,)), 1).run(2000)

    kinds = {what.partition(" at ")[0] for what in result.findings}
    assert {"RecursionError", "TypeError", "KeyError"} <= kinds
    assert result.decoded and result.refused
    assert all(finding.trace for finding in result.findings.values())


@pytest.mark.slow
def test_what_takes_too_long_or_too_much_memory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(data: bytes) -> None:
        if data[:1] != b"{":
            with mmap.mmap(-1, 80 << 20) as held:
                held[:: mmap.PAGESIZE] = bytes(len(held) // mmap.PAGESIZE)
        elif data[-1:] != b"}":
            end = time.thread_time() + 0.1
            while time.thread_time() < end:
                """Work."""

    # In a process of its own: what the tests before have left in this one is not counted.
    result = watched(_made("slow", decode, tmp_path, monkeypatch, seconds=0.05), 1, 40)

    assert set(result.findings) == {"took more than 0.05 s", "took more than 64 MB"}


def test_an_input_that_kills_the_process_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(data: bytes) -> None:
        if b"]" not in data:
            os._exit(7)

    result = watched(_made("deadly", decode, tmp_path, monkeypatch), 1, 1000)

    (finding,) = result.findings.values()
    assert finding.what == "the process ended with 7"
    assert b"]" not in finding.input


@pytest.mark.parametrize("ends", [lambda: None, lambda: os._exit(7), lambda: os.kill(os.getpid(), signal.SIGKILL)])
def test_a_target_leaves_no_folder_whatever_ends_its_process(
    ends: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.scratch.MEMORY", tmp_path)

    def decode(data: bytes) -> None:
        assert written(data).is_relative_to(tmp_path) and list(tmp_path.glob(f"{PREFIX}*"))
        ends()

    result = watched(_made("files", decode, tmp_path / "corpus", monkeypatch), 1, 3)

    assert result.cases and "AssertionError" not in str(result.findings)
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_a_folder_whose_process_was_killed_is_removed_by_the_next_one_and_no_other(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def other() -> None:
        with scratch_folder(tmp_path):
            theirs.send("open")
            signal.pause()

    child = multiprocessing.get_context("fork").Process(target=other, daemon=True)
    with scratch_folder(tmp_path) as held:
        child.start()
        assert ours.poll(30) and ours.recv() == "open"
        with scratch_folder(tmp_path):
            assert len(list(tmp_path.iterdir())) == 3
        child.kill()
        child.join()
        assert len(list(tmp_path.iterdir())) == 2
        with scratch_folder(tmp_path) as mine:
            assert sorted(tmp_path.iterdir()) == sorted([held, mine])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_folder_and_no_process(sent: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "backup", "--cases", "1000000", "--seconds", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        assert run.stderr is not None
        while "cases" not in run.stderr.readline():
            """The first progress comes after five seconds of inputs."""
        held = [each.readlink() for each in Path(f"/proc/{run.pid}/fd").iterdir()]
        (folder,) = (each for each in held if each.name.startswith(PREFIX))
        assert folder.is_dir()
        run.send_signal(sent)
        assert "Traceback" not in run.stderr.read()  # read to its end: the child has ended as well
    assert not folder.exists()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[bytes]] = []
    for _ in range(2):
        inputs: list[bytes] = []
        Fuzzer(_made("seen", inputs.append, tmp_path, monkeypatch, form="json"), 3).run(200)
        seen.append(inputs)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 100


@pytest.mark.slow
@pytest.mark.nightly
def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["public-key", "--cases", "50", "--seed", "4", "--json", "--keep", str(tmp_path), "--coverage"])
    (row,) = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (row["target"], row["seed"], row["cases"], row["findings"]) == ("public-key", 4, 50, [])
    assert row["decoded"] and row["refused"] and row["processor_seconds"] > 0
    assert 0 < row["lines_reached"] < row["lines"]


def test_a_target_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frames"]) == 2
    assert 'There is no target "frames"' in capsys.readouterr().err


def test_a_protobuf_comes_back_as_it_was_and_a_changed_one_has_the_right_lengths() -> None:
    draw = random.Random(1)
    different = set()
    for data in TARGETS["onnx"].seeds():
        assert b"".join(field.encode() for _, _, field in parse(data)) == data
        for _ in range(50):
            other = changed(data, draw)
            different.add(other)
            parse(other)
    assert len(different) > 50
