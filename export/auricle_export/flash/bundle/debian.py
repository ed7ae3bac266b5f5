"""A bundle as a Debian package: its files, and scripts that install them into the slots and remove them again.

The package is written here, without dpkg: an `ar` of two plain tars (deb(5)), so that it is the same bytes everywhere.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from auricle.wire.bundle import Manifest
from auricle_export.flash.bundle.archive import Part, copy, epoch, replaced, write_tar

PACKAGE = "auricle-edge"
PLACE = "usr/lib/auricle-bundle"
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
CONTROL = """\
Package: {package}
Version: {version}+{identity}
Architecture: {architecture}
Maintainer: The Auricle authors <https://github.com/auricle-kws/auricle/issues>
Section: sound
Priority: optional
Installed-Size: {size}
Depends: python3 (>= {python}), python3 (<< {next}~)
Recommends: {packages}
Homepage: https://github.com/auricle-kws/auricle
Description: keyword spotting agent for {board} with {os}, in the fleet {fleet}
 Listens for words, learns from what it hears, and takes part in federated
 rounds; the sound stays on the device. Holds everything that it needs but
 Python, and installs it into /opt/auricle without network.
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  sh "$DPKG_ROOT/{place}/install" --root "$DPKG_ROOT/"
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ]; then
  slots="$DPKG_ROOT/opt/auricle/slots.py"
  [ -f "$slots" ] || slots="$DPKG_ROOT/{place}/slots.py"
  python3 -I "$slots" uninstall --keep-data --root "$DPKG_ROOT/"
fi
"""
POSTRM = """\
#!/bin/sh
set -e
if [ "$1" = purge ]; then
  etc="$DPKG_ROOT/etc/auricle"
  rm -f "$etc/edge.toml" "$etc/edge.toml.new" "$etc/claim.token"
  rmdir "$etc" 2>/dev/null || :
  rm -rf "$DPKG_ROOT/var/lib/auricle" "$DPKG_ROOT/var/lib/private/auricle"
fi
"""


def write_package(
    path: Path, manifest: Manifest, identity: str, parts: Mapping[str, Part], packages: Sequence[str]
) -> None:
    """Write the Debian package of a bundle.

    Parameters
    ----------
    path
        Where to.
    manifest, identity, parts
        The bundle's; the parts with manifest and signature.
    packages
        Debian packages that the board's sound needs.

    Raises
    ------
    StorageError
        It cannot be written.
    """
    minor = int(manifest.python.removeprefix("3."))
    control = CONTROL.format(
        package=PACKAGE,
        version=manifest.version,
        identity=identity[:12],
        place=PLACE,
        architecture=ARCHITECTURES[manifest.architecture],
        size=sum(part.size for part in parts.values()) // 1024 + 1,
        python=manifest.python,
        next=f"3.{minor + 1}",
        packages=", ".join(packages),
        board=manifest.board,
        os=manifest.os,
        fleet=manifest.fleet,
    )
    sums = "".join(f"{part.digest('md5')}  {PLACE}/{name}\n" for name, part in sorted(parts.items()))
    scripts = {
        name: Part(text.format(place=PLACE).encode(), 0o755)
        for name, text in (("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM))
    }
    made = io.BytesIO()
    write_tar(made, {"control": Part(control.encode()), "md5sums": Part(sums.encode()), **scripts}, "./")
    with replaced(path) as file:
        file.write(b"!<arch>\n")
        _member(file, "debian-binary", io.BytesIO(b"2.0\n"), 4)
        made.seek(0)
        _member(file, "control.tar", made, len(made.getbuffer()))
        _data(file, parts)


def _data(file: IO[bytes], parts: Mapping[str, Part]) -> None:
    """The member of the package's own files; its size is known, and written, when it is there."""
    begun = file.tell()
    _member(file, "data.tar", io.BytesIO(), 0)
    content = file.tell()
    write_tar(file, parts, f"./{PLACE}/", folders=True)
    size = file.tell() - content
    if size % 2:
        file.write(b"\n")
    file.seek(begun)
    _member(file, "data.tar", io.BytesIO(), size)
    file.seek(0, io.SEEK_END)


def _member(file: IO[bytes], name: str, content: IO[bytes], size: int) -> None:
    """A member of an `ar`: a header of 60 bytes, the content, and a byte to an even length."""
    file.write(f"{name:<16}{epoch():<12}{0:<6}{0:<6}{0o100644:<8o}{size:<10}`\n".encode())
    begun = file.tell()
    copy(content, file)
    if (file.tell() - begun) % 2:
        file.write(b"\n")
