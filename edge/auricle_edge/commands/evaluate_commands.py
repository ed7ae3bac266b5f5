"""`auricle edge evaluate`: how well a pack's models hear, on scenes composed of recordings or on labelled ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, cast

import typer

from auricle.errors import DataError, SettingsError, nearest
from auricle.hearing.scenes import Scene
from auricle.hearing.splits import PARTS, Part
from auricle.packs.pack import Pack, load_pack
from auricle.packs.shipped import DEFAULT_PACK
from auricle.process.table import progress_bars
from auricle.speech.sound_faults import Finding, SoundError, count_findings, findings_table, nothing_usable
from auricle.speech.spelling import Spelling
from auricle.wire.kinds import plain
from auricle_edge.commands.place import AsJson
from auricle_edge.evaluate.around import SYNTHETIC
from auricle_edge.evaluate.files import Judgement, as_json, settings_for, write_csv
from auricle_edge.evaluate.levels import MUSIC, TELEVISION
from auricle_edge.evaluate.listeners import listeners_of, waking_of
from auricle_edge.evaluate.page import write_page
from auricle_edge.evaluate.phrase_set import POSITIVE, Read, phrase_set
from auricle_edge.evaluate.phrase_tables import has_tables, table_set
from auricle_edge.evaluate.plan import Plan, compose_scene, plan_scenes
from auricle_edge.evaluate.run import Judged, Stream, hear, reports, thresholds_from
from auricle_edge.evaluate.sources import Folders, Sources, read_scene, read_sources
from auricle_edge.evaluate.tables import text_of
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.listening.detect.rules import is_keyword
from auricle_edge.listening.detect.settings import ANY_DROP
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_learning.runtimes import frontend_of

EVERYBODY = "all"
PROGRESS_OF = "Listening"

Paths = list[Path] | None


def _folder(name: str, text: str) -> object:
    return typer.Option(name, metavar="DIR", help=text, exists=True, file_okay=False)


def _words(name: str, text: str) -> object:
    return typer.Option(name, metavar="DIR", help=text, exists=True)


Keywords = Annotated[
    Paths, _words("--keywords", "<word>/<speaker>_nohash_<n>.(wav|flac), or a list in CSV; more than one allowed.")
]
Noise = Annotated[Paths, _folder("--noise", "Background noises [_background_noise_ in --keywords].")]
Speech = Annotated[Paths, _folder("--speech", "Running speech, <reader>-<anything>.(wav|flac).")]
Words = Annotated[Paths, _words("--words", "Other words, laid out as --keywords [what is no keyword there].")]
Languages = Annotated[Paths, _words("--languages", "Words of other languages, laid out as --keywords.")]
LeaveOut = Annotated[Paths, _words("--leave-out", "Laid out as --keywords: nobody who speaks there is heard.")]
Recordings = Annotated[
    Paths, typer.Option("--recording", metavar="FILE", help="A recording with --labels; more than one.", exists=True)
]
Labels = Annotated[
    Paths, typer.Option("--labels", metavar="FILE", help="start<TAB>end<TAB>word, as Audacity exports.", exists=True)
]
Television = Annotated[
    list[str] | None,
    typer.Option(
        "--television", metavar="DIR", help=f"What a television plays, or {SYNTHETIC}: of --speech, in music."
    ),
]
Music = Annotated[
    list[str] | None, typer.Option("--music", metavar="DIR", help=f"What a loudspeaker plays, or {SYNTHETIC}.")
]
PhraseSet = Annotated[
    Path | None,
    _folder("--phrase-set", "Clips as livekit-wakeword and openWakeWord have them, or Parquet tables."),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weights",
        metavar="NAME=MODEL[:FILE]",
        help="Side by side; MODEL+MODEL is the mean, MODEL,second:MODEL two stages; ,vote[:SHARE] after it adds the "
        "pack's vote [as the pack says].",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate)


def evaluate(
    pack: str = typer.Option(DEFAULT_PACK, help="Name of a shipped pack, a folder or a .tar.zst."),
    weights: Weights = None,
    keywords: Keywords = None,
    noise: Noise = None,
    speech: Speech = None,
    words: Words = None,
    languages: Languages = None,
    leave_out: LeaveOut = None,
    television: Television = None,
    music: Music = None,
    recording: Recordings = None,
    labels: Labels = None,
    phrases: PhraseSet = None,
    phrase: str | None = typer.Option(None, help="What --phrase-set says [the pack's only keyword or wake word]."),
    part: str = typer.Option(EVERYBODY, help="Which speakers, readers and noises: validation, test, train or all."),
    rate: float = typer.Option(5.0, min=0.01, max=1000, help="False accepts an hour to choose thresholds by word for."),
    validate: bool = typer.Option(False, "--validate", help="Choose these thresholds on the validation part."),
    threshold: float | None = typer.Option(None, min=0, max=1, help="For every keyword [the pack's, or 0.8]."),
    command_drop: float | None = typer.Option(
        None, min=0, max=ANY_DROP, help="Decibels by which a command may be fainter than its wake word [the pack's]."
    ),
    minutes: float = typer.Option(20.0, min=0.5, max=600, help="Of each kind of sound without keywords, at most."),
    passes: int = typer.Option(1, min=1, max=100, help="How often each recording is used at most, in other noise."),
    rooms: bool = typer.Option(False, "--rooms", help="Keywords in rooms with reverberation, too."),
    seed: int = typer.Option(0, min=0, help="Of everything that is drawn."),
    runtime: str = typer.Option("auto", help="auto, step, native, ort-training or tflite."),
    threads: int = typer.Option(1, min=1, help="Threads inside one operator."),
    csv: Path | None = typer.Option(None, "--csv", help="Write every figure to this file."),
    html: Path | None = typer.Option(None, "--html", help="Write a page with the curves to this file."),
    json: AsJson = False,
) -> int:
    """Say how well a device hears: hits at fixed false accepts an hour, by kind, word, level and speaker."""
    loaded = load_pack(pack)
    played = {TELEVISION: television or [], MUSIC: music or []}
    of_loudspeakers = [_loudspeaker_folders(kind, given) for kind, given in played.items()]
    inputs = [keywords, noise, speech, words, languages, leave_out, *of_loudspeakers]
    folders = Folders(*(tuple(paths or ()) for paths in inputs))
    if not (keywords or noise or speech or words or languages or recording or phrases):
        raise SettingsError(
            "Name what it is to hear: --keywords DIR and --noise DIR, --recording FILE with --labels FILE, or "
            "--phrase-set DIR."
        )
    chosen, length = _parts(part, validate), loaded.manifest.task.clip_samples
    findings: list[Finding] = []
    settings = detect_settings(DetectTable(threshold=threshold, command_drop=command_drop), loaded)
    given: list[Read] = [partial(_alone, s) for s in _recorded_scenes(recording or [], labels or [], loaded, findings)]
    given += _clips(phrases, phrase, loaded, settings.wake, findings)
    sources = read_sources(folders, _keywords_of(loaded), chosen, length)
    if keywords and not sources.keywords and part == EVERYBODY:
        named, known_words = ", ".join(map(str, keywords)), ", ".join(_keywords_of(loaded))
        raise DataError(f"{named} has none of the words of the pack {loaded.manifest.name}: {known_words}.")
    for kind in sources.missing(folders):
        typer.echo(f"Nothing of --{kind} belongs to the {part} part: it is left out.", err=True)
    choose = cache(lambda: choose_runtime(runtime, loaded, threads, training=False).runtime)
    listeners = listeners_of(weights or [], loaded, choose, lambda voter: vote_runtime(choose(), threads, voter))
    judged = Judged(loaded.labels, frontend_of(choose()), settings, waking_of(loaded.labels, settings))
    synthetic = tuple(kind for kind, given in played.items() if SYNTHETIC in given)
    plan = Plan(minutes, passes, rooms=rooms, synthetic=synthetic)

    def heard(sources: Sources, parts: Sequence[Part], more: Sequence[Read], *, events: bool) -> Stream:
        scenes = _scenes(sources, judged, plan, seed, parts, more, quiet=json)
        return hear(scenes, listeners, judged, events=events)

    validated = None
    if validate:
        known = read_sources(folders, _keywords_of(loaded), ["validation"], length)
        findings += known.findings
        validated = thresholds_from(heard(known, ["validation"], [], events=False), listeners, judged, rate)
    began = time.perf_counter()
    stream = heard(sources, chosen, given, events=judged.waking is not None)
    took = time.perf_counter() - began
    made = reports(stream, listeners, judged, sources, rate, validated)
    found = tuple(count_findings([*findings, *sources.findings]))
    judgement = Judgement(loaded.manifest.name, part, seed, sources.speakers, stream.seconds, took, tuple(made), found)
    _say(judgement, csv, html, json)
    return 0


def _parts(part: str, validate: bool) -> list[Part]:
    if part not in (*PARTS, EVERYBODY):
        raise SettingsError(f'There is no part "{part}" of the speakers: {nearest(part, [*PARTS, EVERYBODY])}')
    if validate and part != "test":
        raise SettingsError(
            "--validate chooses thresholds on the validation part to judge them on others: --part test."
        )
    return [] if part == EVERYBODY else [cast("Part", part)]


def _loudspeaker_folders(kind: str, given: Sequence[str]) -> list[Path]:
    """The folders of what a loudspeaker plays; none where it is synthetic."""
    if SYNTHETIC in given:
        if len(given) > 1:
            raise SettingsError(f"--{kind} is {SYNTHETIC} or folders, not both.")
        return []
    paths = [Path(name) for name in given]
    for path in paths:
        if not path.is_dir():
            raise SettingsError(f"--{kind} {path} is not a folder: name one with recordings, or {SYNTHETIC}.")
    return paths


def _keywords_of(pack: Pack) -> list[str]:
    return [label for label in pack.labels if is_keyword(label)]


def _alone(scene: Scene) -> list[Scene]:
    return [scene]


def _clips(
    folder: Path | None, phrase: str | None, pack: Pack, wake: Sequence[str], findings: list[Finding]
) -> list[Read]:
    """The scenes of a set of clips of one phrase; none without a folder."""
    if folder is None:
        if phrase is not None:
            raise SettingsError("--phrase says what the clips of --phrase-set say: name their folder, too.")
        return []
    words = _keywords_of(pack)
    usual = list(wake or words)
    if phrase is None and len(usual) > 1:
        raise SettingsError(f"Say which phrase {folder} has: --phrase with one of {', '.join(usual)}.")
    said = usual[0] if phrase is None else Spelling(words).typed(phrase)
    if said not in words:
        raise SettingsError(f'The pack {pack.manifest.name} has no word "{said}": {nearest(said, words)}')
    if (folder / POSITIVE).is_dir() or not has_tables(folder):
        return phrase_set(folder, said, findings)
    return table_set(folder, said, findings)


def _recorded_scenes(
    recordings: Sequence[Path], labels: Sequence[Path], pack: Pack, findings: list[Finding]
) -> list[Scene]:
    """The recordings that can be used; DataError where none can."""
    if len(recordings) != len(labels):
        raise SettingsError(f"{len(recordings)} of --recording and {len(labels)} of --labels: give one for each.")
    scenes: list[Scene] = []
    for sound, text in zip(recordings, labels, strict=True):
        try:
            scenes.append(read_scene(sound, text, _keywords_of(pack), findings))
        except SoundError as error:
            if len(recordings) == 1:
                raise
            findings.append(error.finding)
    if recordings and not scenes:
        raise DataError(nothing_usable("--recording", findings))
    return scenes


def _scenes(
    sources: Sources,
    judged: Judged,
    plan: Plan,
    seed: int,
    parts: Sequence[Part],
    more: Sequence[Read],
    *,
    quiet: bool,
) -> Iterator[Scene]:
    """What is given as it is, then what is composed of the folders; a bar on standard error shows how far it is."""
    wake = () if judged.waking is None else judged.waking.wake
    made = plan_scenes(sources, wake, plan) if sources.keywords or sources.noise or not more else []
    told = f"{PROGRESS_OF} to {parts[0]}" if parts else PROGRESS_OF
    with progress_bars(hidden=quiet) as bars:
        for number in bars.track(range(len(more) + len(made)), description=told):
            yield from more[number]() if number < len(more) else [compose_scene(made, number - len(more), seed)]


def _say(judgement: Judgement, csv: Path | None, html: Path | None, json: bool) -> None:
    if csv is not None:
        write_csv(judgement, csv)
    if html is not None:
        write_page(judgement, html)
    if json:
        typer.echo(as_json(judgement))
        return
    for report in judgement.reports:
        typer.echo("\n".join(map(plain, text_of(report).split("\n"))) + "\n")
    lines = settings_for(judgement.reports)
    if lines:
        typer.echo(f"For edge.toml, by {judgement.reports[0].name}:\n\n{lines}\n")
    if judgement.findings:
        typer.echo(findings_table(judgement.findings) + "\n", err=True)
    faster = judgement.seconds / judgement.took
    said = f"{judgement.seconds / 60:.0f} minutes of sound in {judgement.took:.0f} s, {faster:.0f} times real time."
    typer.echo(said, err=True)
