"""A line a round on disk, whole after any crash, and runs side by side."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fleet.ended_run import line, summary

from auricle.errors import DataError, StorageError
from auricle.process.cli import main
from auricle_cloud.settings import Detection
from auricle_fleet.results.compare import compare, rows
from auricle_fleet.results.metrics import Metrics, write_rounds, write_summary
from auricle_fleet.settings.fleet_settings import FleetSettings


def run_at(folder: Path, accuracy: float | None, words: tuple[str, ...] = ("yes", "no"), **told: Any) -> Path:
    """A run's folder with what `compare` reads of it."""
    folder.mkdir()
    FleetSettings(**told).save(folder)
    about = summary(plugin_accuracy_unseen=accuracy, words=words, rounds=3)
    (folder / "summary.json").write_bytes(msgspec.json.encode(about))
    return folder


def test_seeds_of_one_setting_are_one_row_and_the_best_stands_first(tmp_path: Path) -> None:
    folders = [
        run_at(tmp_path / "a", 0.70, seed=0, method="fedavg"),
        run_at(tmp_path / "b", 0.80, seed=1, method="fedavg"),
        run_at(tmp_path / "c", 0.90, seed=0, method="lpa"),
        run_at(tmp_path / "d", None, seed=0, method="krum"),
    ]
    best, two, none = compare(folders)
    assert (best.runs, best.told) == (("c",), {"method": "lpa"})
    assert best.unseen is not None and best.unseen.mean == 0.9 and best.unseen.deviation is None
    assert (two.runs, two.seeds) == (("a", "b"), (0, 1))
    assert two.unseen is not None and two.unseen.mean == pytest.approx(0.75)
    assert two.unseen.deviation == pytest.approx(0.0707, abs=1e-4) and (two.unseen.least, two.unseen.most) == (0.7, 0.8)
    assert none.unseen is None
    assert any("75.0 ± 7.1 %" in row for row in rows(compare(folders)))


def test_of_a_table_only_what_differs_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = run_at(tmp_path / "a", 0.5)
    other = run_at(tmp_path / "b", 0.4, detect=True, detection=Detection(margin=0.05), method="median")
    assert [row[1] for row in rows(compare([usual, other]))] == [
        "method=default, detect=false, detection.margin=0.01",
        "method=median, detect=true, detection.margin=0.05",
    ]
    monkeypatch.chdir(usual)
    assert compare([Path()])[0].runs == ("a",)


def test_a_row_of_csv_for_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.csv"
    folders = [
        str(run_at(tmp_path / "a", 0.5, seed=0, method="lpa", participation=0.5)),
        str(run_at(tmp_path / "b", None, seed=1, method="lpa", method_options={"prune_high": 0.2})),
    ]
    assert main(["fleet", "compare", *folders, "--csv", str(file)]) == 0
    assert "50.0 %" in capsys.readouterr().out
    one, two = csv.DictReader(file.open())
    assert (one["run"], two["run"]) == tuple(folders)
    assert (one["participation"], two["participation"]) == ("0.5", "1.0")
    assert (one["plugin_accuracy_unseen"], two["plugin_accuracy_unseen"]) == ("0.5", "")
    assert (one["method_options.prune_high"], two["method_options.prune_high"]) == ("", "0.2")
    assert (one["rounds"], one["judge"], one["rule"]) == ("3", "no", "lpa")
    assert main(["fleet", "compare", *folders, "--csv", str(tmp_path)]) != 0
    assert "is a folder" in capsys.readouterr().err
    assert main(["fleet", "compare", *folders, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["seeds"] == [0]
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a", target_is_directory=True)
    assert main(["fleet", "compare", *folders, "--csv", str(link)]) != 0
    assert link.is_symlink()


def test_rounds_as_csv(tmp_path: Path) -> None:
    told = {"plugin_accuracy_unseen": None, "refused": ["dev-a", "dev-b"], "personal": {"dev-a": 0.5}, "alarm": True}
    write_rounds(tmp_path / "metrics.csv", [line(1, **told)])
    (row,) = csv.DictReader((tmp_path / "metrics.csv").open())
    assert (row["round"], row["plugin_accuracy_unseen"], row["alarm"]) == ("1", "", "yes")
    assert (row["refused"], row["bounded"]) == ("dev-a dev-b", "")
    assert "personal" not in row and "left_out" not in row


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    one = run_at(tmp_path / "a", 0.5)
    with pytest.raises(DataError, match="other words"):
        compare([one, run_at(tmp_path / "b", 0.5, words=("up",))])
    with pytest.raises(StorageError, match="settings"):
        compare([one, tmp_path / "nothing"])
    with pytest.raises(StorageError, match=r"such as .*/b\.$"):
        compare([tmp_path])
    (one / "summary.json").write_text("{")
    with pytest.raises(StorageError, match="damaged"):
        compare([one])
    (one / "summary.json").unlink()
    with pytest.raises(StorageError, match="ended"):
        compare([one])


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]


def test_lines_are_appended_and_read_again(tmp_path: Path) -> None:
    first = Metrics(tmp_path)
    first.add({"round": 1, "seconds": 0.5})
    first.add({"round": 2, "seconds": None})
    second = Metrics(tmp_path)
    second.add({"round": 3, "seconds": 2.0})
    second.add({"round": 3, "seconds": 1.0})  # in its place
    assert lines(tmp_path) == second.rounds == [*first.rounds, {"round": 3, "seconds": 1.0}]
    assert Metrics(tmp_path / "empty").rounds == []


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
