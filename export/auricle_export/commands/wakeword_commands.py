"""`auricle export wakeword`: from a phrase to a pack that listens for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console

from auricle.errors import SettingsError
from auricle.files import write_durably
from auricle.packs.pack import pack_bytes
from auricle.process.table import Column, Grid
from auricle.speech.sources import Place, source_folders
from auricle_export.commands.command_line import command, given_options, import_for, refuse_unwritable
from auricle_export.commands.training_run import INTERRUPTED_CODE, Stopped, TrainingRun

if TYPE_CHECKING:
    from auricle.packs.pack import Pack
    from auricle_export.commands.pretrain_view import View
    from auricle_export.packs.network import Frozen
    from auricle_export.wakeword.build import WakePack
    from auricle_export.wakeword.report import WakeReport
    from auricle_export.wakeword.task import WakeTask

WIDTH_COLUMNS = 80
"""Columns of the table."""


def wakeword(
    ctx: typer.Context,
    phrases: list[str] = typer.Argument(..., metavar="PHRASE...", help='What to listen for, as in "hey robot".'),
    out: Path = typer.Option(..., help="The pack to write, a .tar.zst."),
    commands: str | None = typer.Option(
        None, help="A pack whose words come after the phrase: home, home-more, gsc12-res, or your own [none]."
    ),
    voice: list[str] = typer.Option(
        [], help="Who speaks beside espeak-ng: a name of voices list, or a folder of takes by voices; once for each."
    ),
    voices: list[Path] = typer.Option(
        [], help="A folder or list of takes of the phrase: own recordings, or other voices; once for each."
    ),
    speaker: str = typer.Option("", help="Who says the takes that name nobody [each a speaker of its own]."),
    words: list[str] = typer.Option(
        [], help="A folder of single words by people, or speech-commands, which is downloaded; once for each."
    ),
    running: list[Path] = typer.Option([], help="A folder of people's running speech; once for each."),
    languages: list[Path] = typer.Option([], help="A folder of words of other languages; once for each."),
    noise: list[Path] = typer.Option([], help="A folder of noise; once for each."),
    leave_out: list[Path] = typer.Option([], help="A folder of words whose speakers are left out; once for each."),
    frontend: str = typer.Option(
        "", metavar="NAME", help="Learn from a frozen network's vectors: embedding (Google's), or an ONNX file [none]."
    ),
    vote: str = typer.Option(
        "", metavar="NAME", help="Let a second model, over a frozen network, vote: embedding, or an ONNX file [none]."
    ),
    language: str = typer.Option("en", help="Of the synthetic voices, as espeak-ng names it: en, de, fr, cmn."),
    speakers: int = typer.Option(200, help="Synthetic voices, or as many as the language has."),
    rate: float = typer.Option(0.5, help="False accepts an hour that are allowed for each phrase."),
    epochs: int | None = typer.Option(None, help="Passes of 500 batches, a head's of 250; more hear better.  [16]"),
    page: Path | None = typer.Option(None, help="The HTML page to write.  [OUT.html]"),
    state: Path | None = typer.Option(None, help="Folder that keeps an interrupted training.  [OUT.state]"),
    seed: int = typer.Option(0, help="Random seed of voices, split and every draw."),
    compute: str = typer.Option("auto", help="auto, cpu or cuda."),
    threads: int | None = typer.Option(None, help="PyTorch's threads [1]; one more puts the sound together."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object an epoch and the result, nothing else."),
) -> int:
    """Make a pack for an own wake word: synthetic voices say it, a model learns it, and a page says how well.

    People who are to wake it need takes of people: name them with --voices (docs/wake-word.md has figures). Run the
    same command again after an interruption.
    """
    run = TrainingRun(ctx, out, state, as_json)
    written = page if page is not None else out.with_name(f"{out.name.removesuffix('.tar.zst')}.html")
    run.refuse_unwritable()
    refuse_unwritable(written, run.folder, "--page", "my.html")
    if written == out:
        raise SettingsError(f"The page would be written over the pack {out}: name another file with --page.")
    work = import_for("wakeword", "wakeword.task")
    if frontend and vote:
        raise SettingsError(work.ONE_NETWORK)
    sources = import_for("wakeword", "voices.sources").choose_sources(voice, language, phrases)
    changes = {"seed": seed, "device": compute, **given_options(epochs=epochs), **given_options(threads=threads)}
    task: WakeTask = work.WakeTask(
        phrases=tuple(phrases),
        folder=run.folder,
        language=language,
        speakers=speakers,
        sources=sources,
        rate=rate,
        commands=commands,
        takes=tuple(voices),
        frozen=_network(frontend),
        vote=_network(vote),
        speaker=speaker,
        running=tuple(running),
        languages=tuple(languages),
        noise=tuple(noise),
        leave_out=tuple(leave_out),
        settings=replace(work.usual_settings(), **changes),
        head=replace(work.head_settings(), **changes),
    )
    return _make(run, task, words, written)


def _network(name: str) -> Frozen | None:
    found: Frozen | None = import_for("wakeword", "wakeword.embedding").find_network(name) if name else None
    return found


class _Written(NamedTuple):
    """A pack and its report, in bytes and not."""

    done: WakePack
    content: bytes
    report: WakeReport

    @property
    def pack(self) -> Pack:
        """The pack."""
        return self.done.pack


def _make(run: TrainingRun, task: WakeTask, words: Sequence[str], page: Path) -> int:
    """Make pack and page, or say how to go on after an interruption; the exit code."""
    states = import_for("wakeword", "pretrain.task")

    def make(view: View, stopped: Stopped) -> _Written:
        heeded = states.watch_progress(view, stopped)
        whole = replace(task, words=tuple(source_folders(words, Place(), heeded))) if words else task
        done = import_for("wakeword", "wakeword.build").build_wake_pack(whole, watch=view, stopped=stopped)
        content = pack_bytes(done.pack)
        outcome = import_for("wakeword", "wakeword.outcome")
        return _Written(done, content, outcome.report_of(whole, done, run.out, len(content), command(run.ctx)))

    def write(made: _Written) -> None:
        write_durably(run.out, made.content)
        write_durably(page, import_for("wakeword", "wakeword.page").wake_page(made.report).encode())

    made = run.train(make, write)
    if made is None:
        return INTERRUPTED_CODE
    states.remove_state(run.folder, made.done.models)
    facts = {**made.report.facts(), "identity": made.pack.identity, "page": str(page)}
    return run.conclude(facts, made.done.corpus.corpus.findings, lambda: show(made.report, page))


def show(report: WakeReport, page: Path) -> None:
    """Print what was made as a table of 80 columns."""
    console = Console(width=WIDTH_COLUMNS)
    columns = [Column("wake word", 0, is_sentence=True), Column("threshold"), Column("heard", 0), Column("of", 0)]
    rows = [
        (
            each.word,
            f"{each.threshold:.4f}",
            "-" if each.hits is None else f"{each.hits / max(1, each.spoken):.0%}",
            f"{each.spoken}",
        )
        for each in report.thresholds
        if each.is_wake
    ]
    console.print(Grid(columns, lambda _short: rows))
    bounds = report.accepts_interval
    lines = (
        f"{report.false_accepts} false accepts in {report.hearing.hours:.1f} h "
        f"({bounds.low:.2f} to {bounds.high:.2f} an hour), judged by {report.hearing.data}.",
        f"{report.pack}: {report.size / 1e6:.2f} MB, made in {report.seconds / 60:.0f} min. Page: {page}",
    )
    told = [report.caution, *(row.sentence for row in report.people), report.advice]
    for line in (*lines, *filter(None, told)):
        console.print(line, markup=False, highlight=False)
