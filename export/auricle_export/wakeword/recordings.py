"""What somebody recorded for an own wake word, by part: takes of the phrases, and everything else that is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from auricle.errors import DataError
from auricle.hearing.sounds import Take, fingerprint
from auricle.hearing.splits import PARTS, Part, part_of, twin_groups
from auricle.speech.audio import read_recording
from auricle.speech.clip_folder import scan_folder
from auricle.speech.sound_faults import Finding, SoundError, nothing_usable
from auricle.speech.speech_manifest import nobody_in
from auricle_export.pretrain.corpus import Heard, Progress, Sources, read_part
from auricle_export.wakeword.task import WakeTask

SPEAKERS = 20
"""With fewer speakers of the phrases all their takes are trained on, and voices that are left out judge."""


def read_recordings(task: WakeTask, labels: Sequence[str], progress: Progress = lambda *_: None) -> dict[Part, Heard]:
    """Read what is named, by part: takes of the phrases, and everything else.

    Raises
    ------
    DataError
        A folder cannot be read, or holds nothing that can be used.
    """
    own = own_takes(task, progress)
    trained = {fingerprint(take.sound) for heard in own.values() for take in heard.keywords}
    sources = Sources(task.words, task.running, task.noise, task.leave_out, languages=task.languages)
    recorded = {}
    for part, takes in own.items():
        heard = read_part(sources, labels, part, progress)
        others = (take for take in heard.keywords if fingerprint(take.sound) not in trained)
        recorded[part] = replace(
            heard,
            keywords=(*takes.keywords, *others),
            findings=(*takes.findings, *heard.findings),
        )
    return recorded


def own_takes(task: WakeTask, progress: Progress = lambda *_: None) -> dict[Part, Heard]:
    """Takes of the phrases in folders and lists, by part: all to train on where fewer than `SPEAKERS` say them.

    Raises
    ------
    DataError
        A folder cannot be read, or none of its files is a take of a phrase that can be used.
    """
    takes: list[tuple[str, Take]] = []
    findings: list[Finding] = []
    strangers = {clip.speaker for root in task.leave_out for clip in scan_folder(root, phrases=task.phrases).clips}
    for root in task.takes:
        groups = twin_groups(root)
        loose = task.phrases[0] if len(task.phrases) == 1 else ""
        named = scan_folder(root, phrases=task.phrases, loose=loose, speaker=task.speaker)
        clips = [clip for clip in named.clips if clip.word in task.phrases and clip.speaker not in strangers]
        findings += [finding for finding in named.findings if not finding.is_used]
        findings += [nobody_in(clip.path) for clip in clips if clip.is_nobody]
        if not clips:
            raise DataError(
                f'{root} holds no take of "{task.phrases[0]}": lay takes out as '
                f"{task.phrases[0]}/<speaker>_nohash_<n>.wav."
            )
        for done, clip in enumerate(clips):
            progress("reading takes", done + 1, len(clips))
            try:
                recording = read_recording(clip.path)
            except SoundError as error:
                findings.append(error.finding)
                continue
            findings += recording.findings
            sound = recording.samples
            takes.append((groups.get(clip.path, clip.speaker), Take(clip.word, clip.speaker, sound)))
        if not takes:
            raise DataError(nothing_usable(root, findings, "take"))
    few = len({speaker for speaker, _ in takes}) < SPEAKERS
    heard = {}
    for part in PARTS:
        mine = [take for speaker, take in takes if part == ("train" if few else part_of(speaker))]
        heard[part] = Heard(tuple(mine), (), (), (), findings=tuple(findings) if part == "train" else ())
    return heard
