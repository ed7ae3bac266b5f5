"""`card.md` of a run."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.fleet.ended_run import PACK, SUMMARY
from tests.fleet.test_report import line

from auricle_fleet.results.card import card
from auricle_fleet.results.result import DeviceRow, prolonged


def card_of(settings: dict[str, object] | None = None, **changes: Any) -> str:
    return card(msgspec.structs.replace(SUMMARY, **changes), PACK, (), settings)


def test_it_says_what_the_model_is_learnt_from_and_how_good_it_is() -> None:
    text = card_of({"seed": 3, "words": "yes,no"})

    assert text.startswith("# Keyword model: yes, no\n")
    assert f"{PACK.plugin_table.size:,} parameters" in text and "Made by Auricle 0.1.0." in text
    assert "Synthetic speech" in text and "1,280 clips on 4 emulated devices" in text
    assert "| rule | lpa |" in text and "| seed | 3 |" in text and "| rates | plugin=0.05, server=adam |" in text
    assert "| accuracy, 80 clips of 1 speaker that no device has | 75.0 % |" in text
    assert "| false accepts an hour, sound without keywords | 12.3 |" in text
    assert "| yes | 60 | 75.0 % | 90.0 % |" in text  # 45 of 60 said, 45 of 50 heard
    assert "| no | 20 | 75.0 % | 50.0 % |" in text
    assert "\n    auricle fleet run --seed 3 --words yes,no\n" in text
    assert "heard before" not in text
    assert "fewer than 50 clips: no." in text and "Judged on 1 speaker:" in text and "Synthetic voices" in text


def test_limits_are_those_of_the_run() -> None:
    text = card_of(
        {"data": "/home/ana/kitchen", "groups": [{"name": "slow"}]},
        rounds=1,
        words=("yes", "_unknown_"),
        unseen_speakers=60,
        false_accepts_per_hour=None,
        confusion=None,
        heard_before=True,
    )

    assert "- These voices may have been heard before" in text
    assert "folder `kitchen`" in text and "Synthetic" not in text and "no label for other words" not in text
    assert "ended after 1 of 2 rounds" in text and "were not measured" in text and "hostile" in text
    assert "Judged on" not in text and "By word" not in text
    assert "| groups | slow |" in text and "auricle fleet run --config settings.json" in text


def test_no_password_no_markup_and_the_worst_device() -> None:
    worst = DeviceRow(
        device="a",
        speaker="ana",
        model="crnn-base",
        training_clips=1,
        held_out_clips=1,
        rounds=1,
        left_out=0,
        refused=0,
        accuracy=0.25,
    )
    told: dict[str, object] = {"broker": "mqtt://u:secret@h", "central": True}
    words = ("<b>|x`", "a\nb")

    text = card(msgspec.structs.replace(SUMMARY, words=words), PACK, (worst,), told)

    assert "secret" not in text and "auricle fleet run --central\n" in text
    assert "<b>" not in text.replace("\\<b", "") and "| a?b |" in text and "\\|x" in text
    assert "the worst device | 25.0 % |" in text


def test_a_prolonged_run_does_not_promise_the_same_weights() -> None:
    said = prolonged([line(1, rounds=2), line(2, rounds=2), line(3, rounds=3)])
    text = card(SUMMARY, PACK, otherwise=said)

    assert "prolonged from 2 to 3 rounds" in text and "gives the same weights" not in text
    assert prolonged([line(1), line(2)]) == "" and "gives the same weights" in card_of({})
