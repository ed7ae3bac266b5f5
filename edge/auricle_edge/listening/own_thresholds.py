"""Thresholds that the owner sets while the device listens: in effect at once, and kept over restarts.

What calibration found, the owner writes into `[detect.thresholds]`. A threshold that came another way lies beside the
sensitivity in the state folder, with what the settings said when it was set: the later of the two counts, so it is over
once settings or pack say something else of its word.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import SettingsError, StorageError
from auricle.files import read_kept, write_durably
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.listening.detect.rules import LEAST, MOST
from auricle_edge.listening.detect.settings import DetectSettings, Share

log = logging.getLogger("auricle.edge")

FILE = "thresholds.json"

Threshold = Annotated[float, Meta(ge=LEAST, le=MOST)]
"""Smoothed posterior from which a word counts, within the limits of every threshold that is shifted from afar."""


class OwnThreshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The threshold of a word."""

    threshold: Threshold
    over: Share
    """In whose place it is."""


class OwnThresholds:
    """The thresholds that the owner of one device has set.

    Parameters
    ----------
    folder
        The state folder.
    usual
        What settings and pack say.
    words
        Whose thresholds may be set: those that count while the device waits.

    Raises
    ------
    StorageError
        The file holds something else.
    """

    def __init__(self, folder: Path, usual: DetectSettings, words: Sequence[str]) -> None:
        self._file, self._usual = folder / FILE, thresholds_of(usual, words)
        self._own = {word: own for word, own in self._read().items() if self._usual.get(word) == own.over}
        self.apply: Callable[[], None] = lambda: None
        """Changes what listens; in the thread that sets a threshold."""

    def over(self, settings: DetectSettings) -> DetectSettings:
        """The settings with these thresholds over their own."""
        if not self._own:
            return settings
        own = {word: each.threshold for word, each in self._own.items()}
        return msgspec.structs.replace(settings, thresholds={**settings.thresholds, **own})

    def of(self, settings: DetectSettings) -> dict[str, float]:
        """The threshold of each word under settings."""
        return thresholds_of(self.over(settings), list(self._usual))

    def set(self, word: str, threshold: float) -> None:
        """Keep and apply a threshold.

        Raises
        ------
        SettingsError
            The word is none of those.
        StorageError
            It cannot be kept: nothing changes.
        """
        if word not in self._usual:
            raise SettingsError(f'"{word}" is no word that counts while the device waits.')
        own = {**self._own, word: OwnThreshold(threshold, self._usual[word])}
        write_durably(self._file, msgspec.json.encode(own))
        self._own = own
        self.apply()
        log.info('The threshold of "%s" is %g, as its owner wants.', word, threshold)

    def _read(self) -> dict[str, OwnThreshold]:
        try:
            return msgspec.json.decode(read_kept(self._file), type=dict[str, OwnThreshold])
        except FileNotFoundError:
            return {}
        except (OSError, *UNDECODABLE) as error:
            raise StorageError(f"{self._file} does not hold thresholds ({error}): delete it.") from error


def thresholds_of(settings: DetectSettings, words: Sequence[str]) -> dict[str, float]:
    """The threshold of each of the words."""
    special: Mapping[str, float] = settings.thresholds
    return {word: special.get(word, settings.threshold) for word in words}
