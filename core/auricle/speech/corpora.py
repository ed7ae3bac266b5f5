"""Published corpora of other sound, read in the layout that they come in: what each file is, and who or what made it.

| `--data` | corpus | label | client |
|---|---|---|---|
| `urbansound:DIR` | UrbanSound8K (Salamon et al. 2014) | class | none: fsID, the recording that a clip was cut from |
| `crema-d:DIR` | CREMA-D (Cao et al. 2014) | acted emotion | actor |
| `iemocap:DIR` | IEMOCAP (Busso et al. 2008), its improvised dialogues | emotion that its judges heard | actor |
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import DataError
from auricle.files import read_lines
from auricle.speech.sound_faults import Finding, SoundFault
from auricle.speech.sound_files import folder_names, sound_files

URBANSOUND_TABLE = Path("metadata") / "UrbanSound8K.csv"
URBANSOUND_COLUMNS = ("slice_file_name", "fsID", "fold", "class")
CREMA_D_AUDIO = "AudioWAV"
CREMA_D_EMOTIONS = {
    "ANG": "angry",
    "DIS": "disgusted",
    "FEA": "fearful",
    "HAP": "happy",
    "NEU": "neutral",
    "SAD": "sad",
}
IEMOCAP_EMOTIONS = {
    "ang": "angry",
    "dis": "disgusted",
    "exc": "happy",
    "fea": "fearful",
    "fru": "frustrated",
    "hap": "happy",
    "neu": "neutral",
    "sad": "sad",
    "sur": "surprised",
}
"""Excited ones count as happy: without them the improvised dialogues have fewer clips of four emotions than FedMLAC's
2,943 (table 2), which names none of the four."""

_CREMA_D_NAME = re.compile(r"(\d+)_[A-Z]+_([A-Z]+)_[A-Z]+")
_IEMOCAP_SESSION = re.compile(r"Session\d+")
_IEMOCAP_IMPROVISED = re.compile(r"(Ses\d+)[FM]_impro\w+")
_IEMOCAP_LINE = re.compile(r"\[[\d.]+ - [\d.]+\]\t(\w+)_([FM]\d+)\t([a-z]+)\t")
_FOLD = re.compile(r"\d{1,2}")


@dataclass(frozen=True, slots=True)
class CorpusClip:
    """A file of a corpus."""

    path: Path
    label: str
    origin: str
    """The person, or where nobody speaks the recording, that the clip is of."""


Listed = tuple[list[CorpusClip], list[Finding]]
"""The clips whose files are there, in the order of the corpus, and what was found in the others."""


@dataclass(frozen=True, slots=True)
class PublishedCorpus:
    """A corpus whose layout is known."""

    title: str
    words: str
    """Its usual labels: a name in `words.WORD_SETS`."""
    list_clips: Callable[[Path], Listed]
    """Of its folder; raises DataError, in a sentence, where this is another layout."""
    has_speakers: bool = True
    """Whether a clip says whose it is; else only which recording it was cut from."""


def split_corpus(data: str | Path) -> tuple[PublishedCorpus, Path] | None:
    """The corpus and the folder that `NAME:DIR` names; None where it is another folder or source."""
    name, colon, folder = str(data).partition(":")
    corpus = CORPORA.get(name)
    return None if corpus is None or not colon else (corpus, Path(folder).expanduser())


def folder_of(data: str | Path) -> Path:
    """The folder that `--data` names, also as `NAME:DIR`."""
    named = split_corpus(data)
    return Path(data) if named is None else named[1]


def list_corpus(corpus: PublishedCorpus, folder: Path) -> Listed:
    """List the clips of a corpus by name only; nothing is decoded.

    Raises
    ------
    DataError
        There is no such folder, it has another layout, or none of its files is there.
    """
    if not folder.is_dir():
        raise DataError(f"The folder {folder} of {corpus.title} does not exist: name the one that it was unpacked to.")
    clips, findings = corpus.list_clips(folder)
    if not clips:
        first = f" The first: {findings[0].sentence}" if findings else ""
        raise DataError(f"{folder} has no clip of {corpus.title} in its published layout.{first}")
    return clips, findings


def list_urbansound(root: Path) -> Listed:
    """`audio/fold<n>/<slice_file_name>` of `URBANSOUND_TABLE`; DataError where a column of it is missing."""
    table = root / URBANSOUND_TABLE
    if not table.is_file():
        raise DataError(f"{root} has no {URBANSOUND_TABLE}: name the folder that UrbanSound8K was unpacked to.")
    clips: list[CorpusClip] = []
    findings: list[Finding] = []
    for number, row in enumerate(_read_rows(table), start=2):
        name, recording, fold, label = (row[column] for column in URBANSOUND_COLUMNS)
        if not (name and recording and label and _FOLD.fullmatch(fold)) or Path(name).name != name:
            reason = "no file, recording, fold or class"
            findings.append(Finding(reason, f"Row {number} of {table} has {reason}."))
            continue
        path = root / "audio" / f"fold{fold}" / name
        if path.is_file():
            clips.append(CorpusClip(path, label, recording))
        else:
            findings.append(_absent(path))
    return clips, findings


def _read_rows(table: Path) -> Iterator[dict[str, str]]:
    """Rows of a table in CSV with the columns of UrbanSound8K, "" where a row is short."""
    rows = csv.DictReader(read_lines(table, refusal=DataError), restval="", strict=True)
    columns = rows.fieldnames or ()
    for column in URBANSOUND_COLUMNS:
        if column not in columns:
            there = ", ".join(columns)[:200] or "none"
            raise DataError(f'{table} has no column "{column}" but {there}: take the one that came with UrbanSound8K.')
    try:
        yield from rows
    except csv.Error as error:
        raise DataError(
            f"{table} is not a table in CSV ({error}): take the one that came with UrbanSound8K."
        ) from error


def list_crema_d(root: Path) -> Listed:
    """`AudioWAV/<actor>_<sentence>_<emotion>_<level>.wav`."""
    folder = root / CREMA_D_AUDIO
    if not folder.is_dir():
        raise DataError(f"{root} has no folder {CREMA_D_AUDIO}: name the folder of CREMA-D that has it.")
    clips: list[CorpusClip] = []
    findings: list[Finding] = []
    for path in sound_files(folder):
        name = _CREMA_D_NAME.fullmatch(path.stem)
        if name is None or name[2] not in CREMA_D_EMOTIONS:
            layout = f"<actor>_<sentence>_<{'|'.join(CREMA_D_EMOTIONS)}>_<level>"
            findings.append(Finding("a name without actor or emotion", f"{path} is not named {layout}."))
        else:
            clips.append(CorpusClip(path, CREMA_D_EMOTIONS[name[2]], name[1]))
    return clips, findings


def list_iemocap(root: Path) -> Listed:
    """`Session<n>/sentences/wav/<dialogue>/<utterance>.wav`, labelled in `Session<n>/dialog/EmoEvaluation/*.txt`.

    Utterances without a label of `IEMOCAP_EMOTIONS` (most of them "xxx", on which the judges did not agree) are none.
    """
    sessions = [name for name in folder_names(root) if _IEMOCAP_SESSION.fullmatch(name)]
    if not sessions:
        raise DataError(f"{root} has no Session1: name the folder of IEMOCAP that has its sessions.")
    clips: list[CorpusClip] = []
    findings: list[Finding] = []
    for session in sessions:
        labels = root / session / "dialog" / "EmoEvaluation"
        if not labels.is_dir():
            raise DataError(f"There is no {labels}, which has the labels of {session}: unpack all of IEMOCAP.")
        for name in folder_names(labels):
            dialogue = _IEMOCAP_IMPROVISED.fullmatch(Path(name).stem)
            if dialogue is None or not name.endswith(".txt"):
                continue
            for path, label, voice in _utterances(labels / name, root / session / "sentences" / "wav"):
                if path.is_file():
                    clips.append(CorpusClip(path, label, f"{dialogue[1]}{voice}"))
                else:
                    findings.append(_absent(path))
    return clips, findings


def _utterances(labels: Path, sound: Path) -> Iterator[tuple[Path, str, str]]:
    """File, label and "F" or "M" of each utterance of a dialogue that has a label."""
    for line in read_lines(labels, refusal=DataError):
        found = _IEMOCAP_LINE.match(line)
        if found is not None and (label := IEMOCAP_EMOTIONS.get(found[3])) is not None:
            yield sound / found[1] / f"{found[1]}_{found[2]}.wav", label, found[2][0]


def _absent(path: Path) -> Finding:
    return SoundFault.ABSENT.finding(f"There is no {path}, which has a label: unpack the whole corpus.")


CORPORA: Mapping[str, PublishedCorpus] = {
    "urbansound": PublishedCorpus("UrbanSound8K", "urbansound", list_urbansound, has_speakers=False),
    "crema-d": PublishedCorpus("CREMA-D", "emotions", list_crema_d),
    "iemocap": PublishedCorpus("IEMOCAP", "emotions", list_iemocap),
}
"""By the name before the colon of `--data NAME:DIR`."""
