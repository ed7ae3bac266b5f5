"""Auricle's own wheel, for a bundle: the same bytes from a checkout, its sdist and an installed distribution."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from auricle import __version__
from auricle.files import read_kept
from auricle_export.flash.bundle.archive import store_zip
from auricle_export.flash.bundle.locks import WheelError
from auricle_export.flash.bundle.wheelhouse import pip

CHECKOUT = Path(__file__).parents[4]
INFO = f"auricle-{__version__}.dist-info"
NAME = f"auricle-{__version__}-py3-none-any.whl"
_CONTENT = re.compile(rf"(auricle\w*/.+|{re.escape(INFO)}/(METADATA|WHEEL|entry_points\.txt|licenses/.+))")


def auricle_wheel() -> tuple[str, bytes]:
    """Name and content of the wheel.

    Raises
    ------
    WheelError
        It cannot be built, or what is installed is not whole.
    """
    return NAME, pack_wheel(dict(_from_checkout() if (CHECKOUT / "pyproject.toml").is_file() else read_installed()))


def pack_wheel(files: Mapping[str, bytes]) -> bytes:
    """A wheel of files: sorted, not compressed, without times; `RECORD` is made for it."""
    record = f"{INFO}/RECORD"
    lines = [f"{name},sha256={_digest(files[name])},{len(files[name])}\n" for name in sorted(files)]
    listed = {name: files[name] for name in sorted(files)}
    return store_zip(listed | {record: "".join([*lines, f"{record},,\n"]).encode()})


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _from_checkout() -> Iterator[tuple[str, bytes]]:
    """The files of a wheel that hatchling builds of the checkout; a fetched one where it is not installed."""
    isolation = ["--no-build-isolation"] if find_spec("hatchling") else []
    with tempfile.TemporaryDirectory() as folder:
        pip("wheel", "-q", "--no-deps", *isolation, "--wheel-dir", folder, str(CHECKOUT))
        with zipfile.ZipFile(Path(folder) / NAME) as archive:
            yield from ((name, archive.read(name)) for name in archive.namelist() if _CONTENT.fullmatch(name))


def read_installed() -> Iterator[tuple[str, bytes]]:
    """The files of the distribution that is installed, each compared with its `RECORD`.

    Raises
    ------
    WheelError
        One is missing or was changed, or none are known.
    """
    try:
        recorded = distribution("auricle").files or []
    except PackageNotFoundError as error:
        raise WheelError("auricle is not installed as a package: install it, or use a checkout.") from error
    files = [file for file in recorded if _CONTENT.fullmatch(file.as_posix()) and "__pycache__" not in file.parts]
    if not files:
        raise WheelError("The installed auricle does not say what belongs to it: install it again from a wheel.")
    for file in files:
        path = Path(str(file.locate()))
        content = read_kept(path) if path.is_file() else b""
        if file.hash is None or file.hash.value != _digest(content):
            raise WheelError(f"{path} is not what was installed: install auricle again.")
        yield file.as_posix(), content
