"""A small run that is over: its summary and its rounds."""

from __future__ import annotations

from typing import Any

import msgspec

from auricle.packs.pack import load_pack
from auricle_fleet.results.result import RoundRow, Summary

PACK = load_pack("gsc12").with_labels(("yes", "no"))
SUMMARY = Summary(
    plugin_accuracy_unseen=0.75,
    personal_accuracy=0.8,
    central_accuracy_unseen=None,
    start="scratch",
    start_accuracy_unseen=None,
    start_false_accepts_per_hour=None,
    false_accepts_per_hour=45.0,
    false_accepts=3,
    negative_seconds=240.0,
    judge=False,
    judged_seconds=60.0,
    refused_rounds=0,
    refusing_devices=0,
    devices=4,
    rounds=2,
    rounds_planned=2,
    interrupted=False,
    seconds=1.0,
    bytes_up=1,
    bytes_down=1,
    words=("yes", "no"),
    training_clips=1280,
    unseen_clips=80,
    unseen_speakers=1,
    skipped_files=0,
    method="lpa",
    preset="practical",
    rates={"plugin": 0.05, "server": "adam", "server_rate": None},
    seed=3,
    pack=PACK.identity,
    version="0.1.0",
    confusion=((45, 15), (5, 15)),
)


def summary(**changes: Any) -> Summary:
    """Of another small run, which started from its pack and measured a ceiling."""
    known = {"plugin_accuracy_unseen": 0.71, "personal_accuracy": 0.64, "central_accuracy_unseen": 0.83, "devices": 3}
    unknown = {"confusion": None, "false_accepts_per_hour": None, "rates": {}, "pack": "", "version": ""}
    unknown |= {"false_accepts": None, "negative_seconds": None}
    return msgspec.structs.replace(SUMMARY, **{"start": "pack", **known, **unknown, **changes})


def line(number: int = 1, **changes: Any) -> RoundRow:
    told = {"round": number, "rounds": 2, "state": "published", "invited": 3, "counted": 3}
    told |= {"plugin_accuracy_unseen": 0.3 * number, "personal_accuracy": 0.2 * number, "inference_loss": 2.5 / number}
    told |= {"seconds": 1.5, "seconds_total": 3.0, "seconds_left": 0.0}
    told |= {"bytes_up": 500 * number, "bytes_down": 900 * number, "left_out": {"conv": ["dev-a"], "head": []}}
    return msgspec.convert({**told, **changes}, RoundRow)
