"""Which sources of voices there are: ours, and those that other packages offer as entry points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError, nearest
from auricle.process.plugins import entry_points_of, guard, load, takes
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.voices import OTHER_NAMES
from auricle_export.voices.espeak_ng import EspeakNg
from auricle_export.voices.festival import Festival
from auricle_export.voices.flite import Flite
from auricle_export.voices.interface import Sound, VoiceSource, as_take, refuse_language
from auricle_export.voices.kokoro import Kokoro
from auricle_export.voices.piper import Piper
from auricle_export.voices.recordings import Recordings

GROUP = "auricle.voices"
"""Entry points of sources of other packages."""
ESPEAK = EspeakNg.name
"""It always speaks: it has the numbers, and the phonemes of others."""
SOURCES = {kind.name: kind for kind in (Kokoro, Piper, Flite, Festival, EspeakNg)}
"""Those that come with auricle, the best first."""
NATURAL = (Kokoro.name, Piper.name)
"""What speaks without being asked for, where it is there: the first of these."""
_TEXTS = ("name", "about", "licence", "version")
_CALLED = {"missing": 0, "languages": 0, "speakers": 1, "speak": 3}
"""What a source has, and of what is called how many values it takes."""


def source_names() -> list[str]:
    """What can be chosen by name, sources of other packages included; nothing of theirs is imported."""
    return [*SOURCES, *sorted(entry_points_of(GROUP).keys() - SOURCES.keys())]


def voice_source(name: str, phrases: Sequence[str] = ()) -> VoiceSource:
    """A source by its name, or the takes of a folder by its path.

    Parameters
    ----------
    name
        One of `source_names`, or the path of a folder.
    phrases
        What a folder's takes may be of, beside single words.

    Raises
    ------
    SettingsError
        There is none of that name, or that of another package cannot be loaded.
    """
    if name in SOURCES:
        return SOURCES[name]()
    others = entry_points_of(GROUP)
    if name in others:
        return _of_another_package(name)
    if "/" in name or Path(name).is_dir():
        return Recordings(Path(name), phrases)
    raise SettingsError(f'There is no voice "{name}", and no folder of that name: {nearest(name, source_names())}')


def speaks(source: VoiceSource, language: str) -> bool:
    """Whether a source speaks a language; one that says no languages is believed to speak any."""
    known = source.languages()
    return not known or code_of(language) in known


def code_of(language: str) -> str:
    """espeak-ng's name of a language, without its accent: `pt-br` is `pt`, `zh` is `cmn`."""
    root = language.lower().split("-")[0]
    return OTHER_NAMES.get(root, root)


def choose_sources(names: Sequence[str], language: str, phrases: Sequence[str] = ()) -> tuple[VoiceSource, ...]:
    """The sources that speak beside espeak-ng.

    Parameters
    ----------
    names
        Those that were asked for; none: the best that is there, and speaks the language.
    language
        Of the phrase.
    phrases
        As of `voice_source`.

    Raises
    ------
    SettingsError
        One is named twice, is not known, or does not speak the language.
    DataError
        One is not there; the sentence says what it needs.
    """
    if not names:
        best = (SOURCES[name]() for name in NATURAL)
        return tuple(source for source in best if source.missing() is None and speaks(source, language))[:1]
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise SettingsError(f"--voice {twice[0]} is named twice: name it once.")
    chosen = [voice_source(name, phrases) for name in names if name != ESPEAK]
    for source in chosen:
        if (reason := source.missing()) is not None:
            raise DataError(reason)
        if source.languages():
            refuse_language(source, code_of(language))
        if isinstance(source, Recordings) and not source.counts().keys() & set(phrases):
            raise DataError(
                f'{source.folder} holds no take of "{phrases[0]}": lay takes out as '
                f"{phrases[0]}/<speaker>_nohash_<n>.wav."
            )
    return tuple(chosen)


class _Foreign:
    """A source of another package: what it raises, or lacks, becomes one sentence."""

    def __init__(self, source: VoiceSource, where: str) -> None:
        self.name, self.about, self.licence, self.version = (str(getattr(source, part)) for part in _TEXTS)
        self.attribution = tuple(map(str, getattr(source, "attribution", ())))
        self._calls = {part: guard(getattr(source, part), "voice", where, DataError) for part in _CALLED}
        self._splits = takes(source.speak, 3, "speakers")
        self._where = where

    def missing(self) -> str | None:
        """As the source says."""
        reason = self._calls["missing"]()
        return None if reason is None else str(reason)

    def languages(self) -> tuple[str, ...]:
        """As the source says."""
        return tuple(map(str, self._calls["languages"]()))

    def speakers(self, language: str) -> tuple[str, ...]:
        """As the source says; of one that cannot be asked for some of them, nobody can be left out."""
        named = tuple(map(str, self._calls["speakers"](language)))
        return named if self._splits else named[:1]

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """What the source says, which has to be sound at 16 kHz."""
        chosen = {"speakers": tuple(speakers)} if self._splits else {}
        said: NDArray[np.float32] = self._calls["speak"](text, language, seed, **chosen)
        return as_take(said, SAMPLE_RATE, f'What {self._where[0].lower()}{self._where[1:]} says for "{text}"')


def _of_another_package(name: str) -> VoiceSource:
    made, package = load("voice", name, entry_points_of(GROUP)[name])
    where = f'The voice "{name}" of {package}'
    if isinstance(made, type):
        made = guard(made, "voice", where, SettingsError)()
    lacking = [part for part in _TEXTS if not isinstance(getattr(made, part, None), str)]
    lacking += [part for part, count in _CALLED.items() if not takes(getattr(made, part, None), count)]
    if lacking:
        raise SettingsError(
            f"{where} has no {', '.join(lacking)} as auricle_export.voices.interface.VoiceSource has; update or "
            "uninstall the package."
        )
    return _Foreign(made, where)  # type: ignore[arg-type]
