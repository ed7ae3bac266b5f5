"""`auricle edge calibrate`: the thresholds that keep to a number of false accepts an hour where this device stands."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.packs.first_weights import choose_weights
from auricle.process.table import Column, print_grid, progress_bars
from auricle.speech.audio import read_recording
from auricle.speech.sound_faults import Finding, SoundError, count_findings, findings_table, nothing_usable
from auricle.speech.sound_files import sound_files
from auricle_edge.clips import ClipStore
from auricle_edge.commands.clip_commands import FOLDER as CLIPS
from auricle_edge.commands.place import AsJson, Config, State, config_file
from auricle_edge.listening.capture.conversion import HighPass
from auricle_edge.listening.detect import detect_settings
from auricle_edge.listening.detect.calibration import Calibration, calibrate, hours_to_show, read_posteriors
from auricle_edge.listening.detect.recognisers import Posteriors
from auricle_edge.listening.detect.rules import is_keyword, thresholds_table
from auricle_edge.listening.detect.vote import load_voter
from auricle_edge.ota.pack_shelf import running_pack
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_edge.service.hearing_model import HearingModel
from auricle_edge.settings import EdgeSettings, read_settings
from auricle_edge.training.own_model import own_model
from auricle_learning.runtimes import frontend_of

Judge = Callable[[NDArray[np.int16]], Posteriors]

Sounds = Annotated[
    list[Path],
    typer.Argument(metavar="SOUND...", help="Recordings without any keyword, or folders of them."),
]
Wanted = Annotated[
    float, typer.Option("--false-accepts", min=0.01, max=1000, help="Wanted an hour, of all keywords together.")
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate")(calibrate_)


def calibrate_(
    sounds: Sounds,
    false_accepts: Wanted = 1.0,
    pack: Annotated[str | None, typer.Option(help="The pack that `run` uses [the settings file's, or home].")] = None,
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Find each keyword's threshold from sound without keywords, and say what false accepts these keep to."""
    named = {"state": None if state is None else str(state), "pack": pack}
    given = {name: value for name, value in named.items() if value is not None}
    settings = read_settings(config_file(config), given)
    findings: list[Finding] = []
    found = _calibrate_by(settings, _recordings(sounds), false_accepts, findings, quiet=as_json)
    counts = count_findings(findings)
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"kept": found.kept, "findings": [asdict(row) for row in counts]}))
        return 0
    if counts:
        typer.echo(findings_table(counts) + "\n", err=True)
    _show(found)
    typer.echo(f"For edge.toml:\n\n{thresholds_table(found.thresholds)}")
    return 0


def _recordings(sounds: Sequence[Path]) -> list[Path]:
    """The files that are named, and those in folders that are named."""
    files: list[Path] = []
    for sound in sounds:
        files += sound_files(sound, deep=True) if sound.is_dir() else [sound]
    if not files:
        raise DataError(f"There is no file of sound in {', '.join(map(str, sounds))}: name recordings.")
    return files


def _calibrate_by(
    settings: EdgeSettings, files: Sequence[Path], wanted: float, findings: list[Finding], *, quiet: bool
) -> Calibration:
    """Judge the recordings that can be used and the device's own clips of keywords with the model that listens."""
    _require_one(files)
    pack = running_pack(settings)
    runtime = choose_runtime(settings.runtime, pack, settings.threads).runtime
    frontend = frontend_of(runtime)
    own = own_model(pack, settings.local, settings.start)
    first, plugin = (
        choose_weights(settings.start, pack, model, settings.seed) for model in (own, pack.manifest.plugin)
    )
    detect = detect_settings(settings.detect, pack)
    hearing = HearingModel(settings.folder, runtime, own, first, plugin, settings.detect, settings.seed)
    store = ClipStore(settings.folder / CLIPS, settings.clips, frontend)
    try:
        recognise = hearing.choose(store.device_data().held_out).candidate.recognise
        vote = load_voter(pack, partial(vote_runtime, runtime, settings.threads), detect.vote)
        judge = partial(
            read_posteriors, frontend=frontend, labels=pack.labels, recognise=recognise, settings=detect, vote=vote
        )
        spoken = _posteriors_of_clips(store, judge)
    finally:
        store.close()
    with progress_bars(hidden=quiet) as bars:
        heard = (_samples(file, settings.capture.high_pass, findings) for file in files)
        tracked = bars.track(heard, total=len(files), description="Listening")
        others = [judge(samples) for samples in tracked if samples is not None]
    return calibrate(others, spoken, pack.labels, wanted, detect)


def _require_one(files: Sequence[Path]) -> None:
    """Refuse recordings of which none can be used, before anything is made."""
    found: list[Finding] = []
    for file in files:
        try:
            read_recording(file)
            return
        except SoundError as error:
            if len(files) == 1:
                raise
            found.append(error.finding)
    raise DataError(nothing_usable("the recordings", found))


def _samples(file: Path, high_pass: float, findings: list[Finding]) -> NDArray[np.int16] | None:
    """A recording as the microphone's sound is listened to; None where it cannot be used."""
    try:
        recording = read_recording(file)
    except SoundError as error:
        findings.append(error.finding)
        return None
    findings += recording.findings
    samples = np.rint(np.clip(recording.samples, -1, 1) * 32_767).astype(np.int16)
    return HighPass(high_pass).take(samples) if high_pass else samples


def _posteriors_of_clips(store: ClipStore, judged: Judge) -> dict[str, list[Posteriors]]:
    """The device's own clips of keywords that are never trained on, each with as much silence on both sides."""
    found: dict[str, list[Posteriors]] = defaultdict(list)
    for clip in store.list():
        word = clip.record.word
        if word is None or not is_keyword(word) or not clip.record.held_out or clip.damaged:
            continue
        samples = store.content(clip).samples
        if samples is not None:
            found[word].append(judged(np.pad(samples, len(samples))))
    return found


def _show(found: Calibration) -> None:
    heads = ("keyword", "threshold", f"false accepts in {found.decided_hours:.2f} h", "own clips that reach it")
    rows = []
    for word, threshold in found.thresholds.items():
        reached = f"{found.hits[word]:.0%}" if word in found.hits else "no held-out clips"
        rows.append((word, f"{threshold:.2f}", str(found.false_accepts[word]), reached))
    print_grid([Column(head, 0) for head in heads], rows, stderr=True)
    typer.echo(promise(found), err=True)


def promise(found: Calibration) -> str:
    """What the thresholds keep to, and what that was shown on."""
    most = f"{found.at_most:.0f}" if found.at_most >= 10 else f"{found.at_most:.2g}"
    rate = f"at most {most} false accepts an hour with 95 % confidence"
    count = sum(found.false_accepts.values())
    if not found.kept:
        return (
            f"Even with the highest thresholds it is {rate}, more than the {found.wanted:g} that you want: "
            f"{count} in {found.decided_hours:.2f} h. Let the device learn, or take another pack."
        )
    shown = f"All words together: {rate}, in sound of this kind ({count} in {found.decided_hours:.2f} h"
    if found.by_word:
        return f"{shown} that had no part in ordering the thresholds)."
    return (
        f"{shown}). All thresholds were moved together: to choose them word by word, record at least "
        f"{120 * hours_to_show(found.wanted):.0f} minutes."
    )
