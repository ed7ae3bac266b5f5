"""`auricle cloud`: the coordinator, and what operators do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auricle.process.command_groups import command_group

COMMANDS = command_group(
    "cloud",
    "auricle_cloud.commands",
    {
        "context_commands": {
            "use": "Use a context: the coordinator that all commands act on where neither an option nor the "
            "environment names one.",
        },
        "serve_commands": {
            "serve": "Run a task's rounds, and serve API and page.",
            "settings": "Print a coordinator.toml with every setting, its default and what it is for.",
        },
        "regions_commands": {
            "regions": "Make one model of the rounds of several regions, whose updates stay with them.",
        },
        "rounds_commands": {
            "why": "Explain a round: why it does not start or what it waits for; who counted, who was pruned "
            "or refused, and why.",
        },
        "overview_commands": {
            "overview": "Show the fleet at a glance.",
            "journal": "List what happened, the newest first.",
        },
        "maintenance_commands": {
            "doctor": "Look at this machine and at what a coordinator relies on: exit code 1 where something is bad.",
            "preflight": "Try what serve will need, with serve's own options: exit code 1 where it would fail.",
            "backup": "Write the whole state to one file, private keys included, while the coordinator runs or not.",
            "restore": "Put a backup in place of the state in a folder; the coordinator has to be stopped.",
        },
        "rounds_commands:app": {
            "rounds": "Start, watch and explain rounds.",
        },
        "devices_commands:app": {
            "devices": "See devices, and say which may take part.",
        },
        "models_commands:app": {
            "models": "See, choose, fetch and judge models.",
        },
        "release_signing_commands:app": {
            "releases": "Release bundles and packs: signed metadata that devices fetch.",
        },
        "rollouts_commands:app": {
            "rollouts": "Install releases on devices, stage by stage.",
        },
        "tokens_commands:app": {
            "tokens": "Say who may use the API.",
        },
        "enrol_commands:app": {
            "enrol": "Certify devices, users and brokers, and revoke them.",
        },
        "fleet_commands:app": {
            "fleet": "Prepare a fleet of boards.",
        },
    },
)

app = typer.Typer(cls=COMMANDS, no_args_is_help=True)


@app.callback()
def cloud(
    state: Annotated[
        Path | None, typer.Option(help="The coordinator's folder on this machine [AURICLE_STATE].")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="URL of its database, if it is not there [AURICLE_DATABASE].")
    ] = None,
    blobs: Annotated[str | None, typer.Option(help="URL of its object store, if not there [AURICLE_BLOBS].")] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of its API instead; the token is in AURICLE_TOKEN [AURICLE_SERVER].")
    ] = None,
    task: Annotated[str | None, typer.Option(help="The task, on this machine [the only one, or keywords].")] = None,
) -> None:
    """Run the coordinator, and see and steer what it does.

    The options say which coordinator; every command takes them, too. They override the environment, and
    that overrides the context of auricle cloud use.
    """
