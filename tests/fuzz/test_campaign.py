"""A campaign does what is left, whatever interrupted it, and no target twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.campaign import MOST_ENDED, Campaign, Record
from tests.fuzz.run import BATCH
from tests.fuzz.table import PAGE, page, read_recorded, table
from tests.fuzz.target import TARGETS, Target
from tests.fuzz.targets import load
from tests.recorder import Record as Writer

load()
CHECKOUT = Path(__file__).parents[2]


def _campaign(folder: Path, cases: int, command: str = "first") -> Campaign:
    return Campaign(folder=folder, seed=7, cases=cases, seconds=None, command=command, kept=folder / "kept")


def _records(campaign: Campaign, targets: Sequence[Target]) -> list[Record]:
    return [campaign.read(target) for target in targets]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Target]:
    """Targets of this test alone."""

    def make(name: str, decode: Callable[[bytes], object]) -> Target:
        monkeypatch.setattr("tests.fuzz.target.CORPUS", tmp_path / "corpus")
        target = Target(name, decode, ("json",), dict, refusals=(ValueError,))
        target.corpus.mkdir(parents=True)
        (target.corpus / "one").write_bytes(b"one and two")
        monkeypatch.setitem(TARGETS, name, target)
        return target

    return make


def test_what_was_interrupted_goes_on_with_the_inputs_of_one_that_was_not(
    tmp_path: Path, made: Callable[..., Target]
) -> None:
    seen = tmp_path / "seen"

    def decode(data: bytes) -> int:
        with seen.open("ab") as file:
            file.write(data.hex().encode() + b"\n")
        return len(data)

    target = made("seen", decode)
    inputs = []
    for name, parts in (("whole", [3 * BATCH]), ("parts", [BATCH, 2 * BATCH, 3 * BATCH])):
        seen.unlink(missing_ok=True)
        for part in parts:
            _campaign(tmp_path / name, part, str(part)).work([target])
        inputs.append(seen.read_bytes().splitlines())
    whole, parts = (_campaign(tmp_path / name, 1).read(target) for name in ("whole", "parts"))

    assert inputs[0] == inputs[1]
    assert len(inputs[0]) == 3 * BATCH
    assert (whole.cases, whole.decoded, whole.places) == (parts.cases, parts.decoded, parts.places)
    assert (whole.resumes, parts.resumes) == (0, 2)


def test_workers_share_targets_and_do_none_of_them_twice(tmp_path: Path, made: Callable[..., Target]) -> None:
    targets = [made(f"target-{number}", lambda data: len(data)) for number in range(4)]
    campaign = _campaign(tmp_path / "campaign", BATCH + 50)

    campaign.work(targets, 3)

    records = _records(campaign, targets)
    assert [(record.cases, record.decoded, record.resumes) for record in records] == [(BATCH + 50, BATCH + 50, 0)] * 4
    assert "4 targets, 4,200 inputs" in table(records)


def test_a_target_whose_process_ends_goes_on_and_is_left_in_the_end(
    tmp_path: Path, made: Callable[..., Target]
) -> None:
    def decode(data: bytes) -> None:
        if len(data) > 30:
            os._exit(7)

    target = made("deadly", decode)
    campaign = _campaign(tmp_path / "campaign", 100 * BATCH)

    campaign.work([target])

    (record,) = _records(campaign, [target])
    (found,) = record.findings
    assert (found.what, found.times) == ("the process ended with 7", MOST_ENDED)
    assert MOST_ENDED <= record.cases < 100 * BATCH
    assert len(Path(found.input).read_bytes()) == found.length > 30
    assert "FOUND by deadly: the process ended with 7, 10 times" in table([record])


def test_seconds_of_a_target_are_over_at_once_where_they_were_used_before(
    tmp_path: Path, made: Callable[..., Target]
) -> None:
    target = made("quick", lambda data: len(data))
    campaign = replace(_campaign(tmp_path / "campaign", 10**9), seconds=0.2)

    for _ in range(2):
        campaign.work([target])
        record = campaign.read(target)

    assert 0.2 <= record.seconds < 10
    assert record.resumes == 0


def test_a_file_that_is_no_record_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "frame.json").write_text("[]")
    assert main(["frame", "--campaign", str(tmp_path)]) == 2
    assert "frame.json is no record of a campaign: Expected `object`" in capsys.readouterr().err


@pytest.mark.reliability("C2", load="every decoder, as many inputs as fuzzing.md has; a million is the aim")
def test_the_page_is_of_what_was_recorded(record_property: Writer) -> None:
    recorded = read_recorded()

    record_property("inputs", min(record.cases for record in recorded))
    record_property("exceptions", sum(len(record.findings) for record in recorded))
    assert PAGE.read_text(encoding="utf-8") == page(recorded), "python -m tests.fuzz --campaign FOLDER --page"
    assert not [record for record in recorded if record.findings]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_killed_leaves_a_campaign_that_goes_on(tmp_path: Path, sent: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "public-key", "partitions", "--campaign", str(tmp_path), "--quiet"]
    with subprocess.Popen([*command, "--cases", "1000000000", "--workers", "2"], cwd=CHECKOUT) as run:
        while len([path for path in tmp_path.glob("*.json") if b'"cases": 1000' in path.read_bytes()]) < 2:
            assert run.poll() is None
        run.send_signal(sent)
    done = subprocess.run([*command, "--cases", "2000"], cwd=CHECKOUT, capture_output=True, text=True, check=True)

    assert "2 targets, 4,000 inputs" in done.stdout
    assert all(b'"resumes": 1' in path.read_bytes() for path in tmp_path.glob("*.json"))
