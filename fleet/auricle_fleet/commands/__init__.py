"""`auricle fleet`: emulate a fleet."""

from __future__ import annotations

import typer

from auricle.process.command_groups import command_group

COMMANDS = command_group(
    "fleet",
    "auricle_fleet",
    {
        "commands.run_commands": {
            "run": "Train a shared keyword model on many emulated devices and leave a report.",
            "plan": "Say what a run will take before it starts: time, memory, bytes, open files, disk, with each "
            "engine.",
        },
        "commands.compare_commands:compare": {
            "compare": "Compare runs: the settings in which they differ, and their results; seeds as mean and spread.",
        },
        "suite.commands:suite": {
            "suite": "Compare methods: run every method in every condition with every seed; what has ended is not run "
            "again.",
        },
        "broker.command:broker": {
            "broker": "Run a broker on 127.0.0.1: mosquitto where it is installed, else the embedded one.",
        },
    },
)

app = typer.Typer(cls=COMMANDS, no_args_is_help=True)


@app.callback()
def fleet() -> None:
    """Emulate a fleet: real speech, real agents, a real broker, a real coordinator."""
