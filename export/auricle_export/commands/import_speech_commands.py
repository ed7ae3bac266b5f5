"""`auricle export import-speech`: a collection with a manifest into Speech Commands layout."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from auricle.process.bars import TimeLeft
from auricle.process.table import progress_bars
from auricle.process.times import how_many
from auricle.speech.list_columns import Columns
from auricle.speech.sound_faults import findings_table
from auricle.speech.spelling import small_forms
from auricle_export.commands.command_line import import_for

if TYPE_CHECKING:
    from auricle_export.speech.import_speech import ImportReport


def import_speech(
    manifest: Path = typer.Argument(
        ..., help="A list: CSV or TSV with a header, JSON lines as of NeMo, Kaldi's wav.scp, testing_list.txt, Parquet."
    ),
    out: Path = typer.Option(..., help="Folder to write: <word>/<speaker>_nohash_<n>.flac."),
    audio: Path | None = typer.Option(
        None, help="Folder that the manifest's paths start from [clips beside it, or its own]."
    ),
    words: str | None = typer.Option(None, help='Only these words and phrases, as in "stop,hey jarvis" [all words].'),
    most: int | None = typer.Option(None, help="At most so many clips of a word [all]."),
    window: float = typer.Option(1.0, help="Seconds to keep of each word, 0.5 to 4: the pack's window."),
    running: bool = typer.Option(False, help="Keep whole sentences, in the folder speech, as sound without keywords."),
    without: str | None = typer.Option(None, help="Leave out sentences that hold one of these, separated by commas."),
    path_column: str | None = typer.Option(None, help="The column of the file [path, file_name, audio_filepath]."),
    word_column: str | None = typer.Option(None, help="The column of what is said [word, command, label, text]."),
    speaker_column: str | None = typer.Option(None, help="The column of who speaks [speaker, client_id]."),
    speaker: str = typer.Option("", help="Who says the rows that name nobody [each a speaker of its own]."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Convert recordings with a manifest to the Speech Commands layout: 16 kHz, clips of one length, speakers hashed.

    Reads wav, AIFF, CAF, AU, FLAC, Ogg, Opus and MP3. Run again after an interruption: what is there stays.
    """
    work = import_for("import-speech", "speech.import_speech")
    settings = work.ImportSettings(
        manifest,
        out,
        audio,
        Columns(path_column, word_column, speaker_column),
        _parse_words(words),
        most,
        running,
        _parse_words(without),
        window,
        speaker,
    )
    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with progress_bars(*columns, hidden=as_json) as bar:
        task = bar.add_task("importing", total=None)
        report = work.import_speech(settings, lambda done, total: bar.update(task, completed=done, total=total))
    typer.echo(json.dumps(_facts(report)) if as_json else _summary(report, out))


def _parse_words(words: str | None) -> frozenset[str]:
    return frozenset(form for word in (words or "").split(",") if word.strip() for form in small_forms(word))


def _facts(report: ImportReport) -> dict[str, object]:
    return {
        "written": report.written,
        "there": report.there,
        "passed_over": report.passed_over,
        "words": len(report.words),
        "speakers": len(report.speakers),
        "bad": dict(report.bad.most_common()),
        "findings": [asdict(row) for row in report.counts],
    }


def _summary(report: ImportReport, out: Path) -> str:
    lines = [
        f"{how_many(report.written, 'clip')} written to {out}, {report.there:,} were there; "
        f"{how_many(len(report.words), 'word')}, {how_many(len(report.speakers), 'speaker')}"
    ]
    if report.passed_over:
        lines.append(f"{report.passed_over:,} rows passed over: other words, or more than --most")
    if report.findings:
        lines.append(findings_table(report.counts))
    return "\n".join(lines)
