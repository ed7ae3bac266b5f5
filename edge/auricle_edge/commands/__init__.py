"""`auricle edge`: the agent of one device, and everything that is asked of it."""

from __future__ import annotations

import typer

from auricle.process.command_groups import command_group

COMMANDS = command_group(
    "edge",
    "auricle_edge.commands",
    {
        "run_commands": {
            "run": "Listen, learn and take part in a fleet until interrupted.",
        },
        "answer_commands": {
            "status": "How the running service is; exit code 1 when it hears nothing though it should.",
            "listen": "Show what the running service hears: level, state, posteriors, detections; until interrupted.",
            "confirm": "Say that a detection was right: its clip is kept.",
            "deny": "Say that a detection was wrong: its clip is kept as what it was not.",
            "missed": "Say that a word was said in the last seconds and not heard: its sound is kept.",
            "mute": "Close the microphone: nothing reads it until `unmute`.",
            "unmute": "Open the microphone again.",
            "record": "Record takes of a word with the running service's microphone; a take that is no good is "
            "asked for again.",
            "enroll": "",
        },
        "upkeep_commands": {
            "doctor": "Check the board and everything that the service needs; exit code 1 when something is bad.",
            "devices": "List the microphones that are there now; exit code 1 when there are none.",
            "diag": "Write a bundle for somebody who helps: versions, settings, figures, sensors; no secrets, "
            "no words, no sound.",
            "unit": "Print the systemd unit: auricle edge unit > /etc/systemd/system/auricle-edge.service.",
        },
        "calibrate_commands": {
            "calibrate": "Find each keyword's threshold from sound without keywords, and say what false accepts "
            "these keep to.",
        },
        "evaluate_commands": {
            "evaluate": "Say how well a device hears: hits at fixed false accepts an hour, by kind, word, level and "
            "speaker.",
        },
        "claim_commands": {
            "claim": "Exchange a one-time token for this device's certificate, and learn its fleet.",
            "renew": "Renew this device's certificate when it is due; run it every day.",
        },
        "update_commands": {
            "update": "Make a pack the one that runs, once it has proved itself, or fetch a newer version of "
            "everything.",
            "rollback": "Go back to the pack before the last update.",
            "upgrade": "",
        },
        "clip_commands:app": {
            "clips": "The clips that this device keeps.",
        },
    },
)

app = typer.Typer(cls=COMMANDS, no_args_is_help=True)


@app.callback()
def edge() -> None:
    """Listen on this device, learn from what it hears, and look after it."""
