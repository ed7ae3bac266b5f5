"""A line a round on disk, whole after any crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auricle.errors import StorageError
from auricle_fleet.results.metrics import Metrics, write_summary


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]


def test_lines_are_appended_and_read_again(tmp_path: Path) -> None:
    first = Metrics(tmp_path)
    first.add({"round": 1, "seconds": 0.5})
    first.add({"round": 2, "seconds": None})

    second = Metrics(tmp_path)
    second.add({"round": 3, "seconds": 1.0})

    assert lines(tmp_path) == second.rounds == [*first.rounds, {"round": 3, "seconds": 1.0}]
    assert Metrics(tmp_path / "empty").rounds == []


def test_a_repeated_round_replaces_its_line(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    metrics.add({"round": 1, "counted": 2})
    metrics.add({"round": 2, "counted": 1})

    metrics.add({"round": 2, "counted": 3})

    assert lines(tmp_path) == metrics.rounds == [{"round": 1, "counted": 2}, {"round": 2, "counted": 3}]


def test_after_a_cut_at_any_byte_the_run_goes_on(tmp_path: Path) -> None:
    whole = [{"round": 1, "left_out": {"conv": ["dev-ä"]}}, {"round": 2, "left_out": {"conv": {}}}]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in whole).encode()
    end_of_first = text.index(b"\n") + 1
    for cut in range(len(text) + 1):
        (tmp_path / "metrics.jsonl").write_bytes(text[:cut])

        metrics = Metrics(tmp_path)
        survived = list(metrics.rounds)
        metrics.add({"round": 3})

        assert survived == whole[: (cut >= end_of_first) + (cut == len(text))]
        assert lines(tmp_path) == [*survived, {"round": 3}]


@pytest.mark.parametrize("noise", [b"\xff\xfe\n", b"[]\n", b"3\n", b"{}\n", b"\n", b'{"round": 1'])
def test_lines_that_are_none_are_dropped(tmp_path: Path, noise: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"round": 1}\n' + noise)

    metrics = Metrics(tmp_path)
    metrics.add({"round": 2})

    assert lines(tmp_path) == [{"round": 1}, {"round": 2}]


def test_a_folder_that_is_gone_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        Metrics(tmp_path / "gone").add({"round": 1})


def test_a_summary_is_whole(tmp_path: Path) -> None:
    write_summary(tmp_path, {"rounds": 1, "central_accuracy_unseen": None})
    write_summary(tmp_path, {"rounds": 2, "central_accuracy_unseen": 0.5})

    assert json.loads((tmp_path / "summary.json").read_text()) == {"rounds": 2, "central_accuracy_unseen": 0.5}
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]
