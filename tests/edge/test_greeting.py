"""What a device says of the words it listens for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.packs.pack import SHIPPED, load_pack
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.service.status import OTHER_WORDS, awaited, listed, other_words

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


def test_the_default_pack_waits_for_one_of_two_words_and_then_hears_commands() -> None:
    home = load_pack("home")
    heard = awaited(home.labels, detect_settings(DetectTable(), home))
    assert (heard.wake, heard.commands, heard.window) == (("computer", "jarvis"), COMMANDS, 3.0)


@pytest.mark.parametrize(
    ("pack", "table", "first", "last"),
    [
        ("home", DetectTable(), '"computer" or "jarvis" first, then hears for 3 s: yes', "stop or go."),
        ("home", DetectTable(wake=()), "computer, jarvis, yes, ", "go."),
        (
            "home",
            DetectTable(wake=("jarvis",), window=2.5),
            '"jarvis" first, then hears for 2.5 s: computer, yes',
            "go.",
        ),
        ("digits", DetectTable(), "zero", "eight or nine."),
    ],
    ids=range(4),
)
def test_what_it_waits_for_is_a_sentence(pack: str, table: DetectTable, first: str, last: str) -> None:
    labels = load_pack(pack).labels
    said = awaited(labels, detect_settings(table, load_pack(pack))).sentence
    assert said.startswith(first) and said.endswith(last)


def test_words_in_a_sentence() -> None:
    assert [listed(("a", "b", "c")[:count]) for count in range(4)] == ["", "a", "a or b", "a, b or c"]


def test_how_to_hear_other_words_is_said_to_who_chose_none() -> None:
    assert other_words("home") == OTHER_WORDS
    assert other_words("digits") is None
    assert OTHER_WORDS.partition("--pack ")[2].split()[0] in SHIPPED


@pytest.fixture
def quiet(tmp_path: Path) -> str:
    soundfile.write(tmp_path / "quiet.wav", np.random.default_rng(0).normal(0, 1e-4, 8000), 16_000)
    return f"file:{tmp_path / 'quiet.wav'}"


def greeted(state: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = f"-m auricle edge run --device kitchen-1 --state {state} --source {source}".split()
    return subprocess.run([sys.executable, *command, *options], capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.slow
def test_a_device_that_was_told_no_pack_says_what_it_waits_for(tmp_path: Path, quiet: str) -> None:
    said = greeted(tmp_path / "a", quiet).stderr.splitlines()
    assert f'kitchen-1 listens to {quiet} for "computer" or "jarvis"' in said[0] and said[1] == OTHER_WORDS
    told = json.loads(greeted(tmp_path / "b", quiet, "--local", "resnet-base", "--json").stdout.splitlines()[0])
    wake = ["computer", "jarvis"]
    expected = {"pack": load_pack("home").identity, "pack_name": "home", "wake": wake, "commands": list(COMMANDS)}
    expected |= {"window": 3.0, "words": [*wake, *COMMANDS], "other_words": OTHER_WORDS, "model": "cascade"}
    assert told | expected | {"own_model": "resnet-base"} == told
