"""Tables of the report: by word, by device, by group, and what the run was told."""

from __future__ import annotations

import msgspec
from tests.fleet.test_report import line

from auricle_fleet.groups import Group, Network
from auricle_fleet.results.report_tables import _table, by_device, by_group, by_round, by_word, told
from auricle_fleet.results.result import DeviceRow
from auricle_fleet.settings.partition import Partition


def device(name: str, accuracy: float | None, group: str | None = None, rounds: int = 2) -> DeviceRow:
    counts = {"training_clips": 3, "held_out_clips": 1, "left_out": 1, "refused": 0, "harmful": 1}
    return DeviceRow(device=name, speaker="s", model="m", rounds=rounds, accuracy=accuracy, group=group, **counts)


def test_a_word_is_said_with_what_it_is_taken_for_most() -> None:
    page = by_word(("yes", "<no>", "up"), ((3, 1, 0), (2, 2, 0), (0, 0, 0)))
    assert "<td>yes</td><td>4</td><td>75.0 %</td><td>&lt;no&gt; 1</td>" in page
    assert "<td>&lt;no&gt;</td><td>4</td><td>50.0 %</td><td>yes 2</td>" in page
    assert "<td>up</td><td>0</td><td>-</td><td>-</td>" in page
    assert "var(--a) 52%" in page and "var(--b) 35%" in page
    assert by_word(("yes",), None) == ""


def test_devices_are_quantiles_and_the_worst_by_name() -> None:
    page = by_device([device(f"dev-{i}", i / 10) for i in range(11)] + [device("deaf", None)])
    assert "<td>0.0 %</td><td>10.0 %</td><td>25.0 %</td><td>50.0 %</td>" in page
    assert "dev-4" in page and "dev-5" not in page and "deaf" not in page
    assert by_device([device("deaf", None)]) == ""


def test_groups_are_means_over_their_devices() -> None:
    page = by_group([device("a", 0.5, "slow", 0), device("b", None, "slow", 1), device("c", 0.9)], 2)
    assert "<td>slow</td><td>2</td><td>0.5 of 2</td><td>1.0</td><td>1.0</td><td>50.0 %</td>" in page
    assert page.index("slow") < page.index("all others")
    assert by_group([device("c", 0.9)], 2) == ""


def test_settings_are_those_that_were_changed() -> None:
    assert "<td>rule</td><td>krum</td>" in told({"rule": "krum"}) and "--config THIS_FOLDER/settings.json" in told({})
    assert "are the defaults" in told({}) and told(None) == ""


def test_names_and_numbers_stay_on_one_line_and_sentences_do_not() -> None:
    made = _table(["setting", "value"], [["dev-000", "56.2 %"], ["groups", 8 * "a < b & "]])

    assert "<td>dev-000</td><td>56.2 %</td>" in made
    assert f"<td>groups</td><td class=long>{8 * 'a &lt; b &amp; '}</td>" in made


def test_half_of_the_devices_at_most_are_the_worst() -> None:
    page = by_device([device(f"dev-{i}", i / 5) for i in range(6)])

    assert "dev-2" in page and "dev-3" not in page


def test_groups_stand_as_they_were_told() -> None:
    group = msgspec.to_builtins(Group(name="far", count=2, noise_db=5.0, network=Network(latency=0.1)))

    plain = msgspec.to_builtins(Group(name="plain"))
    hostile = msgspec.to_builtins(Group(name="bad", attack="replace", attack_rounds=(10, 25)))
    dealt = msgspec.to_builtins(Partition(imbalance=10.0))

    page = told({"groups": [group, plain, hostile], "central": True, "rule_options": {"b": 1}, "partition": dealt})

    assert "far: count 2, noise_db 5.0, network latency 0.1; plain; bad: attack replace, attack_rounds 10 25<" in page
    assert "imbalance 10.0, tail fleet<" in page
    assert "<td>central</td><td>true</td>" in page and "<td>rule_options</td><td>b 1</td>" in page
    assert "null" not in page and "{" not in page


def test_a_round_has_columns_for_what_only_some_runs_have() -> None:
    plain = by_round([line(1), line(2)])
    assert "<th>seconds</th></tr>" in plain and plain.count("<table>") == 1

    added = {"backdoor": 0.25, "clock": 86400.0, "available": 3, "groups": {"a": 0, "b": 1}, "epsilon": 1.5}
    page = by_round([line(1), line(2, bounded=["b"], alarm=True, harmful=["<b>"], **added)])
    assert "<tr><th>round</th><th>backdoor works</th><th>clock, s</th><th>could be invited</th>" in page
    assert "<td>1</td>" + 7 * "<td>-</td>" + "</tr>" in page
    assert (
        "<td>2</td><td>25.0 %</td><td>86,400</td><td>3</td><td>2</td><td>1</td><td>&lt;b&gt;</td><td>1.5</td></tr>"
        in page
    )
