"""What `auricle export voices add` does for each source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from auricle.errors import DataError, SettingsError, nearest
from auricle_export.voices import kokoro_files
from auricle_export.voices.kokoro import Kokoro
from auricle_export.voices.pieces import Progress
from auricle_export.voices.piper import Piper
from auricle_export.voices.sources import source_names, voice_source


@dataclass(frozen=True)
class Addition:
    """What came of it."""

    name: str
    origin: str
    """Where it came from; empty where it was there."""
    folder: str
    """Where it is; empty where it is not in the user's cache."""
    size: int
    """Bytes of its files there."""

    @property
    def sentence(self) -> str:
        """For people."""
        if not self.origin:
            return f"{self.name} is there: nothing was to be brought."
        return f"{self.name} is there: {self.size / 1e6:.0f} MB in {self.folder}, from {self.origin}."

    def facts(self) -> dict[str, object]:
        """As plain JSON values."""
        return asdict(self)


def add_voice(name: str, given: Path | None, progress: Progress, tell: Callable[[str], None]) -> Addition:
    """Bring what a source needs.

    Parameters
    ----------
    name
        Of a source.
    given
        A folder that has it; None: it is fetched.
    progress
        Told what is done, how much of it, of how much.
    tell
        Given, before anything is fetched, a sentence with the size.

    Raises
    ------
    AuricleError
        There is no such source, nothing can be brought for it, or there is no way to it.
    """
    if name not in source_names():
        raise SettingsError(f'There is no voice "{name}": {nearest(name, source_names())}')
    if given is not None and not given.is_dir():
        raise DataError(f"{given} is not a folder: name the one that holds what {name} needs.")
    if name == Piper.name and given is not None:
        piper = Piper()
        return Addition(name, f"{given}: {piper.add(given)}", str(piper.folder), _size(piper.folder))
    source = voice_source(name)
    reason = source.missing()
    if reason is None:
        return Addition(name, "", "", 0)
    if name != Kokoro.name:
        raise SettingsError(reason)
    files, place = kokoro_files.FILES, kokoro_files.folder()
    fetched = "" if given is not None else f"{files.packages_size / 1e6:.0f} MB are fetched, "
    tell(f"Kokoro (Apache-2.0): {fetched}{files.size / 1e6:.0f} MB will be in {place}.")
    origin = kokoro_files.bring(place, given, progress, files)
    return Addition(name, origin, str(place), files.size)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
