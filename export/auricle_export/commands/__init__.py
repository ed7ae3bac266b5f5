"""`auricle export`: build, train, sign and inspect training packs."""

from __future__ import annotations

import typer

from auricle.process.command_groups import command_group

COMMANDS = command_group(
    "export",
    "auricle_export.commands",
    {
        "artifacts_commands:artifacts": {
            "artifacts": "Add what the runtime ort-training needs (run it where onnxruntime-training is installed; "
            "no PyTorch).",
        },
        "build_commands:build": {
            "build": "Compile training graphs and write packs of them: the same bytes each time.",
        },
        "import_speech_commands:import_speech": {
            "import-speech": "Convert recordings with a manifest to the Speech Commands layout: 16 kHz, clips of one "
            "length, speakers hashed.",
        },
        "pretrain_commands:pretrain": {
            "pretrain": "Train a pack's models centrally, on recordings or synthetic speech, and put their weights "
            "into a pack.",
        },
        "wakeword_commands:wakeword": {
            "wakeword": "Make a pack for an own wake word: synthetic voices say it, a model learns it, and a page "
            "says how well.",
        },
        "vote_commands:vote": {
            "vote": "Train a head over a frozen speech embedding, and write the pack with it as its third vote.",
        },
        "artifacts_commands:tflite": {
            "tflite": "Add .tflite models to a pack, made of its evaluation graphs; a device replaces their "
            "weights in place.",
        },
        "pack_commands:inspect": {
            "inspect": "Show what a pack holds: words, models, graphs, trained weights, who signed it, and the "
            "hash that names it.",
        },
        "pack_commands:verify": {
            "verify": "Check every file, hash, signature, graph and weight of a pack; exit code 2 for one that is "
            "not sound.",
        },
        "pack_commands:sign": {
            "sign": "Vouch for a pack: check all of it, sign its manifest, and write it with the signature; "
            "nothing is overwritten.",
        },
        "pack_commands:diff": {
            "diff": "Say in what two packs differ: words, models, graphs, weights, files.",
        },
        "voices_commands:voices": {
            "voices": "List the voices that say wake words, and bring more.",
        },
    },
)

app = typer.Typer(cls=COMMANDS, no_args_is_help=True)


@app.callback()
def export() -> None:
    """Build and inspect training packs."""
