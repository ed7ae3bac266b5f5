"""A fleet in ten lines of Python: what `auricle fleet run` does, with its rounds and devices as rows.

python examples/session.py [FOLDER]     # needs auricle[fleet]; results go into FOLDER [runs/<date and time>]
"""

import sys

from auricle_fleet import FleetRun, FleetSettings, RoundRow


def show(row: RoundRow) -> None:
    print(
        f"round {row.round} of {row.rounds}: unseen speakers {row.plugin_accuracy_unseen or 0:.0%}, {row.seconds:.1f} s"
    )


settings = FleetSettings(words="yes,no", devices=4, unseen=2, takes=5, min_clips=4, rounds=2, local="crnn-lite")
result = FleetRun(settings, *sys.argv[1:2], on_round=show).run()
for device in sorted(result.devices, key=lambda row: row.accuracy or 0.0):
    print(f"{device.device} ({device.speaker}): {device.rounds} rounds, own held-out clips {device.accuracy or 0:.0%}")
print(result.paths.report)
