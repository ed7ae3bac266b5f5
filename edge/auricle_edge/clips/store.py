"""The clips that a device keeps, on its own disk: what was acknowledged is there after a power cut at any write."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError, StorageError, nearest
from auricle.speech.features import LogMel
from auricle.speech.spelling import Spelling
from auricle_edge.clips.catalogue import Catalogue
from auricle_edge.clips.choice import ClipSettings, has_wrong_date, holds_out, past_age, surplus
from auricle_edge.clips.coding import AUDIO, FEATURES, Content, encode_again, encode_audio, encode_features, fit_length
from auricle_edge.clips.disk import Disk
from auricle_edge.clips.index import DamagedIndexError
from auricle_edge.clips.record import JUDGING, SOURCES, WORDLESS, Clip, NewClip, Record, Source
from auricle_edge.clips.training_set import training_set
from auricle_edge.clips.vector_files import ClipVectors
from auricle_edge.clips.wipe import Wiped
from auricle_learning.training.speech_data import DeviceData

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")


class NoRoomError(StorageError):
    """The quotas are full of clips that are worth more."""


def _with_mended_index(
    method: Callable[Concatenate[ClipStore, _P], _T],
) -> Callable[Concatenate[ClipStore, _P], _T]:
    """Where the index turns out to be damaged, make it again and do once more what was asked."""

    @functools.wraps(method)
    def safely(store: ClipStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(store, *args, **kwargs)
        except DamagedIndexError as error:
            _log.warning("%s", error)
            store.reopen()
            return method(store, *args, **kwargs)

    return safely


class ClipStore:
    """Clips with their labels; several threads and processes may use one folder at the same time.

    Parameters
    ----------
    folder
        Of the store; made where it is missing, 0700.
    settings
        Quotas, encryption, what is held out.
    frontend
        Of the device's pack: its labels, and the features where no sound is kept.
    disk, clock, draw
        What writes, tells the time and draws numbers in [0, 1).

    Raises
    ------
    StorageError
        The folder or the disk refuses; of every method.
    SettingsError
        The key does not fit the clips.
    """

    def __init__(
        self,
        folder: Path,
        settings: ClipSettings,
        frontend: LogMel,
        *,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.folder, self.settings, self.frontend = folder, settings, frontend
        self._disk, self._clock, self._draw = disk or Disk(), clock, draw
        self._closed = False
        self._catalogue = Catalogue(folder, settings, self._disk)

    @property
    def unreadable(self) -> int:
        """Files that no key and no index of this store explains."""
        return self._catalogue.unreadable

    def reopen(self) -> None:
        """Open it again: the index is looked over, and made again where it is damaged."""
        if self._closed:
            raise StorageError(f"The clips in {self.folder} were closed.")
        self._catalogue.close()
        self._catalogue = Catalogue(self.folder, self.settings, self._disk)

    def close(self) -> None:
        """Close it."""
        self._closed = True
        self._catalogue.close()

    @property
    def labels(self) -> tuple[str, ...]:
        """What a clip can be labelled."""
        return self.frontend.task.labels

    @property
    def generation(self) -> int:
        """Another number after every change, whichever process made it."""
        return self._generation()

    @_with_mended_index
    def _generation(self) -> int:
        return self._catalogue.generation

    @_with_mended_index
    def list(
        self, *, word: str | None = None, source: str | None = None, held_out: bool | None = None
    ) -> tuple[Clip, ...]:
        """Clips of a label, a source, a part; the oldest first."""
        return tuple(
            clip
            for clip in self._catalogue.clips()
            if (word is None or clip.record.word == word)
            and (source is None or clip.record.source == source)
            and (held_out is None or clip.record.held_out == held_out)
        )

    @_with_mended_index
    def get(self, clip: str) -> Clip:
        """The clip of an id, or of a beginning of one that only it has; DataError: no clip or several have it."""
        return self._catalogue.named(clip)

    @_with_mended_index
    def add(self, new: NewClip) -> str:
        """Keep a clip; returns its id when it and its label are safe on the disk.

        Raises
        ------
        SettingsError
            The pack does not know the word.
        DataError
            It has no samples.
        NoRoomError
            The quotas are full of clips that are worth more.
        """
        self.check(new.word, new.source)
        if not len(new.samples) or new.samples.ndim != 1 or new.samples.dtype != np.int16:
            raise DataError("A clip is one row of 16-bit samples.")
        with self._catalogue.transaction():
            before = self._catalogue.clips()
            held = holds_out(before, new.word, new.source, self.settings.held_out, self._draw())
            record = Record(
                id=os.urandom(6).hex(),
                word=new.word,
                source=new.source,
                weight=new.weight,
                created=self._clock(),
                held_out=held,
                score=new.score,
                model=new.model,
                guess=new.guess,
            )
            clip, box = self._catalogue.shelf.boxed(*self._encode(new.samples, record), record)
            gone = surplus(before, clip, self.settings)
            if gone is None:
                raise NoRoomError(f"A clip ({new.source}) was not kept: the quotas of {self.folder} are full.")
            self._catalogue.put(clip, box)
        try:
            self._catalogue.remove(lambda clips: [each for each in clips if each.id in gone])
            self._catalogue.fit_vectors()
        except StorageError as error:
            _log.warning("%s", error)
        return clip.id

    @_with_mended_index
    def relabel(
        self, clip: str, word: str | None, source: Source, weight: float | None = None, score: float | None = None
    ) -> Clip:
        """Give a clip another label; whether it is held out stays as it is.

        A held-out clip that a model labels (`pseudo`) would judge models by their own opinion: DataError.
        """
        self.check(word, source)
        with self._catalogue.transaction():
            old = self._catalogue.named(clip)
            if old.record.held_out and source not in JUDGING:
                raise DataError(f"The clip {old.id} is held out to judge models: a model cannot label it.")
            content, _ = self._catalogue.shelf.content(old.file, old.sha256)
            record = msgspec.structs.replace(
                old.record,
                word=word,
                source=source,
                weight=SOURCES[source].weight if weight is None else weight,
                score=old.record.score if score is None else score,
            )
            suffix = AUDIO if content.samples is not None else FEATURES
            changed, box = self._catalogue.shelf.boxed(encode_again(content, record), suffix, record)
            self._catalogue.put(changed, box)
        self._catalogue.bury(old)
        return changed

    @_with_mended_index
    def delete(self, clips: Iterable[str]) -> int:
        """Destroy clips by their whole ids; returns how many there were."""
        wanted = set(clips)
        return self._catalogue.remove(lambda kept: [clip for clip in kept if clip.id in wanted])

    @_with_mended_index
    def prune(self) -> int:
        """Delete clips past their age; returns how many. Nothing else looks at ages: call it now and then."""
        now = self._clock()
        with self._catalogue.transaction():
            if not self._catalogue.look_at_clock(now).steady:
                return 0
            for clip in self._catalogue.clips():
                if has_wrong_date(clip.record, now):
                    dated = msgspec.structs.replace(clip.record, created=now)
                    self._catalogue.put_row(msgspec.structs.replace(clip, record=dated))
        return self._catalogue.remove(lambda clips: past_age(clips, self.settings, now))

    def read(self, clip: str) -> NDArray[np.int16]:
        """Sound (n,) of a clip; DataError where only features are kept, or its file is not whole."""
        found = self.get(clip)
        samples = self.content(found).samples
        if samples is None:
            raise DataError(f"Of the clip {found.id} only features are kept, no sound.")
        return samples

    def content(self, clip: Clip) -> Content:
        """Sound or features of a clip; where its file is not whole it is marked damaged, and DataError says so."""
        try:
            return self._catalogue.shelf.content(clip.file, clip.sha256)[0]
        except DataError as error:
            self._catalogue.mark_damaged(clip)
            raise DataError(f"The clip {clip.id} cannot be read ({error}): it is left out from now on.") from error

    def device_data(self) -> DeviceData:
        """What a round trains on and is judged by, see `training_set`."""
        made = training_set(self.list(), self.content, self.frontend, self.settings)
        for error in made.unread.values():
            _log.warning("%s", error)
        return made.data if not made.ids else dataclasses.replace(made.data, vectors=self._vectors(made.ids))

    def _vectors(self, ids: Mapping[bytes, str]) -> ClipVectors:
        put: Callable[[Mapping[str, bytes]], None] = lambda boxes: self._catalogue.put_vectors(boxes)  # noqa: E731
        return ClipVectors(lambda: self._catalogue.shelf, put, ids, self.frontend.task.input_shape)

    @_with_mended_index
    def wipe(self) -> Wiped:
        """Destroy all clips, and the key first; see `wipe`."""
        return self._catalogue.wipe()

    def as_label(self, word: str) -> str:
        """The label that a person means by a word, however it is written; the word where there is none."""
        return Spelling(self.labels).typed(word)

    def check(self, word: str | None, source: Source) -> None:
        """Raise SettingsError unless a clip of this source can have this label."""
        if (word is None) != (source in WORDLESS):
            raise SettingsError("A clip has a word, or is unlabelled and has none.")
        if word is not None and word not in self.labels:
            raise SettingsError(f'The pack does not know the word "{word}": {nearest(word, self.labels)}')

    def _encode(self, samples: NDArray[np.int16], record: Record) -> tuple[bytes, str]:
        samples = fit_length(samples, self.frontend.task.clip_samples)
        if self.settings.keep == "audio":
            return encode_audio(samples, record), AUDIO
        return encode_features(self.frontend.energies(samples[np.newaxis])[0], record), FEATURES
