"""`auricle fleet`: emulate a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from auricle_fleet.broker import command as broker_command
from auricle_fleet.live import View, percent
from auricle_fleet.results.result import FleetResult
from auricle_fleet.results.run_folder import newest_run
from auricle_fleet.run import FleetRun
from auricle_fleet.settings import FleetSettings

app = typer.Typer(no_args_is_help=True)

DEFAULTS = FleetSettings()


@app.callback()
def fleet() -> None:
    """Emulate a fleet: real speech, real agents, a real broker, a real coordinator."""


def _option(name: str, text: str, *flags: str) -> Any:
    return typer.Option(getattr(DEFAULTS, name), *flags, help=text)


@app.command()
def run(
    data: str = _option("data", "synthetic, speech-commands, or a folder <word>/<speaker>_nohash_<n>.(wav|flac)."),
    words: str | None = _option(
        "words", "a,b,c, gsc12, gsc35, digits, or common:N for words with at least N clips [gsc12, or the pack's]."
    ),
    pack: str | None = _option("pack", "A pack of your own, a folder or a .tar.zst [the shipped one for the words]."),
    devices: int | None = _option("devices", "Number of devices, each with one speaker's clips [all that qualify]."),
    min_clips: int = _option("min_clips", "A speaker with fewer clips is no device and counts as unseen."),
    unseen: int | None = _option("unseen", "Speakers held out wholly, as well as those under --min-clips."),
    takes: int = _option("takes", "Synthetic speech: takes of each word by each speaker."),
    rounds: int = _option("rounds", "Rounds to run."),
    participation: float = _option("participation", "Share of the devices invited to a round."),
    quorum: float = _option("quorum", "Share of the invited that is enough to close a round that has waited."),
    deadline: float = _option("deadline", "Seconds after which a round closes."),
    rule: str | None = _option("rule", "fedavg, lpa, fedvsa or lpa+fedvsa [the preset's]."),
    mode: str | None = _option("mode", "mutual, or supervised: the plug-in alone on labels [the preset's]."),
    local: str | None = _option(
        "local",
        "Local model: crnn-base, -wide, -deep, -stacked, -lite, one of --pack, a,b,c in turn, or mixed "
        "[crnn-base, or the pack's larger model].",
    ),
    preset: str = _option("preset", "practical, paper (FedMLAC's own settings), or fedavg (the tuned baseline)."),
    server_rate: float | None = _option(
        "server_rate", "Learning rate of the server's optimizer [the preset's; with --start pack a gentle step]."
    ),
    start: str = _option(
        "start",
        "scratch: all models start from seeded noise, as in every published figure; pack: from the pack's trained "
        "weights.",
    ),
    carried: float | None = _option(
        "carried",
        "Share of what devices train on that is sound without keywords, of the pack's negatives; less with own ones "
        "[0.5 with --start pack, else 0].",
    ),
    judge: str = _option(
        "judge", "Whether a device gives up a round that made it worse: on, off, or auto: on with --start pack."
    ),
    judge_minutes: float = _option("judge_minutes", "Most minutes of negatives on which a device judges a round."),
    judge_share: float = _option("judge_share", "Share of its rounds that a device judges on them, drawn at random."),
    codec: str = _option("codec", "How updates travel: float32 or float16."),
    central: bool = _option("central", "Also train the same clips centrally: the ceiling.", "--central"),
    central_epochs: int = _option("central_epochs", "Epochs of the central training."),
    seed: int = _option("seed", "Decides speech, split, initial weights and every draw."),
    port: int = _option("port", "Port of the broker on loopback; 0 takes a free one."),
    broker: str | None = _option(
        "broker", "mosquitto, amqtt, or mqtt://user:password@host:port of a running one [mosquitto if found]."
    ),
    out: Path | None = typer.Option(None, help="Folder for the results [runs/<date and time>]."),
    resume: bool = typer.Option(
        False, "--resume", help="Go on with the run in --out [the newest in runs/], with the settings it began with."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round and the summary, nothing else."),
) -> int:
    """Train a shared keyword model on many emulated devices and leave a report."""
    view = View(as_json=as_json)
    if resume:
        fleet_run = FleetRun.resume(newest_run(Path("runs")) if out is None else out, view=view)
        view.say(f"goes on with {fleet_run.out}")
    else:
        settings = FleetSettings(
            data=data,
            words=words,
            pack=pack,
            devices=devices,
            min_clips=min_clips,
            unseen=unseen,
            takes=takes,
            rounds=rounds,
            participation=participation,
            quorum=quorum,
            deadline=deadline,
            rule=rule,
            mode=mode,
            local=local,
            preset=preset,
            server_rate=server_rate,
            start=start,
            codec=codec,
            carried=carried,
            judge=judge,
            judge_minutes=judge_minutes,
            judge_share=judge_share,
            central=central,
            central_epochs=central_epochs,
            seed=seed,
            port=port,
            broker=broker,
        )
        fleet_run = FleetRun(settings, out, view=view)
    return _conclude(fleet_run.run(), as_json)


app.command("broker")(broker_command.broker)


def _conclude(result: FleetResult, as_json: bool) -> int:
    if not as_json:
        summary = result.summary
        ceiling = summary.central_accuracy_unseen
        typer.echo(
            f"Plug-in on unseen speakers: {percent(summary.plugin_accuracy_unseen)}"
            + (f" (central ceiling {percent(ceiling)})" if ceiling is not None else "")
            + f"; local models on their own held-out clips: {percent(summary.personal_accuracy)}."
        )
        typer.echo(f"Report: {result.paths.report}")
        if result.interrupted:
            typer.echo(
                f"Interrupted after round {summary.rounds}. Go on with: auricle fleet run --resume --out "
                f"{result.paths.folder}"
            )
    return 130 if result.interrupted else 0
