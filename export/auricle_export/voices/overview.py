"""What there is of voices, as `auricle export voices list` says it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from auricle.errors import AuricleError
from auricle.speech.voices import ENGLISH_CODE
from auricle_export.voices.sources import source_names, voice_source

_FEW = 4
"""Languages that are named one by one."""


@dataclass(frozen=True)
class VoiceRow:
    """A source of voices."""

    name: str
    about: str
    licence: str
    speakers: int | None
    """Of English, else of its first language; None where that is not known before it is there."""
    languages: tuple[str, ...]
    missing: str | None
    """What it needs, as a sentence; None where it is there."""

    @property
    def speakers_text(self) -> str:
        """For a table."""
        return "-" if self.speakers is None else f"{self.speakers:,}"

    @property
    def languages_text(self) -> str:
        """For a table."""
        if len(self.languages) > 2 * _FEW:
            return f"{len(self.languages)}"
        return " ".join(self.languages) or "-"

    def facts(self) -> dict[str, object]:
        """As plain JSON values."""
        return {**asdict(self), "languages": list(self.languages), "there": self.missing is None}


def overview() -> list[VoiceRow]:
    """All sources, ours first; one of another package that does not work says so in its row."""
    return [_row(name) for name in source_names()]


def _row(name: str) -> VoiceRow:
    try:
        source = voice_source(name)
    except AuricleError as error:
        return VoiceRow(name, "", "-", None, (), str(error))
    try:
        missing, languages = source.missing(), source.languages()
        first = ENGLISH_CODE if ENGLISH_CODE in languages else next(iter(languages), None)
        speakers = None if first is None else len(source.speakers(first))
    except AuricleError as error:
        missing, languages, speakers = str(error), (), None
    return VoiceRow(name, source.about, source.licence, speakers, languages, missing)
