"""Everything that a training meets: recordings by part, words by voices, running speech, other languages, noise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.sounds import Take
from auricle.hearing.splits import Part, clips_of, noises_of, readings_of, twin_groups
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.audio import read_audio, read_recording
from auricle.speech.clip_folder import ClipFile, scan_folder
from auricle.speech.clip_reader import read_each
from auricle.speech.features import LogMel
from auricle.speech.sound_faults import Finding, SoundError, nothing_usable
from auricle.speech.sound_files import sound_files
from auricle_export.pretrain.espeak_sounds import speak_alike, speak_greetings, speak_words
from auricle_export.pretrain.other_voices import Negatives, Spoken, open_voice, speak_negatives
from auricle_export.pretrain.sounds import Sounds, lay_out
from auricle_export.pretrain.windows import Bank
from auricle_export.speech.import_speech import RUNNING_FOLDER

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""
Sound = NDArray[np.float32]

LEAST_SAMPLES = 1_600


@dataclass(frozen=True)
class Sources:
    """Where a training's sound comes from."""

    words: tuple[Path, ...]
    """Folders of single words, `<word>/<speaker>_nohash_<n>`, with `_background_noise_` at will."""
    running: tuple[Path, ...] = ()
    """Folders of running speech without transcript, `<reader>-...`."""
    noise: tuple[Path, ...] = ()
    """Folders of noise."""
    leave_out: tuple[Path, ...] = ()
    """Folders of single words whose speakers are heard in no part."""
    voices: int = 100
    takes: int = 4
    """How often each espeak voice says a keyword."""
    other_voices: int = 80
    other_takes: int = 30
    """How often espeak says each text that is not a keyword."""
    wake: tuple[str, ...] = ()
    """Keywords that come before other keywords."""
    languages: tuple[Path, ...] = ()
    """As `words`, of other languages: no keywords, whatever their folders are called."""
    spoken: Spoken | None = None
    """What another voice than espeak-ng's says, which holds no keyword."""


@dataclass(frozen=True, eq=False)
class Heard:
    """The recordings of one part."""

    keywords: tuple[Take, ...]
    others: tuple[Take, ...]
    """Single words that are no keyword."""
    running: tuple[Sound, ...]
    noise: tuple[Sound, ...]
    languages: tuple[Take, ...] = ()
    """Single words of other languages, whatever they are called."""
    findings: tuple[Finding, ...] = ()
    """What was found in files that could not be used, or not as they stand."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """What a training has."""

    labels: tuple[str, ...]
    bank: Bank
    """The training part."""
    validation: Heard
    """People alone: thresholds are chosen by what they say."""
    test: Heard
    clips: int
    """Recorded single words in the training part."""
    speakers: int
    seconds: float
    """Of running speech in the training part."""
    digest: str
    """SHA-256 of all that is trained on."""
    findings: tuple[Finding, ...] = ()
    """What was found in files that could not be used, or not as they stand."""
    voiced: Negatives = field(default_factory=Negatives)
    """What another voice than espeak-ng's says, for the validation part."""

    @property
    def for_checkpoints(self) -> Heard:
        """People of the validation part and what another voice says there: by these a checkpoint is chosen.

        No threshold is: near misses by a synthesiser are closer to the words than people's speech (docs/pretrain.md).
        """
        heard = self.validation
        return replace(
            heard,
            others=(*heard.others, *self.voiced.near),
            languages=(*heard.languages, *self.voiced.foreign),
        )


def read_part(sources: Sources, labels: Sequence[str], part: Part, progress: Progress = lambda *_: None) -> Heard:
    """Read the recordings whose speakers, readers and noises are of one part; one that two folders hold counts once.

    A file that cannot be used is left out; the findings say why.

    Raises
    ------
    DataError
        A folder cannot be read, or holds nothing of what it is named for, or nothing that can be used.
    """
    strangers = {clip.speaker for root in sources.leave_out for clip in scan_folder(root, phrases=labels).clips}
    files: list[tuple[Path, ClipFile]] = []
    noise: list[tuple[Path, Path]] = []
    findings: list[Finding] = []
    for root in (*sources.words, *sources.languages):
        found = scan_folder(root, noise_is_enough=True, phrases=labels)
        kept = clips_of(found.spoken, part, leave_out=strangers, groups=twin_groups(root))
        files += [(root, file) for file in kept]
        noise += [(root, path) for path in found.without_speech]
        findings += found.findings if part == "train" else ()
    for root in sources.noise:
        noise += [(root, path) for path in sound_files(root, deep=True)]
    takes: list[Take] = []
    foreign: list[Take] = []
    first: dict[bytes, Path] = {}
    for done, (root, file) in enumerate(files):
        progress(f"reading {part} words", done + 1, len(files))
        try:
            recording = read_recording(file.path)
        except SoundError as error:
            findings.append(error.finding)
            continue
        sound = recording.samples
        findings += recording.findings
        if first.setdefault(hashlib.sha256(sound.data).digest(), root) == root:
            (foreign if root in sources.languages else takes).append(Take(file.word, file.speaker, sound))
    if files and not takes and not foreign:
        raise DataError(nothing_usable(_join_names(sources.words), findings, f"word of the {part} part"))
    readings = [path for root in sources.running for path in _audio(root)]
    running = _sounds(readings_of(readings, part), sources.running, f"running speech of the {part} part", findings)
    noises = _sounds(noises_of(_once(noise), part), sources.noise, f"noise of the {part} part", findings)
    keywords = set(labels) - SPECIAL_LABELS
    return Heard(
        keywords=tuple(take for take in takes if take.word in keywords),
        others=tuple(take for take in takes if take.word not in keywords),
        running=running,
        noise=noises,
        languages=tuple(foreign),
        findings=tuple(findings),
    )


def _sounds(paths: Sequence[Path], roots: Sequence[Path], what: str, findings: list[Finding]) -> tuple[Sound, ...]:
    """The recordings that can be used; DataError where there are some and none can."""
    sounds, found = read_each(paths)
    if paths and not sounds:
        raise DataError(nothing_usable(_join_names(roots) or paths[0].parent, found, what))
    findings += found
    return tuple(sounds)


def _join_names(roots: Sequence[Path]) -> str:
    return " and ".join(map(str, roots))


def _once(noise: Sequence[tuple[Path, Path]]) -> list[Path]:
    """The noises (folder, file) but those that an earlier folder holds: as wav in one and FLAC in another, for example.

    The part of a noise depends on its file's whole name, so that such a noise could be in two parts.
    """
    kept: dict[str, list[tuple[Path, Path]]] = {}
    for root, path in noise:
        alike = kept.setdefault(path.stem, [])
        twins = [other for folder, other in alike if folder != root]
        if not twins or not any(_are_alike(path, other) for other in twins):
            alike.append((root, path))
    chosen = {path for alike in kept.values() for _, path in alike}
    return [path for _, path in noise if path in chosen]


def _are_alike(one: Path, other: Path) -> bool:
    try:
        return np.array_equal(read_audio(one), read_audio(other))
    except SoundError:  # told when the part is read
        return False


def _audio(root: Path) -> list[Path]:
    """The files of a folder, or of `speech` in it, where `auricle export import-speech --running` puts them."""
    found: list[Path] = []
    for folder in (root, root / RUNNING_FOLDER):
        found = found or (sound_files(folder) if folder.is_dir() else [])
    if not found:
        raise DataError(f"The folder {root} holds no file of running speech: name the folder of the files.")
    return found


def make_corpus(
    sources: Sources, labels: Sequence[str], frontend: LogMel, seed: int, progress: Progress = lambda *_: None
) -> Corpus:
    """Read and synthesise all that a training meets.

    Raises
    ------
    DataError
        A keyword that no speaker of the training part says, no running speech, or no noise; or a voice is not there.
    SettingsError
        As of `open_voice`.
    """
    voice = open_voice(sources.spoken) if sources.spoken else None
    train, validation, test = (read_part(sources, labels, part, progress) for part in ("train", "validation", "test"))
    words = [label for label in labels if label not in SPECIAL_LABELS]
    missing = sorted(set(words) - {take.word for take in train.keywords})
    if missing:
        raise DataError(f'No speaker of the training part says "{missing[0]}": add recordings of it by more speakers.')
    for what, sounds in (("other words", train.others), ("running speech", train.running), ("noise", train.noise)):
        if not sounds:
            raise DataError(f"A training of words that are listened for needs {what}: name a folder of it.")
    place = {label: number for number, label in enumerate(labels)}
    synthetic = speak_words(words, sources.voices, sources.takes, seed, progress)
    alike = speak_alike(words, sources.other_voices, sources.other_takes, seed, progress)
    said: dict[Part, Negatives] = {"train": Negatives(), "validation": Negatives()}
    if voice is not None and sources.spoken is not None:
        said = speak_negatives(voice, sources.spoken, words, seed, progress)
    whole = hashlib.sha256()

    def laid(sounds: Sequence[Sound], targets: Sequence[int] | None = None) -> Sounds:
        add_to_digest(whole, sounds, targets)
        return lay_out_long(sounds, frontend, targets)

    bank = Bank(
        keywords=laid([t.sound for t in train.keywords], [place[t.word] for t in train.keywords]),
        spoken=laid([sound for _, sound in synthetic], [place[word] for word, _ in synthetic]),
        others=laid([take.sound for take in (*train.others, *train.languages, *said["train"].foreign)]),
        alike=laid([*alike, *(take.sound for take in said["train"].near)]),
        running=laid(train.running),
        noise=laid(train.noise),
        leading=laid(_leading(train, synthetic, sources, seed, progress)) if sources.wake else None,
    )
    takes = (*train.keywords, *train.others, *train.languages)
    return Corpus(
        labels=tuple(labels),
        bank=bank,
        validation=validation,
        test=test,
        clips=len(takes),
        speakers=len({take.speaker for take in takes}),
        seconds=bank.running.seconds,
        digest=whole.hexdigest(),
        findings=(*train.findings, *validation.findings, *test.findings),
        voiced=said["validation"],
    )


def _leading(
    train: Heard, synthetic: Sequence[tuple[str, Sound]], sources: Sources, seed: int, progress: Progress
) -> list[Sound]:
    """What comes before a wake word or a command: greetings by espeak, and wake words by people and by espeak."""
    greetings = speak_greetings(sources.voices, seed + 1, progress)
    wakes = [take.sound for take in train.keywords if take.word in sources.wake]
    return [*greetings, *wakes, *(sound for word, sound in synthetic if word in sources.wake)]


def lay_out_long(sounds: Sequence[Sound], frontend: LogMel, targets: Sequence[int] | None = None) -> Sounds:
    """As `lay_out`, without what is shorter than `LEAST_SAMPLES`."""
    long_enough = [len(sound) >= LEAST_SAMPLES for sound in sounds]
    kept = None if targets is None else [t for t, fits in zip(targets, long_enough, strict=True) if fits]
    return lay_out([sound for sound, fits in zip(sounds, long_enough, strict=True) if fits], frontend, kept)


def add_to_digest(whole: hashlib._Hash, sounds: Sequence[Sound], targets: Sequence[int] | None) -> None:
    """Samples, lengths and labels: energies would be others in their last bits with another number of threads."""
    whole.update(np.array([len(sounds), *map(len, sounds)], np.int64).data)
    whole.update(np.array([] if targets is None else targets, np.int64).data)
    for sound in sounds:
        whole.update(np.ascontiguousarray(sound).data)
