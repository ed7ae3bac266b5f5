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
from auricle_edge.service.status import OTHER_WORDS, awaited, listed, other_words, quoted

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


def test_the_default_pack_waits_for_one_of_two_words_and_then_hears_commands() -> None:
    home = load_pack("home")
    heard = awaited(home.labels, detect_settings(DetectTable(), home))
    assert (heard.wake, heard.commands, heard.window) == (("computer", "jarvis"), COMMANDS, 3.0)
    assert heard.sentence == (
        '"computer" or "jarvis" first, then hears for 3 s: yes, no, up, down, left, right, on, off, stop or go.'
    )


def test_settings_over_the_packs_are_what_is_said() -> None:
    home = load_pack("home")
    always = awaited(home.labels, detect_settings(DetectTable(wake=()), home))
    assert always.wake == () and always.sentence.startswith("computer, jarvis, yes, ")
    one = awaited(home.labels, detect_settings(DetectTable(wake=("jarvis",), window=2.5), home))
    assert one.sentence.startswith('"jarvis" first, then hears for 2.5 s: computer, yes, ')


def test_a_pack_without_wake_words_is_a_list_of_words() -> None:
    digits = load_pack("digits")
    assert awaited(digits.labels, detect_settings(DetectTable(), digits)).sentence.endswith("eight or nine.")


def test_words_in_a_sentence() -> None:
    assert [listed(("a", "b", "c")[:count]) for count in range(4)] == ["", "a", "a or b", "a, b or c"]
    assert quoted(("a", "b")) == '"a" or "b"'


def test_how_to_hear_other_words_is_said_to_who_chose_none() -> None:
    assert other_words("home") == OTHER_WORDS
    assert other_words("digits") is None
    assert OTHER_WORDS.partition("--pack ")[2].split()[0] in SHIPPED


@pytest.fixture
def quiet(tmp_path: Path) -> str:
    """A short recording to listen to."""
    soundfile.write(tmp_path / "quiet.wav", np.random.default_rng(0).normal(0, 1e-4, 8000), 16_000)
    return f"file:{tmp_path / 'quiet.wav'}"


def greeted(state: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "auricle",
            "edge",
            "run",
            "--device",
            "kitchen-1",
            "--state",
            str(state),
            "--source",
            source,
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


@pytest.mark.slow
def test_a_device_that_was_told_no_pack_says_what_it_waits_for(tmp_path: Path, quiet: str) -> None:
    """Also with the larger own model in its settings, which its pack brings trained and as second stage."""
    said = greeted(tmp_path / "a", quiet).stderr.splitlines()
    assert said[0] == (
        f'kitchen-1 listens to {quiet} for "computer" or "jarvis" first, then hears for 3 s: yes, no, up, down, left, '
        "right, on, off, stop or go."
    )
    assert said[1] == OTHER_WORDS

    told = json.loads(greeted(tmp_path / "b", quiet, "--local", "resnet-base", "--json").stdout.splitlines()[0])
    assert (told["pack"], told["pack_name"]) == (load_pack("home").identity, "home")
    assert (told["wake"], told["window"], told["commands"]) == (["computer", "jarvis"], 3.0, list(COMMANDS))
    assert told["words"] == [*told["wake"], *told["commands"]] and told["other_words"] == OTHER_WORDS
    assert told["model"] == "cascade"
    assert told["own_model"] == "resnet-base"
