"""What a suite's file says: which runs it asks for, with which settings, and what it may not say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group, Trace
from auricle_fleet.settings.partition import Partition
from auricle_fleet.suite.fingerprint import fingerprint
from auricle_fleet.suite.folder import SuiteFolder
from auricle_fleet.suite.plan import SHIPPED, cells, read_suite, shipped
from auricle_fleet.suite.sizes import full_size, narrowed
from auricle_fleet.suite.tuning import every_try, first_tries

TEXT = """
seeds = [3, 4]
[settings]
words = "yes,no"
rounds = 5
method = "multi-krum"
method_options = { harmful = 0.2 }
[[methods]]
name = "Multi-Krum"
[[methods]]
name = "mean"
settings = { method = "fedavg", method_options = {} }
[[conditions]]
name = "clean"
[[conditions]]
name = "slow & noisy"
settings = { rounds = 7, groups = [{ name = "noisy", noise_db = 5.0 }] }
"""

A = "[[methods]]\nname = 'a'\n"
TUNES = "[tuning]\nsetting = 'rate'\nvalues = [0.1, 1.0]\nseed = 9\n"


def file(folder: Path, text: str) -> str:
    path = folder / "suite.toml"
    path.write_text(text)
    return str(path)


def test_every_method_runs_in_every_condition_with_every_seed(tmp_path: Path) -> None:
    text = TEXT.replace('method = "multi-krum"\nmethod_options = { harmful = 0.2 }\n', "")
    suite, path = read_suite(file(tmp_path, text))
    found = cells(suite, str(path))
    assert [(cell.method, cell.condition, cell.seed) for cell in found] == [
        (method, condition, seed)
        for seed in (3, 4)
        for condition in ("clean", "slow & noisy")
        for method in ("Multi-Krum", "mean")
    ]
    assert [cell.settings.rounds for cell in found] == [5, 5, 7, 7] * 2
    assert {cell.settings.engine for cell in found} == {"virtual"}
    assert [cell.settings.seed for cell in found] == [3] * 4 + [4] * 4
    assert [len(cell.settings.groups) for cell in found] == [0, 0, 1, 1] * 2
    assert found[3].settings.method == "fedavg" and found[2].settings.method is None
    assert len({cell.name for cell in found}) == 8
    assert found[3].name == "mean-slow-noisy-s3"


def test_tables_of_settings_are_put_over_each_other_name_by_name(tmp_path: Path) -> None:
    text = "[settings.limits]\nsamples = 7\n[[methods]]\nname = 'a'\n[methods.settings.limits]\nloss = 9.0\n"
    suite, path = read_suite(file(tmp_path, text))
    limits = cells(suite, str(path))[0].settings.limits
    assert (limits.samples, limits.loss) == (7, 9.0)


@pytest.mark.parametrize(
    ("told", "over", "found"),
    [
        ("kind = 'labels'", "imbalance = 100.0", Partition(kind="labels", imbalance=100.0)),
        ("kind = 'dirichlet'\nalpha = 0.1", "kind = 'labels', labels = 3", Partition(kind="labels", labels=3)),
    ],
)
def test_a_partition_is_put_over_another(tmp_path: Path, told: str, over: str, found: Partition) -> None:
    text = (
        f"[settings.partition]\n{told}\n[[methods]]\nname = 'a'\n"
        f"[[conditions]]\nname = 'c'\nsettings = {{ partition = {{ {over} }} }}\n"
    )
    suite, path = read_suite(file(tmp_path, text))
    assert cells(suite, str(path))[0].settings.partition == found


def test_each_run_has_files_of_its_own_beside_its_folder(tmp_path: Path) -> None:
    """Values with a full stop, as rates are: runs of a moment would read each other's settings."""
    text = "[tuning]\nsetting = 'rate'\nvalues = [0.05, 0.1]\nseed = 9\n[[methods]]\nname = 'mean 1.5'\n"
    suite, path = read_suite(file(tmp_path, text))
    folder = SuiteFolder(tmp_path / "out")
    tried = [each.cell for each in first_tries(suite, str(path))]
    told = [folder.told(cell) for cell in tried]
    assert [FleetSettings.read(file).rate for file in told] == [0.05, 0.1]
    assert [file.name for file in told] == [f"{folder.place(cell).name}.json" for cell in tried]
    assert len({folder.log(cell) for cell in tried}) == 2


@pytest.mark.parametrize(
    "names",
    [("LPA 0.1", "LPA, 0.1"), ("\u0447\u0438\u0441\u0442\u043e", "\u0448\u0443\u043c")],
)
def test_runs_that_would_share_a_folder_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    settings = ("settings = { rate = 0.1 }", "settings = { rate = 0.2 }")
    text = "".join(f'[[methods]]\nname = "{name}"\n{told}\n' for name, told in zip(names, settings, strict=True))
    suite, path = read_suite(file(tmp_path, text))
    with pytest.raises(SettingsError, match="folder"):
        cells(suite, str(path))


def test_the_runs_of_a_suite_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "suite", file(tmp_path, TEXT), "--list", "--seeds", "1,2,3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "suite", "about": "", "runs": 12, "packs": []}]
    assert main(["fleet", "suite", "--list", "--json"]) == 0
    told = {each["name"]: each["runs"] for each in json.loads(capsys.readouterr().out)}
    assert told.keys() == shipped().keys() and told["small"] == 18


def test_a_command_line_changes_data_rounds_and_seeds_of_all_runs(tmp_path: Path) -> None:
    text = (
        "[tuning]\nsetting = 'rate'\nvalues = [0.01, 0.1]\nseed = 9\nrounds = 6\n"
        "[[methods]]\nname = 'a'\nsettings = { data = 'synthetic' }\n"
        "[[conditions]]\nname = 'c'\nsettings = { rounds = 30 }\n"
    )
    suite, path = read_suite(file(tmp_path, text))
    told = narrowed(suite, data="speech-commands", rounds=2, seeds=[4, 5])
    found = cells(told, str(path))
    assert [(c.settings.data, c.settings.rounds, c.seed) for c in found] == [("speech-commands", 2, s) for s in (4, 5)]
    assert {each.cell.settings.rounds for each in first_tries(told, str(path))} == {2}
    assert narrowed(suite, data=None, rounds=None, seeds=None) == suite


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (A + A, 'the method "a" twice'),
        ("seeds = [1, 1]\n" + A, 'the seed "1" twice'),
        ("reference = 'b'\n" + A, 'reference "b"'),
        ("seeds = [1]\n[tuning]\nsetting = 'rate'\nvalues = [0.1, 1.0]\nseed = 1\n" + A, "seed 1"),
        ("figures = ['tale']\n" + A, 'did you mean "tail"?'),
        ("figures = ['tail', 'tail']\n" + A, 'the figure "tail" twice'),
        ("target_seconds = true\n" + A, "would count the seconds to a target, and has none"),
        ("target = 0.5\ntarget_devices = [2, 2]\n" + A, 'the number of devices "2" twice'),
        ("seeds = [0]\n", "methods"),
        ("[[method]]\nname = 'a'\n", "method"),
        (A + "settings = { method = 'krumm' }\n", 'method "a"'),
        (A + "settings = { roundz = 3 }\n", "roundz"),
        (A + "settings = { mode = 'async' }\n", "--engine live"),
        (A + "constant = { name = 'mu', values = [1, 2] }\n", "no [tuning]"),
        (TUNES + A + "constant = { name = 'mu', values = [1, 2, 3] }\n", "each method has 2 tries"),
        (TUNES + A + "constant = { name = 'mux', values = [1, 2] }\n", "mux"),
        (TUNES + A + "settings = { validation = false }\n", "leave validation = false out"),
        ("seeds = [1]\n[tuning]\nsetting = 'ratte'\nvalues = [0.1, 1.0]\nseed = 2\n" + A, "ratte"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as told:
        suite, path = read_suite(file(tmp_path, text))
        every_try(suite, str(path))
        cells(suite, str(path))
    assert said in str(told.value)


def test_the_full_size_changes_settings_seeds_methods_and_conditions(tmp_path: Path) -> None:
    text = (
        TEXT.replace('method = "multi-krum"\nmethod_options = { harmful = 0.2 }\n', "")
        + """
[[conditions]]
name = "as before"
[full]
seeds = [1, 2, 3]
target = 0.9
settings = { rounds = 50, words = "gsc35" }
[[full.methods]]
name = "mean"
settings = { rate = 0.01 }
[[full.methods]]
name = "Krum"
settings = { method = "krum" }
[[full.conditions]]
name = "slow & noisy"
settings = { rounds = 70 }
"""
    )
    suite, path = read_suite(file(tmp_path, text))
    full = full_size(suite, str(path))
    assert (full.seeds, full.target, full.full) == ((1, 2, 3), 0.9, None)
    found = [cell for cell in cells(full, str(path)) if cell.seed == 1]
    assert [(cell.method, cell.settings.rounds, cell.settings.rate) for cell in found] == [
        *(("Multi-Krum", 50, None), ("mean", 50, 0.01), ("Krum", 50, None)),
        *(("Multi-Krum", 70, None), ("mean", 70, 0.01), ("Krum", 70, None)),
        *(("Multi-Krum", 50, None), ("mean", 50, 0.01), ("Krum", 50, None)),
    ]
    assert len(found[3].settings.groups) == 1 and found[0].settings.words == "gsc35"
    assert cells(suite, str(path))[0].settings.rounds == 5, "the small size stays"
    with pytest.raises(SettingsError, match="leave --full out"):
        full_size(full, str(path))


def test_a_name_that_is_not_a_file_is_that_of_a_shipped_suite() -> None:
    assert read_suite("small")[1] == SHIPPED / "small.toml"
    with pytest.raises(SettingsError, match="smal"):
        read_suite("smal")


def test_what_decides_a_result_decides_where_it_lies(tmp_path: Path) -> None:
    """Settings, version and the files that it reads: names and sizes, of traces and the pack all that is in them."""
    data = tmp_path / "yes" / "a"
    data.mkdir(parents=True)
    (data / "1.wav").write_bytes(b"123")
    told = FleetSettings(data=str(tmp_path))
    before = fingerprint(told, "1")
    assert fingerprint(told, "1") == before
    assert b"\xa4rule\xc0\xacrule_options\x80" in before, "as the runs that are kept have it"
    assert fingerprint(told, "2") != before
    assert fingerprint(FleetSettings(data=str(tmp_path), rounds=3), "1") != before
    (data / "1.wav").write_bytes(b"1234")
    assert fingerprint(told, "1") != before
    trace = tmp_path / "trace.csv"
    trace.write_text("device,time,online\na,0,1\n")
    traced = FleetSettings(engine="virtual", groups=(Group(name="traced", trace=Trace(file=str(trace))),))
    followed = fingerprint(traced, "1")
    trace.write_text("device,time,online\na,0,0\n")
    assert fingerprint(traced, "1") != followed
    one, two = (tmp_path / name / "net.tar.zst" for name in ("one", "two"))
    for pack in (one, two):
        pack.parent.mkdir()
        pack.write_bytes(b"1234")
    packed = fingerprint(FleetSettings(pack=str(one)), "1")
    assert fingerprint(FleetSettings(pack=str(two)), "1") == packed, "the same wherever it lies"
    assert fingerprint(FleetSettings(pack=str(one.parent)), "1") != packed
    one.write_bytes(b"1235")
    assert fingerprint(FleetSettings(pack=str(one)), "1") != packed


CLAIMED = (
    TEXT.replace('method = "multi-krum"\nmethod_options = { harmful = 0.2 }\n', "")
    + """
[[claims]]
text = "Multi-Krum is above the mean where it is noisy."
figure = "unseen"
better = "Multi-Krum"
worse = "mean"
condition = "slow & noisy"
"""
)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        (
            'better = "Multi-Krum"',
            'better = "Multi-Crumb"',
            'names the method "Multi-Crumb": did you mean "Multi-Krum"?',
        ),
        ('worse = "mean"', 'worse = "Multi-Krum"', 'compares "Multi-Krum" with itself'),
        ('condition = "slow & noisy"', 'condition = "noisy & slow"', 'names the condition "noisy & slow"'),
        ('figure = "unseen"', 'figure = "tail"', '"tail", which the suite does not show: there is: personal'),
        ('figure = "unseen"', 'figure = "rounds"', "is of the way to a target, and the suite has none"),
    ],
)
def test_a_claim_names_what_the_suite_has(tmp_path: Path, was: str, becomes: str, said: str) -> None:
    (claim,) = read_suite(file(tmp_path, CLAIMED))[0].claims
    assert (claim.better, claim.worse, claim.condition, claim.bound) == ("Multi-Krum", "mean", "slow & noisy", 0.0)
    with pytest.raises(SettingsError, match=re.escape(said)):
        read_suite(file(tmp_path, CLAIMED.replace(was, becomes)))
