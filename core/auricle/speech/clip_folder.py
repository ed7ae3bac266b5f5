"""Where recorded speech lies: a folder for each word, or a list in CSV; by name only, nothing is decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import DataError, SettingsError
from auricle.files import normal_form
from auricle.speech.sound_faults import Finding, SoundFault, count_findings, sentences_of
from auricle.speech.sound_files import folder_names, sound_files
from auricle.speech.speech_manifest import NOISE_FOLDER, Columns, RowError, audio_folder, read_manifest

SPEAKER_MARK = "_nohash_"
"""What stands between the speaker and the take in a file's name."""

LISTS = frozenset({".csv", ".tsv"})
"""What lists of recordings end with."""

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
    """What its name says before `_nohash_`; of a list, the start of the SHA-256 of the name there."""

    root: Path = Path()
    """The folder or list that names it."""


@dataclass(frozen=True, slots=True)
class ClipFolder:
    """What a folder in Speech Commands layout holds, by name only: nothing has been decoded."""

    root: Path
    """The folder, or the list."""

    clips: tuple[ClipFile, ...]
    """The recorded words, by word and then file name."""

    noise: tuple[Path, ...]
    """The files of `_background_noise_`, by name."""

    findings: tuple[Finding, ...]
    """Audio files whose name does not say who speaks, and rows of a list that cannot be used."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """The same, each as a sentence."""
        return sentences_of(self.findings)

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


def scan_folder(root: Path, *, noise_is_enough: bool = False, phrases: Collection[str] = ()) -> ClipFolder:
    """List a folder of the layout `<word>/<speaker>_nohash_<n>.wav` (or another file of sound), or a list in CSV.

    Sub-folders whose name starts with `_` or `.` are not words; of these only `_background_noise_` is looked into. A
    list gives the same clips, in the same order, as the folder that `auricle export import-speech` makes of it.

    Parameters
    ----------
    root
        The folder, or a `.csv` or `.tsv` file (`speech_manifest`).
    noise_is_enough
        Accept a folder that has background noise and no word.
    phrases
        Of a list, texts of several words that count as one word; a folder's name may have spaces anyway.

    Raises
    ------
    DataError
        There is no such folder, it cannot be listed, or no file in it is named as this layout asks; or no row of the
        list can be used.
    SettingsError
        A column is not in the list.
    """
    if root.suffix.lower() in LISTS and not root.is_dir():
        return _scan_list(root, noise_is_enough, phrases)
    if not root.is_dir():
        what = "is a file, not a folder" if root.exists() else "does not exist"
        raise DataError(
            f"The speech folder {root} {what}: name a folder that has one sub-folder a word, or a list in CSV."
        )
    clips: list[ClipFile] = []
    findings: list[Finding] = []
    for folder in _word_folders(root):
        for path in sound_files(folder):
            speaker, mark, _ = path.stem.partition(SPEAKER_MARK)
            if speaker and mark:
                clips.append(ClipFile(path, normal_form(folder.name), normal_form(speaker), root))
            else:
                said = f"{path} is not named <speaker>{SPEAKER_MARK}<n>{path.suffix}: rename it."
                findings.append(SoundFault.NAME.finding(said))
    noise_folder = root / NOISE_FOLDER
    noise = tuple(sound_files(noise_folder)) if noise_folder.is_dir() else ()
    if not clips and not (noise and noise_is_enough):
        raise DataError(_nothing_found(root, len(findings)))
    return ClipFolder(root, tuple(clips), noise, tuple(findings))


def describe_skipped(findings: Sequence[Finding]) -> str:
    """How many files or rows were left out, and the commonest reason with its first example; "" where none was."""
    left_out = [row for row in count_findings(findings) if not row.is_used]
    if not left_out:
        return ""
    count = sum(row.files for row in left_out)
    of_them = f", {left_out[0].files:,} of them: {left_out[0].reason}" if len(left_out) > 1 else ""
    first = left_out[0].example.rstrip(".")
    return f"{count:,} file{'s' * (count > 1)} left out{of_them}, the first: {first}"


def _scan_list(manifest: Path, noise_is_enough: bool, phrases: Collection[str]) -> ClipFolder:
    """What a list of recordings names; a row that another one says already counts once."""
    clips: dict[tuple[str, str], ClipFile] = {}
    noise: dict[str, Path] = {}
    findings: list[Finding] = []
    reasons: Counter[str] = Counter()
    rows = read_manifest(manifest, audio_folder(manifest), Columns(), sentences=False, phrases=phrases)
    for number, row in enumerate(rows, start=2):
        if isinstance(row, RowError):
            reasons[str(row)] += 1
            findings.append(Finding(str(row), f"Row {number} of {manifest}: {row}."))
        elif row is not None and row.text == NOISE_FOLDER:
            noise[row.name] = row.path
        elif row is not None:
            speaker = row.name.partition(SPEAKER_MARK)[0]
            clips[row.text, row.name] = ClipFile(row.path, row.text, speaker, manifest)
    if not clips and not (noise and noise_is_enough):
        why = "".join(f"; {count:,} of them: {reason}" for reason, count in reasons.most_common(1))
        raise DataError(f"No row of {manifest} names a word that was recorded{why}. {COLUMNS}")
    in_order = tuple(clip for _, clip in sorted(clips.items()))
    return ClipFolder(manifest, in_order, tuple(path for _, path in sorted(noise.items())), tuple(findings))


def _word_folders(root: Path) -> Iterator[Path]:
    for name in folder_names(root):
        folder = root / name
        if not name.startswith("_") and folder.is_dir():
            yield folder


def _nothing_found(root: Path, misnamed: int) -> str:
    layout = f"<word>/<speaker>{SPEAKER_MARK}<n>.wav or .flac"
    if misnamed:
        return f"None of the {misnamed} audio files in {root} is named as in {layout}: rename them so."
    loose = len(sound_files(root))
    if loose:
        return (
            f"The audio in {root} ({loose} file{'s' * (loose > 1)}) is in no folder of a word: lay it out as {layout}."
        )
    return f"There is no audio in {root}: it takes files laid out as {layout}."
