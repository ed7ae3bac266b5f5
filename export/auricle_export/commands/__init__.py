"""`auricle export`: build, train, sign and inspect training packs."""

from __future__ import annotations

import typer

from auricle_export.commands.artifacts_commands import artifacts, tflite
from auricle_export.commands.build_commands import build
from auricle_export.commands.import_speech_commands import import_speech
from auricle_export.commands.pack_commands import diff, inspect, sign, verify
from auricle_export.commands.pretrain_commands import pretrain
from auricle_export.commands.voices_commands import voices
from auricle_export.commands.vote_commands import vote
from auricle_export.commands.wakeword_commands import wakeword

app = typer.Typer(no_args_is_help=True)


@app.callback()
def export() -> None:
    """Build and inspect training packs."""


app.command()(artifacts)
app.command()(build)
app.command("import-speech")(import_speech)
app.command()(pretrain)
app.command()(wakeword)
app.command()(vote)
app.add_typer(voices, name="voices")
app.command()(tflite)
app.command()(inspect)
app.command()(verify)
app.command()(sign)
app.command()(diff)
