"""A rule may be a plug-in: whatever it wrote into a round's report, operators can read the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cloud.api_server import serving
from tests.cloud.filled_store import fill

from auricle_cloud.operations.explanation import explain
from auricle_cloud.states.report import RoundReport, read_report
from auricle_cloud.storage import schema

SOUND: dict[str, Any] = {
    "invited": ["dev-a", "dev-b"],
    "updates": [{"device": "dev-a", "samples": 5, "loss": 0.5}, {"device": "dev-b", "samples": 7, "loss": 0.25}],
    "layers": [{"layer": "body", "kept": ["dev-a"], "share": {"dev-a": 1.0}, "deviation": {"dev-a": 0.5}}],
    "rule": "mine",
    "rule_options": {"strength": 3},
    "detection": {"fires": True, "sentence": "The loss rose.", "shapley": {"dev-a": {"value": 0.1}}},
}
ODD: dict[str, tuple[dict[str, Any], str]] = {
    "share of words": ({"layers": [{**SOUND["layers"][0], "share": {"dev-a": "much", "dev-b": 0.5}}]}, "layers.share"),
    "layer that is a number": ({"layers": [7, SOUND["layers"][0]]}, "layers"),
    "layers that are none": ({"layers": "body"}, "layers"),
    "kept numbers": ({"layers": [{"layer": "body", "kept": ["dev-a", 5]}]}, "layers.kept"),
    "score of a list": ({"layers": [{"layer": "body", "score_of": ["a"]}]}, "layers.score_of"),
    "update without a device": ({"updates": [{"samples": 3}, *SOUND["updates"]]}, "updates"),
    "samples of words": ({"updates": [{"device": "dev-a", "samples": "five"}]}, "updates.samples"),
    "rule that is a number": ({"rule": 3}, "rule"),
    "huge option": ({"rule_options": {"strength": 3, "huge": 1 << 80}}, ""),
    "options that are none": ({"rule_options": [1, 2]}, "rule_options"),
    "warnings that are none": ({"warnings": {"a": 1}}, "warnings"),
    "detection that is none": ({"detection": "bad"}, "detection"),
    "value of words": ({"detection": {**SOUND["detection"], "shapley": {"dev-a": "good"}}}, "detection.shapley"),
    "infinite share": ({"layers": [{"layer": "body", "kept": ["dev-a"], "share": {"dev-a": float("inf")}}]}, ""),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_values_are_left_out_and_the_rest_is_told(name: str) -> None:
    changed, place = ODD[name]

    read = read_report({**SOUND, **changed})
    said = explain(read, task="t", number=1, state="published")

    assert read.invited == ["dev-a", "dev-b"]
    assert [device.device for device in said.devices] == ["dev-a", "dev-b"]
    warnings = [text for text in read.warnings if "odd values" in text]
    assert warnings == ([f"Parts of the stored report have odd values, and are left out: {place}."] if place else [])


def test_what_is_sound_beside_it_stays() -> None:
    read = read_report({**SOUND, **ODD["share of words"][0]})

    assert (read.layers[0].share, read.layers[0].kept) == ({"dev-b": 0.5}, ["dev-a"])
    assert read_report(SOUND).warnings == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(SOUND)), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([*RoundReport.__struct_encode_fields__, "other"]), JSON, max_size=6))
@pytest.mark.slow
def test_no_report_makes_the_explanation_fail(written: dict[str, Any]) -> None:
    explain(read_report(written), task="t", number=1, state="published")


def test_the_api_answers_where_a_stored_report_is_odd(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    with filled.store.database.writing() as tx:
        held = tx.execute(sa.select(schema.rounds.c.report).where(schema.rounds.c.round == 1)).scalar_one()
        odd = {**held, "layers": [{"layer": 3, "share": {"dev-a": "much"}}], "rule_options": {"huge": 1 << 80}}
        tx.execute(sa.update(schema.rounds).where(schema.rounds.c.round == 1).values(report=odd))
    with serving(filled) as server:
        status, answer, _ = server.ask("GET", "/v1/rounds/1/why")
        shown = server.ask("GET", "/v1/rounds/1")[0]
    filled.store.close()

    assert (status, shown) == (200, 200)
    assert "odd values" in json.dumps(answer["sentences"])


def test_half_a_surrogate_pair_can_be_answered() -> None:
    """JSON may hold one, and no answer in UTF-8 can: in a text, in a name and below a rule's own options."""
    odd = {"reason": "no \ud800 quorum", "failed": {"dev-\udfff": "full"}, "rule_options": {"a": ["\ud83d"]}}
    report = read_report(odd)
    assert msgspec.json.encode(report)
    assert (report.reason, report.failed, report.method_options) == ("no ? quorum", {"dev-?": "full"}, {"a": ["?"]})
