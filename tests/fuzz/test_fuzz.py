"""Every target keeps the rule on a few hundred inputs; the fuzzer itself finds what breaks it."""

from __future__ import annotations

import json
import mmap
import os
import random
import time
from pathlib import Path

import pytest

from tests.fuzz.__main__ import main, write_corpus
from tests.fuzz.protobuf import changed, encode, parse
from tests.fuzz.run import Fuzzer
from tests.fuzz.target import FOUND, TARGETS, Target
from tests.fuzz.targets import load
from tests.fuzz.watched import watched

load()
CASES = 25
"""Inputs of each target in a fast run."""
SEED = 1
NAMES = sorted(TARGETS)


@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_returns_or_refuses(name: str) -> None:
    result = Fuzzer(TARGETS[name], SEED).run(CASES, seconds=8)
    assert {what: finding.trace for what, finding in result.findings.items()} == {}
    assert result.decoded >= 1


@pytest.mark.reliability("C2", load="every decoder, four seconds each")
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.nightly
def test_a_decoder_keeps_the_rule_for_four_seconds(name: str) -> None:
    result = watched(TARGETS[name], SEED + 1, 10**9, 4, None)
    found = {what: (finding.input[:200], finding.trace) for what, finding in result.findings.items()}
    assert found == {}, f"python -m tests.fuzz {name} --seed {result.seed}"


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
    result = watched(_made("slow", decode, tmp_path, monkeypatch, seconds=0.05), 1, 40, None, None)

    assert set(result.findings) == {"took more than 0.05 s", "took more than 64 MB"}


def test_an_input_that_kills_the_process_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(data: bytes) -> None:
        if b"]" not in data:
            os._exit(7)

    result = watched(_made("deadly", decode, tmp_path, monkeypatch), 1, 1000, None, None)

    (finding,) = result.findings.values()
    assert finding.what == "the process ended with 7"
    assert b"]" not in finding.input


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
    assert 0 < row["lines_reached"] < row["lines"]


def test_a_target_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frames"]) == 2
    assert 'There is no target "frames"' in capsys.readouterr().err


def test_a_protobuf_comes_back_as_it_was_and_a_changed_one_has_the_right_lengths() -> None:
    draw = random.Random(1)
    different = set()
    for data in TARGETS["onnx"].seeds():
        assert encode(parse(data)) == data
        for _ in range(50):
            other = changed(data, draw)
            different.add(other)
            parse(other)
    assert len(different) > 50
