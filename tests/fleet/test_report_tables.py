"""Tables of the report: by word, by device, by group, and what the run was told."""

from __future__ import annotations

from auricle_fleet.results.report_tables import by_device, by_group, by_word, told
from auricle_fleet.results.result import DeviceRow


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
