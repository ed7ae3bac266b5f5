"""Files that people bring, made whole by a generator: each goes through everything that reads such a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from auricle.errors import AuricleError
from auricle.hearing.splits import twin_groups
from auricle.speech.audio import read_audio
from auricle.speech.clip_folder import scan_folder
from auricle.speech.folder import load_folder
from auricle.speech.list_columns import Columns
from auricle.speech.speech_manifest import audio_folder, count_rows, read_manifest
from auricle.wire.claims import read_token_file
from auricle_cloud.commands.coordinator_settings import read_coordinator
from auricle_edge.evaluate.sources import read_labels, read_scene
from auricle_edge.settings import read_settings as read_edge_settings
from auricle_export.flash.boards import load_board
from auricle_export.flash.fleet_file import load_fleet
from auricle_export.flash.push.hosts import read_hosts
from auricle_export.pretrain.recipe import load_recipe
from auricle_export.speech.import_speech import ImportSettings, import_speech
from auricle_fleet.commands.run_commands import read_settings as read_fleet_settings
from auricle_fleet.population.traces import _rows_of
from auricle_fleet.suite.plan import read_suite
from tests.fuzz.scratch import scratch
from tests.fuzz.target import target
from tests.fuzz.user_files import UserFile, make_user_file

Reader = Callable[[Path], object]


@cache
def _recording(process: Path) -> Path:
    import soundfile

    path = process / "recording.wav"
    soundfile.write(path, np.random.default_rng(1).normal(0, 0.1, 40_000).astype(np.float32), 16_000)
    return path


def _rows(manifest: Path) -> object:
    return [list(read_manifest(manifest, audio_folder(manifest), Columns(), sentences=each)) for each in (False, True)]


def _imported(manifest: Path) -> object:
    return import_speech(ImportSettings(manifest, scratch() / "imported"))


READERS: dict[str, tuple[Reader, ...]] = {
    "sound": (
        read_audio,
        lambda path: scan_folder(path.parent.parent),
        lambda path: load_folder(path.parent.parent, f"{path.parent.name},_silence_", min_word_clips=1),
    ),
    "manifest": (_rows, count_rows, scan_folder, _imported, _rows_of, lambda path: twin_groups(path.parent)),
    "settings": (
        lambda path: read_edge_settings(path, {}),
        lambda path: read_coordinator(path, {}),
        lambda path: read_fleet_settings(path, {}),
        lambda path: read_suite(str(path)),
        lambda path: load_recipe(str(path)),
        load_fleet,
        load_board,
    ),
    "labels": (read_labels, lambda path: read_scene(_recording(scratch()), path, ("yes", "no", "für")), read_hosts,
               read_token_file),
}  # fmt: skip
"""What reads a file of each kind."""


def read_by_all(file: UserFile) -> str:
    """Give a file to its readers; which of them took it. No refusal gets out that has one line."""
    answers = []
    for reader in READERS[file.kind]:
        try:
            reader(file.path)
            answers.append("taken")
        except AuricleError as error:
            assert "\n" not in str(error), str(error)
            answers.append("refused")
    return f"{file.kind} {' '.join(answers)}"


@target(
    "user-files",
    "auricle.files auricle.settings auricle.speech.audio auricle.speech.speech_manifest auricle.speech.list_columns "
    "auricle.speech.clip_folder auricle_edge.evaluate.sources auricle_export.flash.document",
    examples=lambda: {f"file-{seed}": str(seed).encode() for seed in range(8)},
    refusals=(),
    seconds=10.0,
    megabytes=256,
    largest=64,
)
def user_files(data: bytes) -> object:
    """A file that is drawn by the input's bytes: sound, a manifest, settings or labels."""
    return read_by_all(make_user_file(data, scratch() / "user-files", pipes=False))
