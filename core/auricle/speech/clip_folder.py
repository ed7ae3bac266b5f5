"""Where recorded speech lies: a folder for each word, a list in CSV, or a corpus; by name only, nothing is decoded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import DataError, SettingsError
from auricle.files import normal_form
from auricle.packs.manifest import SILENCE, SPECIAL_LABELS, UNKNOWN
from auricle.speech.corpora import PublishedCorpus, list_corpus, split_corpus
from auricle.speech.list_columns import Columns
from auricle.speech.list_rows import KALDI, SPEAKER_MARK
from auricle.speech.sound_faults import Finding, SoundFault, count_findings, sentences_of
from auricle.speech.sound_files import folder_names, raw_conversion, raw_files, sound_files
from auricle.speech.speech_manifest import (
    NOBODY,
    NOISE_FOLDER,
    RowError,
    audio_folder,
    digest,
    names_words,
    nobody_in,
    read_manifest,
)
from auricle.speech.spelling import Spelling

METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")
"""What lists the recordings of a folder of Hugging Face's audiofolder."""

_WORD_BEFORE = re.compile(r"[a-z]+_([0-9a-f]{8})")
COLUMNS = (
    "It takes the columns path, word and speaker; paths start from the list's folder, or from clips in it, and stay "
    "there: auricle export import-speech --audio DIR takes another."
)


@dataclass(frozen=True, slots=True)
class ClipFile:
    """One recorded word on disk."""

    path: Path
    """Where it lies."""

    word: str
    """The name of its folder, or what the list says; in Unicode's form NFC."""

    speaker: str
    """What its name says before `_nohash_`; of a list, the start of the SHA-256 of the name there. A file that does not
    say it is of a speaker of its own."""

    root: Path = Path()
    """The folder or list that names it."""

    is_nobody: bool = False
    """Whether nothing says who speaks."""


@dataclass(frozen=True, slots=True)
class ClipFolder:
    """What a folder in Speech Commands layout holds, by name only: nothing has been decoded."""

    root: Path
    """The folder, or the list."""

    clips: tuple[ClipFile, ...]
    """The recorded words, by word and then file name; those of `_unknown_` and `_silence_` among them."""

    noise: tuple[Path, ...]
    """The files of `_background_noise_`, by name."""

    findings: tuple[Finding, ...]
    """Sound that is passed over, rows of a list that cannot be used, and files that do not say who speaks."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """What is not used of it, each as a sentence."""
        return sentences_of(self.findings)

    @property
    def spoken(self) -> tuple[ClipFile, ...]:
        """The clips in which somebody speaks: all but those of `_silence_`."""
        return tuple(clip for clip in self.clips if clip.word != SILENCE)

    @property
    def without_speech(self) -> tuple[Path, ...]:
        """The noise, and the clips of `_silence_`."""
        return (*self.noise, *(clip.path for clip in self.clips if clip.word == SILENCE))

    def counts(self) -> dict[str, int]:
        """Count the clips of every word."""
        counts: dict[str, int] = {}
        for clip in self.clips:
            counts[clip.word] = counts.get(clip.word, 0) + 1
        return counts


def refuse_both_roles(words: Sequence[Path], languages: Sequence[Path]) -> None:
    """Refuse a folder whose names are taken both for words of this language and for those of another one.

    Raises
    ------
    SettingsError
        The sentence names it.
    """
    known = {folder.resolve() for folder in words}
    for folder in languages:
        if folder.resolve() in known:
            raise SettingsError(
                f"The folder {folder} is named for words of this language and for those of another one: "
                "name it for one of the two."
            )


def scan_folder(
    root: Path, *, noise_is_enough: bool = False, phrases: Collection[str] = (), loose: str = "", speaker: str = ""
) -> ClipFolder:
    """List a folder of the layout `<word>/<speaker>_nohash_<n>.wav` (or another file of sound), a list, or a corpus.

    Of sub-folders whose name starts with `_`, `_unknown_` and `_silence_` hold clips of these labels and
    `_background_noise_` the noise; sound in others, beside the folders of words and in folders inside them is passed
    over, and counted in the findings. A list gives the same clips, in the same order, as the folder that `auricle
    export import-speech` makes of it. A folder that holds Kaldi's or Hugging Face's list is read by that.

    Parameters
    ----------
    root
        The folder, or a list (`list_rows`), or a corpus and its folder as `NAME:DIR` (`corpora`).
    noise_is_enough
        Accept a folder that has background noise and no word.
    phrases
        Words as they are to be written, such as a pack's labels, however the folder or list writes them; of a list,
        those of several words count as one word.
    loose
        What is said in files that lie in no folder of a word, where all do; empty: they are passed over.
    speaker
        Who says what names nobody; empty: each file a speaker of its own.

    Raises
    ------
    DataError
        There is no such folder, it cannot be listed, or it holds no sound in this layout; or no row of the list can be
        used.
    SettingsError
        A column is not in the list.
    """
    named = split_corpus(root)
    if named is not None:
        return _scan_corpus(*named, root)
    lists = _list_inside(root) if root.is_dir() else root if root.exists() else None
    if lists is not None:
        return _scan_list(lists, root, noise_is_enough, phrases, speaker)
    if not root.is_dir():
        raise DataError(
            f"The speech folder {root} does not exist: name a folder that has one sub-folder a word, or a list."
        )
    spelling = Spelling(phrases)
    clips: list[ClipFile] = []
    findings: list[Finding] = []
    for name in _word_folders(root):
        word = name if name in SPECIAL_LABELS else spelling.as_known(name)
        clips += _clips_of_word(sound_files(root / name), word, root, speaker)
        findings += _find_unread(root / name)
    if loose and not clips:
        clips += _clips_of_word(sound_files(root), loose, root, speaker)
    else:
        findings += [_beside(path, root) for path in sound_files(root)]
    findings += [SoundFault.RAW.finding(f"{path} {raw_conversion(path)}") for path in raw_files(root)]
    findings += [nobody_in(clip.path) for clip in clips if clip.is_nobody]
    findings += _other_folders(root)
    noise_folder = root / NOISE_FOLDER
    noise = tuple(sound_files(noise_folder)) if noise_folder.is_dir() else ()
    if not clips and not (noise and noise_is_enough):
        raise DataError(_nothing_there(root, findings))
    return ClipFolder(root, tuple(sorted(clips, key=lambda clip: clip.word)), noise, tuple(findings))


def describe_skipped(findings: Sequence[Finding]) -> str:
    """How many files or rows were left out, and the commonest reason with its first example; "" where none was."""
    left_out = [row for row in count_findings(findings) if not row.is_used]
    if not left_out:
        return ""
    count = sum(row.files for row in left_out)
    of_them = f", {left_out[0].files:,} of them: {left_out[0].reason}" if len(left_out) > 1 else ""
    first = left_out[0].example.rstrip(".")
    return f"{count:,} file{'s' * (count > 1)} left out{of_them}, the first: {first}"


def _scan_list(manifest: Path, root: Path, noise_is_enough: bool, phrases: Collection[str], speaker: str) -> ClipFolder:
    """What a list of recordings names; a row that another one says already counts once."""
    clips: dict[tuple[str, str], ClipFile] = {}
    noise: dict[str, Path] = {}
    findings: list[Finding] = []
    reasons: Counter[str] = Counter()
    rows = read_manifest(manifest, audio_folder(manifest), Columns(), sentences=False, phrases=phrases, speaker=speaker)
    for number, row in rows:
        if isinstance(row, RowError):
            reasons[str(row)] += 1
            findings.append(Finding(str(row), f"Row {number} of {manifest}: {row}."))
        elif row is not None and row.text == NOISE_FOLDER:
            noise[row.name] = row.path
        elif row is not None:
            if not row.has_speaker and (row.text, row.name) not in clips:
                findings.append(nobody_in(f"Row {number} of {manifest}"))
            said_by = row.name.partition(SPEAKER_MARK)[0]
            clips[row.text, row.name] = ClipFile(row.path, row.text, said_by, root, is_nobody=not row.has_speaker)
    if not clips and not (noise and noise_is_enough):
        why = "".join(f"; {count:,} of them: {reason}" for reason, count in reasons.most_common(1))
        raise DataError(f"No row of {manifest} names a word that was recorded{why}. {COLUMNS}")
    in_order = tuple(clip for _, clip in sorted(clips.items(), key=lambda item: item[0]))
    return ClipFolder(root, in_order, tuple(path for _, path in sorted(noise.items())), tuple(findings))


def _scan_corpus(corpus: PublishedCorpus, folder: Path, root: Path) -> ClipFolder:
    clips, findings = list_corpus(corpus, folder)
    files = (ClipFile(clip.path, clip.label, clip.origin, root) for clip in clips)
    return ClipFolder(root, tuple(sorted(files, key=lambda clip: clip.word)), (), tuple(findings))


def _list_inside(folder: Path) -> Path | None:
    """The list by which a folder of Kaldi or of Hugging Face's audiofolder says what its recordings are."""
    for file in (folder / name for name in (KALDI, *METADATA)):
        if file.is_file() and names_words(file):
            return file
    return None


def _clips_of_word(paths: Sequence[Path], word: str, root: Path, speaker: str) -> Iterator[ClipFile]:
    """Clips of one word, with the speakers that their names say; Speech Commands' tests put the word before it."""
    for path in paths:
        said_by, mark, _ = path.stem.partition(SPEAKER_MARK)
        if word == UNKNOWN and (found := _WORD_BEFORE.fullmatch(said_by)):
            said_by = found[1]
        if said_by and mark:
            yield ClipFile(path, word, normal_form(said_by), root)
        else:
            each = speaker or digest(f"{NOBODY}{normal_form(f'{path.parent.name}/{path.name}')}")[:12]
            yield ClipFile(path, word, each, root, is_nobody=not speaker and word not in SPECIAL_LABELS)


def _find_unread(folder: Path) -> list[Finding]:
    """What a folder of a word holds that is not read: sound in folders inside it, and raw samples."""
    inside = [path for path in sound_files(folder, deep=True) if path.parent != folder]
    deeper = [SoundFault.INSIDE.finding(f"{path} is in a folder inside that of a word: move it up.") for path in inside]
    return [*deeper, *(SoundFault.RAW.finding(f"{path} {raw_conversion(path)}") for path in raw_files(folder))]


def _beside(path: Path, root: Path) -> Finding:
    layout = f"<word>/<speaker>{SPEAKER_MARK}<n>{path.suffix}"
    return SoundFault.BESIDE.finding(f"{path} is in no folder of a word: lay it out as {root.name}/{layout}.")


def _other_folders(root: Path) -> list[Finding]:
    """Sound in sub-folders whose name starts with `_` and says nothing."""
    names = [
        name for name in folder_names(root) if name.startswith("_") and name not in (NOISE_FOLDER, *SPECIAL_LABELS)
    ]
    return [
        SoundFault.UNDERSCORE.finding(f"{path} is in {name}, which is no word: rename the folder.")
        for name in names
        if (root / name).is_dir()
        for path in sound_files(root / name, deep=True)
    ]


def _word_folders(root: Path) -> Iterator[str]:
    for name in folder_names(root):
        if (not name.startswith("_") or name in SPECIAL_LABELS) and (root / name).is_dir():
            yield name


def _nothing_there(root: Path, findings: Sequence[Finding]) -> str:
    layout = f"<word>/<speaker>{SPEAKER_MARK}<n>.wav or .flac"
    loose = [row for row in findings if row.reason == SoundFault.BESIDE.value]
    if loose:
        return (
            f"The audio in {root} ({len(loose)} file{'s' * (len(loose) > 1)}) is in no folder of a word: lay it out as "
            f"{layout}."
        )
    tables = sorted(name for name in folder_names(root) if name.endswith((".parquet", ".arrow")))
    if tables:
        return f"{root} holds tables and no recordings: name one of them, as in {root / tables[0]}."
    if findings:
        return f"No file of sound in {root} is in a folder of a word. {findings[0].sentence}"
    return f"There is no audio in {root}: it takes files laid out as {layout}."
