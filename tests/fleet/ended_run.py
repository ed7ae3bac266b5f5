"""A small run that is over, as its summary has it."""

from __future__ import annotations

from auricle.packs.pack import load_pack
from auricle_fleet.results.result import Summary

PACK = load_pack("gsc12").with_labels(("yes", "no"))
SUMMARY = Summary(
    plugin_accuracy_unseen=0.75,
    personal_accuracy=0.8,
    central_accuracy_unseen=None,
    start="scratch",
    start_accuracy_unseen=None,
    start_false_accepts_per_hour=None,
    false_accepts_per_hour=12.34,
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
    rule="lpa",
    preset="practical",
    rates={"plugin": 0.05, "server": "adam", "server_rate": None},
    seed=3,
    pack=PACK.identity,
    version="0.1.0",
    confusion=((45, 15), (5, 15)),
)
