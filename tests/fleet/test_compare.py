"""Runs side by side."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auricle.errors import DataError, StorageError
from auricle.process.cli import main
from auricle_cloud.settings import Detection
from auricle_fleet.results.compare import compare, rows
from auricle_fleet.results.metrics import write_rounds
from auricle_fleet.results.result import RoundRow, Summary
from auricle_fleet.settings.fleet_settings import FleetSettings


def run_at(folder: Path, accuracy: float | None, words: tuple[str, ...] = ("yes", "no"), **told: Any) -> Path:
    """A run's folder with what `compare` reads of it."""
    folder.mkdir()
    FleetSettings(**told).save(folder)
    blank: dict[str, Any] = {
        name: {
            "words": list(words),
            "rates": {},
            "rounds": 3,
            "plugin_accuracy_unseen": accuracy,
            "bytes_up": 2000,
        }.get(name, None if "accuracy" in name or "false" in name else 0)
        for name in Summary.__struct_fields__
    }
    texts = ("start", "rule", "preset", "pack", "version")
    blank |= dict.fromkeys(texts, "x") | dict.fromkeys(("judge", "interrupted", "heard_before"), False)
    blank["confusion"] = None
    summary = msgspec.convert(blank, Summary)
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary))
    return folder


def test_seeds_of_one_setting_are_one_row_and_the_best_stands_first(tmp_path: Path) -> None:
    folders = [
        run_at(tmp_path / "a", 0.70, seed=0, rule="fedavg"),
        run_at(tmp_path / "b", 0.80, seed=1, rule="fedavg"),
        run_at(tmp_path / "c", 0.90, seed=0, rule="lpa"),
        run_at(tmp_path / "d", None, seed=0, rule="krum"),
    ]
    best, two, none = compare(folders)
    assert (best.runs, best.told) == (("c",), {"rule": "lpa"})
    assert best.unseen is not None and best.unseen.mean == 0.9 and best.unseen.deviation is None
    assert (two.runs, two.seeds) == (("a", "b"), (0, 1))
    assert two.unseen is not None and two.unseen.mean == pytest.approx(0.75)
    assert two.unseen.deviation == pytest.approx(0.0707, abs=1e-4) and (two.unseen.least, two.unseen.most) == (0.7, 0.8)
    assert none.unseen is None


def test_the_command_prints_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(run_at(tmp_path / name, 0.5, seed=seed)) for seed, name in enumerate("ab")]
    assert main(["fleet", "compare", *folders]) == 0
    assert "50.0 ± 0.0 %" in capsys.readouterr().out
    assert main(["fleet", "compare", *folders, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["seeds"] == [0, 1]


def test_of_a_table_only_what_differs_is_shown(tmp_path: Path) -> None:
    usual = run_at(tmp_path / "a", 0.5)
    other = run_at(tmp_path / "b", 0.4, detect=True, detection=Detection(margin=0.05), rule="median")

    told = [row[1] for row in rows(compare([usual, other]))]

    assert told == [
        "rule=default, detect=false, detection.margin=0.01",
        "rule=median, detect=true, detection.margin=0.05",
    ]


def test_the_folder_one_is_in_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run_at(tmp_path / "here", 0.5))

    assert compare([Path()])[0].runs == ("here",)


def test_a_row_of_csv_for_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.csv"
    folders = [
        str(run_at(tmp_path / "a", 0.5, seed=0, rule="lpa", participation=0.5)),
        str(run_at(tmp_path / "b", None, seed=1, rule="lpa", rule_options={"prune_high": 0.2})),
    ]

    assert main(["fleet", "compare", *folders, "--csv", str(file)]) == 0

    assert "runs" in capsys.readouterr().out
    one, two = csv.DictReader(file.open())
    assert (one["run"], two["run"]) == tuple(folders)
    assert (one["participation"], two["participation"]) == ("0.5", "1.0")
    assert (one["plugin_accuracy_unseen"], two["plugin_accuracy_unseen"]) == ("0.5", "")
    assert (one["rule_options.prune_high"], two["rule_options.prune_high"]) == ("", "0.2")
    assert (one["rounds"], one["judge"]) == ("3", "no")
    assert main(["fleet", "compare", *folders, "--csv", str(tmp_path)]) != 0
    assert "is a folder: name a file for the table" in capsys.readouterr().err
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a", target_is_directory=True)
    assert main(["fleet", "compare", *folders, "--csv", str(link)]) != 0
    assert link.is_symlink()


def test_rounds_as_csv(tmp_path: Path) -> None:
    line: dict[str, Any] = dict.fromkeys(RoundRow.__struct_fields__, 1)
    line |= {"state": "published", "plugin_accuracy_unseen": None, "refused": ["dev-a", "dev-b"], "bounded": []}
    line |= {"personal": {"dev-a": 0.5}, "alarm": True, "harmful": [], "left_out": None, "groups": None}

    write_rounds(tmp_path / "metrics.csv", [msgspec.convert(line, RoundRow)])

    (row,) = csv.DictReader((tmp_path / "metrics.csv").open())
    assert (row["round"], row["plugin_accuracy_unseen"], row["alarm"]) == ("1", "", "yes")
    assert (row["refused"], row["bounded"]) == ("dev-a dev-b", "")
    assert "personal" not in row and "left_out" not in row


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    one = run_at(tmp_path / "a", 0.5)
    with pytest.raises(DataError, match="other words"):
        compare([one, run_at(tmp_path / "b", 0.5, words=("up",))])
    with pytest.raises(StorageError, match=r"no settings\.json in it\.$"):
        compare([one, tmp_path / "nothing"])
    with pytest.raises(StorageError, match=r"no settings\.json in it; there are runs in it, such as .*/b\.$"):
        compare([tmp_path])
    (one / "summary.json").write_text("{")
    with pytest.raises(StorageError, match="damaged, or of another version: auricle fleet run --resume"):
        compare([one])
    (one / "summary.json").unlink()
    with pytest.raises(StorageError, match="no run that has ended"):
        compare([one])
