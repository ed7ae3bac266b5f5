"""The recordings that scenes are composed of, from folders of one part of the speakers, or one with a label file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auricle.errors import DataError
from auricle.files import normal_form, read_text
from auricle.hearing.curve import WITHIN_SECONDS
from auricle.hearing.scenes import Piece, Scene, Spoken, Stretch
from auricle.hearing.sounds import Sound, Take, fingerprint, pcm
from auricle.hearing.splits import Part, clips_of, noises_of, readings_of, twin_groups
from auricle.speech.audio import CLIP_SAMPLES, SAMPLE_RATE, fit_clip, read_recording
from auricle.speech.clip_folder import ClipFile, ClipFolder, refuse_both_roles, scan_folder
from auricle.speech.sound_faults import Finding, SoundError, nothing_usable
from auricle.speech.sound_files import sound_files
from auricle.speech.spelling import Spelling


@dataclass(frozen=True)
class Folders:
    """Where the recordings are."""

    keywords: tuple[Path, ...] = ()
    """`<word>/<speaker>_nohash_<n>.(wav|flac)`."""
    noise: tuple[Path, ...] = ()
    speech: tuple[Path, ...] = ()
    """Running speech, one recording a file, with the reader's name before the first hyphen."""
    words: tuple[Path, ...] = ()
    """As `keywords`: what is not a keyword there is another word."""
    languages: tuple[Path, ...] = ()
    """As `words`, in other languages: no keywords, whatever their folders are called."""
    left_out: tuple[Path, ...] = ()
    """As `keywords`: speakers in these folders are left out of all."""
    television: tuple[Path, ...] = ()
    """What a television plays; of no part."""
    music: tuple[Path, ...] = ()
    """What a loudspeaker plays; of no part."""


@dataclass(frozen=True, eq=False)
class Sources:
    """Recordings in memory."""

    keywords: tuple[Take, ...]
    words: tuple[Take, ...]
    languages: tuple[Take, ...]
    speech: tuple[Sound, ...]
    noise: tuple[Sound, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    """Where each recording lies in its folder, by its `fingerprint`."""
    findings: tuple[Finding, ...] = ()
    """What was found in files that could not be used, or not as they stand."""
    television: tuple[Sound, ...] = ()
    music: tuple[Sound, ...] = ()

    def missing(self, folders: Folders) -> list[str]:
        """Kinds of recordings of which a folder was named and nobody there is of the part."""
        kinds = ("keywords", "words", "languages", "speech", "noise")
        return [kind for kind in kinds if getattr(folders, kind) and not getattr(self, kind)]

    @property
    def speakers(self) -> int:
        """How many people say the keywords."""
        return len({take.speaker for take in self.keywords})


def read_sources(
    folders: Folders, keywords: Sequence[str], parts: Sequence[Part], clip_samples: int = CLIP_SAMPLES
) -> Sources:
    """Read what belongs to these parts of the speakers, readers and noises; to all of them where none is named.

    Recordings of single words are brought to `clip_samples`, those of the pack's window (`fit_clip`).
    Without a folder of noise, it is `_background_noise_` of the folders with keywords; without one of other words, it
    is what is not a keyword in these. A file that cannot be used is left out; the findings say why.

    Raises
    ------
    DataError
        A folder is missing or holds nothing of what it should, or nothing that can be used.
    SettingsError
        A folder is named for words of this language and of other ones.
    """
    refuse_both_roles((*folders.keywords, *folders.words), folders.languages)
    left_out = {clip.speaker for folder in folders.left_out for clip in scan_folder(folder, phrases=keywords).clips}
    only = keywords[0] if len(keywords) == 1 else ""
    of_words = [_Scanned(folder, keywords, parts, left_out, only) for folder in folders.keywords]
    others = [_Scanned(folder, keywords, parts, left_out) for folder in folders.words] or of_words
    foreign = [_Scanned(folder, keywords, parts, left_out) for folder in folders.languages]
    noise = list(_files(folders.noise)) or [path for scanned in of_words for path in scanned.folder.without_speech]
    reading = _Reading()
    for scanned in dict.fromkeys((*of_words, *others, *foreign)):
        reading.findings += scanned.folder.findings
    return Sources(
        keywords=reading.takes(of_words, lambda word: word in keywords, clip_samples),
        words=reading.takes(others, lambda word: word not in keywords, clip_samples),
        languages=reading.takes(foreign, lambda _: True, clip_samples),
        speech=reading.whole(readings_of(_files(folders.speech), *parts)),
        noise=reading.whole(noises_of(noise, *parts)),
        television=reading.whole(_files(folders.television)),
        music=reading.whole(_files(folders.music)),
        names=reading.names,
        findings=tuple(dict.fromkeys(reading.findings)),
    )


class _Scanned:
    """A folder of words, and its clips of the parts."""

    def __init__(
        self, root: Path, keywords: Sequence[str], parts: Sequence[Part], left_out: set[str], loose: str = ""
    ) -> None:
        self.folder: ClipFolder = scan_folder(root, phrases=keywords, loose=loose)
        self.clips: list[ClipFile] = clips_of(self.folder.spoken, *parts, leave_out=left_out, groups=twin_groups(root))


class _Reading:
    """Reads what can be read, and keeps the names of the recordings and what was found in files."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.findings: list[Finding] = []

    def takes(self, folders: Sequence[_Scanned], wanted: Callable[[str], bool], length: int) -> tuple[Take, ...]:
        """The recordings of the wanted words, of so many samples each."""
        clips = [clip for scanned in folders for clip in scanned.clips if wanted(clip.word)]
        sounds = self._read([clip.path for clip in clips])
        takes = [
            (clip, Take(clip.word, clip.speaker, fit_clip(sounds[clip.path], length)))
            for clip in clips
            if clip.path in sounds
        ]
        for clip, take in takes:
            self._call(take.sound, clip.path)
        return tuple(take for _, take in takes)

    def whole(self, paths: Iterable[Path]) -> tuple[Sound, ...]:
        """The recordings, whole."""
        sounds = self._read(list(paths))
        for path, sound in sounds.items():
            self._call(sound, path)
        return tuple(sounds.values())

    def _read(self, paths: Sequence[Path]) -> dict[Path, Sound]:
        """What can be used; DataError where there are files and none can."""
        sounds: dict[Path, Sound] = {}
        found: list[Finding] = []
        for path in paths:
            try:
                recording = read_recording(path)
            except SoundError as error:
                found.append(error.finding)
                continue
            sounds[path] = recording.samples
            found += recording.findings
        if paths and not sounds:
            raise DataError(nothing_usable(paths[0].parent, found))
        self.findings += found
        return sounds

    def _call(self, sound: Sound, path: Path) -> None:
        """Name a recording by the end of its path, as long as it takes for no other to have the same."""
        taken, parts = set(self.names.values()), path.parts
        short = ("/".join(parts[-length:]) for length in range(2, len(parts) + 1))
        self.names.setdefault(fingerprint(sound), next((name for name in short if name not in taken), str(path)))


def _files(folders: Sequence[Path]) -> list[Path]:
    """The recordings in folders and in folders of these, by name."""
    found: list[Path] = []
    for folder in folders:
        inside = sound_files(folder, deep=True) if folder.is_dir() else []
        if not inside:
            raise DataError(f"There is no file of sound in {folder}: name a folder of recordings.")
        found += inside
    return found


RECORDING = "recording"
LONGEST_SECONDS = 2 * 3600
"""Seconds of a recording with labels."""
LONGEST_WORD = 10.0
"""Seconds of a label with a keyword."""
LATE_SECONDS = 1.0
"""Seconds by which a label may end after its recording, as labels that are drawn by hand do."""


def read_labels(path: Path) -> list[tuple[float, float, str]]:
    """Start, end and word of each label, by start: seconds, and the text in Unicode's form NFC.

    Lines that begin with a backslash, Audacity's frequency ranges, are passed over. A label without length, which
    Audacity makes of a point, ends where it starts.

    Raises
    ------
    DataError
        The file cannot be read, is not a text, or a line is not a label of the first `LONGEST_SECONDS` seconds;
        the sentence names it.
    """
    found = []
    for number, line in enumerate(read_text(path, "The labels", refusal=DataError).splitlines(), 1):
        if not line.strip() or line.startswith("\\"):
            continue
        found.append(_label(line, f"{path}, line {number}"))
    return sorted(found)


def _label(line: str, where: str) -> tuple[float, float, str]:
    start, _, rest = line.partition("\t")
    end, _, word = rest.partition("\t")
    try:
        times = float(start.replace(",", ".")), float(end.replace(",", "."))
    except ValueError as error:
        raise DataError(f"{where} is not start<TAB>end<TAB>word in seconds: {line[:60]!r}.") from error
    if not (0 <= times[0] <= times[1] < math.inf and word.strip()):
        raise DataError(f"{where} needs a start, an end after it, and a word: {line[:60]!r}.")
    if times[1] > LONGEST_SECONDS:
        raise DataError(
            f"{where} ends after {LONGEST_SECONDS:,} seconds, which is as long as a recording may be: cut both."
        )
    return *times, normal_form(word.strip())


def read_scene(sound: Path, labels: Path, keywords: Sequence[str], findings: list[Finding] | None = None) -> Scene:
    """A recording as a scene: labels with a keyword are keywords; where none is, it is sound without keywords.

    From a keyword's start to `WITHIN_SECONDS` after its end a detection is a hit or a wrong word, not a false accept.
    Labels with another text are there for people. What is found in the recording, although it is used, goes to
    `findings`.

    Raises
    ------
    DataError
        One of the files cannot be read, a label begins after the recording's end or ends over `LATE_SECONDS` after it,
        or one with a keyword is longer than `LONGEST_WORD`.
    """
    spelling = Spelling(keywords)
    found = [(start, end, spelling.as_known(word)) for start, end, word in read_labels(labels)]
    recording = read_recording(sound, LONGEST_SECONDS)
    if findings is not None:
        findings += recording.findings
    samples = pcm(recording.samples)
    seconds = len(samples) / SAMPLE_RATE
    for start, end, word in found:
        if start >= seconds or end > seconds + LATE_SECONDS:
            raise DataError(f'{labels} has "{word[:60]}" after the end of {sound}: are they of one recording?')
        if word in keywords and end - start > LONGEST_WORD:
            raise DataError(
                f'{labels} has "{word}" for {end - start:g} seconds from {start:g} on: draw it around the word.'
            )
    words = tuple(
        Spoken(word, round(start * SAMPLE_RATE), round(end * SAMPLE_RATE), sound.stem, RECORDING, math.nan)
        for start, end, word in found
        if word in keywords
    )
    stretches, free = [], 0
    for spoken in (*words, None):
        until = len(samples) if spoken is None else spoken.start
        if until > free:
            stretches.append(Stretch(RECORDING, free, until))
        if spoken is not None:
            free = max(free, spoken.end + round(WITHIN_SECONDS * SAMPLE_RATE) + 1)
    return Scene(samples, words, tuple(stretches), (Piece(str(sound), 0, len(samples)),))
