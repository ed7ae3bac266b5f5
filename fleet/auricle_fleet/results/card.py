"""`card.md`: what the model of a run is, learnt from what, how good, with what limits, and how to make it again.

After the model cards of Mitchell et al. (2019, https://arxiv.org/abs/1810.03993).
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from auricle.packs.manifest import SPECIAL_LABELS, UNKNOWN
from auricle.packs.pack import Pack
from auricle.process.times import how_many
from auricle.wire.kinds import INSTEAD, plain
from auricle_fleet.results.result import HEARD_BEFORE, DeviceRow, Summary
from auricle_fleet.settings.units import false_accepts, percent

FEW_SPEAKERS = 20
"""Fewer unseen speakers say little about people."""
FEW_CLIPS = 50
"""Of a word; a share of fewer moves by more than a few percent with each."""
HIDDEN = frozenset({"broker", "port", "processes", "ray"})
"""Settings of the machine that ran, which may hold a password."""
SAID = frozenset({"data", "words", "rounds"})
"""Settings that the text above the table says."""
HEARD = {
    "synthetic": "Synthetic speech (espeak-ng voices); no person spoke.",
    "speech-commands": "Google Speech Commands 0.02 (Warden 2018, CC BY 4.0).",
}


def card(
    summary: Summary,
    pack: Pack,
    devices: Sequence[DeviceRow] = (),
    settings: Mapping[str, object] | None = None,
    otherwise: str = "",
) -> str:
    """The card in Markdown.

    Parameters
    ----------
    summary
        Of the run.
    pack
        That it trained with.
    devices
        The table of devices.
    settings
        Those that differ from the defaults.
    otherwise
        Why the same settings would give other weights, a sentence; empty where they give the same.
    """
    told = {name: value for name, value in (settings or {}).items() if name not in HIDDEN}
    parts = [
        f"# Keyword model: {', '.join(_plain(word) for word in summary.words if word not in SPECIAL_LABELS)}",
        _model(summary, pack),
        "## Trained on",
        _training_sentence(summary, told),
        "## How",
        _table(("setting", "value"), _settings(summary, told)),
        "## How good",
        _good(summary, devices),
        *_by_word(summary),
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(summary, told)),
        "## Made again by",
        _again(told, otherwise),
    ]
    return "\n\n".join(parts) + "\n"


def _model(summary: Summary, pack: Pack) -> str:
    task, table = pack.manifest.task, pack.plugin_table
    seconds = task.seconds
    return (
        f"The shared plug-in {_code(pack.manifest.plugin)} of an emulated federation: {table.size:,} parameters "
        f"(float32), {len(summary.words)} labels, {seconds:g} s of sound at {task.sample_rate / 1000:g} kHz. "
        f"`model.safetensors` has its weights by tensor, `pack.tar.zst` the pack {_code(pack.manifest.name)} with "
        f"the graphs that run them (identity `{summary.pack[:12]}`). Made by Auricle {summary.version}.\n\n"
        f"Labels: {', '.join(_plain(word) for word in summary.words)}."
    )


def _training_sentence(summary: Summary, told: Mapping[str, object]) -> str:
    data = str(told.get("data", "synthetic"))
    heard = HEARD.get(data, f"Recordings of the folder {_code(Path(data).name)}.")
    start = {"scratch": "seeded noise", "pack": "the pack's trained weights"}.get(summary.start, "another run's model")
    if summary.pretrain:
        start += f", trained for {summary.pretrain} epochs on the coordinator's clips"
    devices = how_many(summary.devices, "emulated device")
    return (
        f"{heard} {summary.training_clips:,} clips on {devices}, one speaker each; a fifth of each one's clips is not "
        f"among them and was held out. {summary.rounds} of {summary.rounds_planned} rounds from {start}."
    )


def _settings(summary: Summary, told: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Method, preset, seed and rates, then whatever else differs from the defaults."""
    usual = {"method": summary.method, "preset": summary.preset, "seed": summary.seed}
    yield from ((name, str(value)) for name, value in usual.items())
    yield "rates", _text({name: value for name, value in summary.rates.items() if value is not None})
    yield from ((name, _text(value)) for name, value in told.items() if name not in {*usual, *SAID})


def _good(summary: Summary, devices: Sequence[DeviceRow]) -> str:
    speakers = how_many(summary.unseen_speakers, "speaker")
    rows = [
        (
            f"accuracy, {summary.unseen_clips:,} clips of {speakers} that no device has",
            percent(summary.plugin_accuracy_unseen),
        ),
        (
            "false accepts, sound without keywords",
            false_accepts(summary.false_accepts, summary.negative_seconds, summary.false_accepts_per_hour),
        ),
        ("the devices' own models on their own held-out clips, mean", percent(summary.personal_accuracy)),
    ]
    known = [device.accuracy for device in devices if device.accuracy is not None]
    if known:
        rows.append(("the same, the worst device", percent(min(known))))
    if summary.start_accuracy_unseen is not None:
        rows.append(("accuracy before the first round", percent(summary.start_accuracy_unseen)))
    if summary.central_accuracy_unseen is not None:
        rows.append(("central training on the same clips", percent(summary.central_accuracy_unseen)))
    return _table(("measure", "value"), rows)


def _by_word(summary: Summary) -> list[str]:
    """Recall and precision of each label; nothing where no round was judged."""
    if summary.confusion is None:
        return []
    counts = np.array(summary.confusion)
    said, taken, right = counts.sum(1), counts.sum(0), counts.diagonal()
    rows = [
        (word, str(said[i]), percent(right[i] / said[i] if said[i] else None), _share(right[i], taken[i]))
        for i, word in enumerate(summary.words)
    ]
    return ["### By word", _table(("word", "clips", "right", "right where it was heard"), rows)]


def _share(right: int, of: int) -> str:
    return percent(right / of if of else None)


def _limits(summary: Summary, told: Mapping[str, object]) -> Iterable[str]:
    yield "Emulated: no microphone, room or distance but those of the recordings. Try it where it will be used."
    if told.get("data", "synthetic") == "synthetic":
        yield "Synthetic voices are easier and more alike than people: the figures say nothing about people."
    if summary.heard_before:
        yield HEARD_BEFORE
    if summary.unseen_speakers < FEW_SPEAKERS:
        yield f"Judged on {how_many(summary.unseen_speakers, 'speaker')}: another accent, age or voice may do worse."
    few = _rarely_judged(summary)
    if few:
        yield f"Judged on fewer than {FEW_CLIPS} clips: {', '.join(_plain(word) for word in few)}."
    if UNKNOWN not in summary.words:
        yield "It has no label for other words: whatever is said is taken for one of these, above a threshold."
    if summary.false_accepts_per_hour is None:
        yield "False accepts were not measured."
    else:
        yield "False accepts are of a short stretch of sound without keywords, before thresholds were calibrated."
    if summary.rounds < summary.rounds_planned:
        yield f"The run ended after {summary.rounds} of {summary.rounds_planned} rounds."
    if told.get("groups"):
        yield "Some devices were emulated as slow, noisy, absent or hostile: see the settings."
    yield "Not for telling speakers apart, and not where a word that is missed or misheard can hurt somebody."


def _rarely_judged(summary: Summary) -> list[str]:
    if summary.confusion is None:
        return []
    return [word for word, row in zip(summary.words, summary.confusion, strict=True) if sum(row) < FEW_CLIPS]


def _again(told: Mapping[str, object], otherwise: str) -> str:
    tables = [name for name, value in told.items() if isinstance(value, dict | list | tuple)]
    command = ["auricle", "fleet", "run", *(["--config", "settings.json"] if tables else [])]
    for name, value in told.items() if not tables else ():
        option = f"--{name.replace('_', '-')}"
        command += [option] if value is True else [option, str(value)]
    where = " in this folder, whose settings.json has tables too" if tables else ""
    return f"With the same version and the same recordings{where}:\n\n    {plain(shlex.join(command))}\n\n" + (
        otherwise
        or "The same seed gives the same weights on the same kind of machine where every device answers in time."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):  # groups, or values of an option
        return ", ".join(str(each["name"]) if isinstance(each, dict) else str(each) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(each)}" for name, each in value.items() if each is not None)
    return str(value)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, none of it as HTML: a folder may be called anything."""
    return html.escape("".join(f"\\{mark}" if mark in "\\`*[]|" else mark for mark in plain(text)), quote=False)


def _code(text: str) -> str:
    """Text between two backticks."""
    return f"`{plain(text).replace('`', INSTEAD)}`"
