"""The check-up of a board: each finding is a verdict and a sentence, also where things are missing."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from auricle.errors import DataError
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.process.checkup import Finding, clock, disk, finding
from auricle_edge.board.gate import Readings, Throttling
from auricle_edge.listening.assist.settings import LEAST_PYTHON, AssistSettings
from auricle_edge.listening.events.outputs import EventSettings
from auricle_edge.service import checkup
from auricle_edge.service.checkup import Heard, examine_board, examine_home, examine_microphone, verdict_of

TONE = (8000 * np.sin(np.arange(16000) / 10)).astype(np.int16)
FLAGS = {"x86_64": "flags : fpu avx2 fma", "aarch64": "Features : fp asimd"}[platform.machine()]


def board(root: Path, flags: str = FLAGS, free: int = 4_000_000) -> Path:
    """A file tree like that of a board with two cores."""
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(f"processor : 0\n{flags}\nprocessor : 1\n{flags}\n")
    (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:   {free} kB\n")
    return root


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {found.check: found for found in findings}


def test_a_sound_board_has_a_sentence_for_each_check(tmp_path: Path) -> None:
    found = by_name(
        examine_board(board(tmp_path), tmp_path, lambda: load_pack("gsc12"), lambda: Readings(temperature=41.0), None)
    )
    assert {name for name, each in found.items() if each.verdict == "bad"} == set()
    for check, said in (("processor", "2 cores"), ("pack", "10 words"), ("sensors", "41.0")):
        assert said in found[check].sentence


def test_what_is_missing_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    nowhere = BrokerAddress("127.0.0.1", 1)
    found = examine_board(tmp_path, tmp_path, lambda: load_pack("no-such-pack"), Readings, nowhere, now=lambda: 0.0)
    bad = {each.check for each in found if each.verdict == "bad"}
    assert bad == {"processor", "memory", "pack", "clock", "broker"}
    assert verdict_of(found) == 1


def test_a_processor_without_vectors_is_doubtful(tmp_path: Path) -> None:
    verdict, sentence = checkup.processor(board(tmp_path, flags="flags : fpu"))
    assert verdict == "doubtful"
    assert "slower" in sentence


def test_throttling_is_told_by_its_meaning() -> None:
    now = checkup.sensors(Readings(temperature=80.0, power="mains", throttling=Throttling.of(0x50005)))
    assert now[0] == "bad" and "under-voltage" in now[1]
    assert checkup.sensors(Readings(throttling=Throttling.of(0x50000)))[0] == "doubtful"


@pytest.mark.parametrize(
    ("samples", "check", "verdict"),
    [
        (TONE, "level", "good"),
        (TONE // 4000, "level", "doubtful"),
        (np.zeros(16000, np.int16), "level", "bad"),
        (np.clip(TONE.astype(int) * 8, -32768, 32767).astype(np.int16), "clipping", "doubtful"),
        (TONE, "clipping", "good"),
    ],
    ids=["tone", "whisper", "zeros", "distorted", "undistorted"],
)
def test_a_few_seconds_of_sound_are_judged(samples: np.ndarray, check: str, verdict: str) -> None:
    found = by_name(examine_microphone(lambda: Heard("USB", 48000, 2, samples), lambda _: True))
    assert found["microphone"].sentence == "USB gives sound at 48000 Hz, 2 channels."
    assert found[check].verdict == verdict


def test_without_a_microphone_nothing_else_is_said_of_it() -> None:
    def none() -> Heard:
        raise DataError("There is no microphone.")

    (found,) = examine_microphone(none, lambda _: True)
    assert (found.check, found.verdict, found.sentence) == ("microphone", "bad", "There is no microphone.")


def test_clock_and_disk() -> None:
    assert clock(1e9)[0] == "bad"
    assert clock(1.8e9)[0] == "good"
    assert disk(Path("/"), 1 << 60)[0] == "bad"
    assert finding("x", lambda: "fine").verdict == "good"


@pytest.mark.parametrize(
    ("told", "verdict", "word"),
    [
        ({}, None, ""),
        ({"mqtt": "mqtts://hub.lan", "wyoming": "tcp://127.0.0.1:10400"}, "good", "encrypted"),
        ({"mqtt": "mqtt://hub.lan"}, "bad", "mqtt_plain"),
        ({"mqtt": "mqtt://hub.lan", "mqtt_plain": True}, "doubtful", "unencrypted"),
        ({"wyoming": "tcp://0.0.0.0:10400"}, "bad", "wyoming_network"),
        ({"wyoming": "udp://x"}, "bad", "tcp"),
        ({"listen": "tcp://0.0.0.0:6053"}, "bad", "key_file"),
        pytest.param(
            {"listen": "tcp://0.0.0.0:6053", "plain": True, "player": []},
            "doubtful",
            "unencrypted",
            marks=pytest.mark.skipif(sys.version_info < LEAST_PYTHON, reason="there is no aioesphomeapi for it"),
        ),
        ({"listen": "tcp://127.0.0.1:6053", "player": ["no-such-player"]}, "bad", "assist.player"),
    ],
)
def test_what_the_service_would_refuse_to_tell_the_home_is_a_finding(
    told: dict[str, object], verdict: str | None, word: str
) -> None:
    told, assist = ({}, told) if "listen" in told else (told, {})
    found = examine_home(msgspec.convert(told, EventSettings), msgspec.convert(assist, AssistSettings))
    assert [each.verdict for each in found] == ([] if verdict is None else [verdict])
    assert all(word in each.sentence for each in found)
