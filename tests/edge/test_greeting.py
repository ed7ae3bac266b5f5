"""What a device says of the words it listens for, and of those it heard."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.packs.pack import load_pack
from auricle.packs.shipped import SHIPPED
from auricle.speech.sound_faults import SoundFault
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.service.process import UNTRAINED
from auricle_edge.service.status import OTHER_WORDS, awaited_words, list_words, other_words

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


def test_the_default_pack_waits_for_one_of_two_words_and_then_hears_commands() -> None:
    home = load_pack("home")
    heard = awaited_words(home.labels, detect_settings(DetectTable(), home))
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
    said = awaited_words(labels, detect_settings(table, load_pack(pack))).sentence
    assert said.startswith(first) and said.endswith(last)


def test_words_in_a_sentence() -> None:
    assert [list_words(("a", "b", "c")[:count]) for count in range(4)] == ["", "a", "a or b", "a, b or c"]


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


def at_terminal(state: Path, source: str, *options: str) -> list[str]:
    """The lines that a terminal of unknown width shows of a run."""
    master, terminal = os.openpty()
    command = f"-m auricle edge run --device kitchen-1 --state {state} --source {source}".split()
    with subprocess.Popen([sys.executable, *command, *options], stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        output = b""
        with suppress(OSError):  # the terminal is gone once nobody holds it
            while piece := os.read(master, 4096):
                output += piece
        assert process.wait(60) == 0, output
    os.close(master)
    return output.decode().splitlines()


@pytest.mark.slow
def test_a_person_at_a_terminal_reads_time_words_and_score(tmp_path: Path) -> None:
    """Synthetic voices say the wake word with a command, and the wake word alone."""
    speech = synthesise(SynthesisSettings(words="computer,stop", speakers=4, takes=2))
    clips = {label: speech.audio[speech.targets == target][4] for target, label in enumerate(speech.labels)}
    rng = np.random.default_rng(0)
    scene = [rng.normal(0, 20, round(seconds * 16_000)) for seconds in (2.0, 0.3, 2.0)]
    parts = (scene[0], clips["computer"], scene[1], clips["stop"], scene[2], clips["computer"], scene[1])
    soundfile.write(tmp_path / "room.wav", np.concatenate(parts).astype(np.int16), 16_000)
    words, others, *events = at_terminal(tmp_path / "state", f"file:{tmp_path / 'room.wav'}")
    assert '"computer" or "jarvis"' in words and others == OTHER_WORDS
    forms = (r"computer  0\.\d\d", r"computer -> stop  0\.\d\d", r"computer  0\.\d\d", r"computer -> \(no command\)")
    for line, form in zip(events, forms, strict=True):
        assert re.fullmatch(rf"[012]\d:[0-5]\d:[0-5]\d  {form}", line), events


@pytest.mark.slow
def test_a_terminal_is_told_of_models_and_runtimes_when_asked_and_of_an_untrained_model_always(
    tmp_path: Path, quiet: str
) -> None:
    usual = at_terminal(tmp_path / "a", quiet, "--start", "scratch")
    assert len(usual) == 3 and (usual[0], usual[2]) == (UNTRAINED.format(pack="home"), OTHER_WORDS)
    verbose = at_terminal(tmp_path / "b", quiet, "--start", "scratch", "--verbose")
    assert [line for line in verbose if line in usual] == usual
    assert "Runtime " not in " ".join(usual) and "Runtime " in " ".join(verbose)
    (facts,) = at_terminal(tmp_path / "c", quiet, "--json")
    assert json.loads(facts)["wake"] == ["computer", "jarvis"]


@pytest.mark.slow
def test_files_of_a_source_that_are_passed_over_are_counted_at_its_end(tmp_path: Path) -> None:
    """By the reasons that all commands have, with an example: a table for a person, else a line of JSON."""
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    soundfile.write(sounds / "a.wav", np.random.default_rng(0).normal(0, 1e-4, 8000), 16_000)
    for name in ("b.wav", "c.wav"):
        (sounds / name).write_text("text")
    (sounds / "d.wav").write_bytes((sounds / "a.wav").read_bytes()[:4_000])
    source = f"folder:{sounds}?pace=fast"
    said = greeted(tmp_path / "one", source).stderr.splitlines()
    table = said[said.index("  files  what was found") :]
    assert table[1] == f"      2  not used: {SoundFault.FORMAT.value}"
    assert f"      1  not used: {SoundFault.CUT.value}" in table
    told = json.loads(greeted(tmp_path / "two", source, "--json").stdout.splitlines()[-1])
    assert (told["type"], told["device"], told["skipped_files"]) == ("findings", "kitchen-1", 3)
    counts = [(row["reason"], row["files"], row["is_used"]) for row in told["findings"]]
    assert counts == [(SoundFault.FORMAT.value, 2, False), (SoundFault.CUT.value, 1, False)]
    assert all(str(sounds) in row["example"] for row in told["findings"])
