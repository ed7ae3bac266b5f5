"""Files: written whole or not at all (beside, synced, renamed), and read as the text that a person wrote.

Durable is what survives a power cut; without the syncs that this takes, a file still holds the old content or the new
however its program ends, for the system has what was written.

Text that a person writes is UTF-8, with or without a byte order mark, or UTF-16 with one, as editors and shells of
Windows save it. What cannot be such a text is refused in one sentence, and no file makes a program wait.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast
from unicodedata import normalize

from auricle.errors import AuricleError, SettingsError, StorageError, because


def write_durably(path: Path, data: bytes, *, mode: int = 0o644, settle: bool = True) -> None:
    """Write a file so that after any crash it holds the old content or the new, never a part; see `write_whole`."""
    write_whole(path, data, durable=True, mode=mode, settle=settle)


def write_whole(path: Path, data: bytes, *, durable: bool, mode: int = 0o644, settle: bool = True) -> None:
    """Write a file so that it holds the old content or the new, never a part, however this program ends.

    Parameters
    ----------
    durable
        Sync it as well, so that a power cut loses no more than the end of the program does.
    settle
        Also sync the folder, so that the new content survives; who writes many files may do so once at the end.

    Raises
    ------
    StorageError
        The disk is full or the folder cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
        if durable and settle:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise StorageError(describe(error, path)) from error


def remove_file(path: Path, *, durable: bool) -> None:
    """Remove a file, where there is one; durably, so that it stays removed after a power cut.

    Raises
    ------
    StorageError
        The folder cannot be written.
    """
    try:
        path.unlink()
        if durable:
            sync_folder(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(describe(error, path)) from error


def sync_folder(folder: Path) -> None:
    """Make a rename or a removal in this folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def be_private() -> None:
    """Let what this process makes from now on be its user's alone: files 0600, folders 0700."""
    os.umask(0o077)


def make_private(*paths: Path) -> None:
    """Take all rights of others from files and folders that exist; those of another user are left as they are."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode & 0o700)


_WRONG_KIND = {
    errno.EEXIST: "it is a file, and a folder is needed; choose another path",
    errno.ENOTDIR: "what should be a folder on the way to it is a file",
    errno.EISDIR: "it is a folder, and a file is needed; name one",
}


def describe(error: OSError, path: Path) -> str:
    """Say in one sentence why a path could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk that holds {path} is full: free some space or choose another folder."
    if error.errno in _WRONG_KIND:
        return f"{path} cannot be written: {_WRONG_KIND[error.errno]}."
    return f"{path} cannot be written ({error.strerror or error}): check the path and its permissions."


def cache_folder() -> Path:
    """Give `$XDG_CACHE_HOME/auricle`, or `~/.cache/auricle` where that is not set to an absolute path."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "auricle"


# -- reading what programs keep


class NotAFileError(OSError):
    """Where a file should be is something else: `kind`."""

    def __init__(self, path: Path, mode: int) -> None:
        self.kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        super().__init__(f"it is {self.kind}, not a file")
        self.strerror, self.filename = f"it is {self.kind}, not a file", str(path)


def open_kept(path: Path, *, flags: int = os.O_RDONLY, mode: str = "rb", buffering: int = -1) -> BinaryIO:
    """Open a regular file; to read its bytes, where `flags` and `mode` say nothing else.

    Never waits: somebody may have put a pipe where a program keeps a file, and would hang its next start. As an
    `OSError` it is to each reader what a file is that cannot be read.

    Raises
    ------
    OSError
        It cannot be opened, or (`NotAFileError`) is something else.
    """
    if "\0" in str(path):  # for which the system would raise ValueError
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    with contextlib.suppress(FileNotFoundError) if flags & os.O_CREAT else contextlib.nullcontext():
        _require_regular(path, path.stat().st_mode)
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    try:
        _require_regular(path, os.fstat(handle).st_mode)
        return cast("BinaryIO", os.fdopen(handle, mode, buffering))
    except BaseException:
        os.close(handle)
        raise


def read_kept(path: Path) -> bytes:
    """The bytes of a regular file; errors as of `open_kept`."""
    with open_kept(path) as file:
        return file.read()


def open_lock(path: Path) -> BinaryIO:
    """Open a file to lock it, made where it is missing; errors as of `open_kept`."""
    return open_kept(path, flags=os.O_RDWR | os.O_CREAT | os.O_APPEND, mode="ab")


def _require_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotAFileError(path, mode)


# -- reading what people write

LARGEST_TEXT = 16 << 20
"""Bytes of a text that is read at once."""
LONGEST_LINE = 1 << 20
"""Characters of a line of a text that is read line by line."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def normal_form(text: str) -> str:
    """The text in Unicode's form NFC, in which labels are compared: `u` and two dots become one letter."""
    return text if text.isascii() else normalize("NFC", text)


def read_text(
    path: Path, what: str = "", *, most: int = LARGEST_TEXT, refusal: type[AuricleError] = SettingsError
) -> str:
    """Read the text of a file, without its byte order mark, lines separated by line feeds.

    Parameters
    ----------
    what
        What people call it, such as "The manifest"; the sentences begin with it.
    most
        Bytes that it may hold.
    refusal
        What is raised.

    Raises
    ------
    AuricleError
        As `refusal`: it cannot be read, is not a regular file (a pipe is not waited for), too large, or not a text.
    """
    where = f"{what} {path}".strip()
    with _reading(where, refusal), open_regular(path, what, refusal) as file:
        content = file.read(most + 1)
    if len(content) > most and not _begins_as_text(content):  # an archive is no text before it is too large a one
        raise refusal(f"{where} is not text in UTF-8: save it as that.")
    return decode_text(_within(content, most, where, refusal), where, refusal)


def read_bytes(
    path: Path, what: str = "", *, most: int = LARGEST_TEXT, refusal: type[AuricleError] = SettingsError
) -> bytes:
    """Read a file of at most `most` bytes; parameters and errors as of `read_text`."""
    where = f"{what} {path}".strip()
    with _reading(where, refusal), open_regular(path, what, refusal) as file:
        return _within(file.read(most + 1), most, where, refusal)


def decode_text(content: bytes, where: str, refusal: type[AuricleError] = SettingsError) -> str:
    """The text of a file's bytes, without its byte order mark; `where` begins the sentences.

    Raises
    ------
    AuricleError
        As `refusal`: it is not UTF-8, or UTF-16 with a byte order mark, or holds a zero character.
    """
    try:
        text = content.decode(_encoding(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise refusal(f"{where} is not text in UTF-8 (line {line}): save it as that.") from error
    if "\0" in text:
        raise refusal(f"{where} is not text, for it holds zero bytes: save it as text in UTF-8.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: Path, what: str = "", *, refusal: type[AuricleError] = SettingsError) -> Iterator[str]:
    """Give the lines of a text of any size with their ends, without its byte order mark; as of `read_text`.

    Raises
    ------
    AuricleError
        As `refusal`: as of `read_text`, or a line is longer than `LONGEST_LINE`.
    """
    where, number = f"{what} {path}".strip(), 0
    with _reading(where, refusal), open_regular(path, what, refusal) as raw:
        start = raw.read(4)
        raw.seek(0)
        lines = io.TextIOWrapper(raw, _encoding(start), newline="")
        try:
            while line := lines.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise refusal(f"{where}, line {number}, is longer than {LONGEST_LINE:,} characters: cut it.")
                if "\0" in line:
                    raise refusal(f"{where} is not text, for it holds zero bytes: save it as text in UTF-8.")
                yield line
        except UnicodeDecodeError as error:
            raise refusal(f"{where} is not text in UTF-8: save it as that.") from error


def open_regular(path: Path, what: str = "", refusal: type[AuricleError] = SettingsError) -> BinaryIO:
    """Open a regular file to read its bytes, also under its name in the other form of Unicode; never waits.

    Raises
    ------
    OSError
        It cannot be opened.
    AuricleError
        As `refusal`: it is something else, such as a folder or a pipe.
    """
    path = NamesOnDisk().find(path)
    try:
        return open_kept(path)
    except NotAFileError as error:
        raise refusal(f"{what} {path}".lstrip() + f" is {error.kind}, not a file: name a regular file.") from error


class NamesOnDisk:
    """Finds files whose names on disk are in another form of Unicode than they were written; lists a folder once."""

    def __init__(self) -> None:
        self._names: dict[Path, dict[str, str]] = {}

    def find(self, path: Path) -> Path:
        """The path as it is on disk: letters with marks composed, decomposed or mixed; as given where it is not."""
        if str(path).isascii() or os.path.lexists(path):
            return path
        found = Path(path.anchor)
        for part in path.parts[len(found.parts) :]:
            there = part.isascii() or os.path.lexists(found / part)
            found /= part if there else self._of(found).get(normal_form(part), part)
        return found if os.path.lexists(found) else path

    def _of(self, folder: Path) -> dict[str, str]:
        """Names in a folder by their normal form."""
        if folder not in self._names:
            try:
                self._names[folder] = {normal_form(name): name for name in sorted(os.listdir(folder))}  # noqa: PTH208
            except OSError:
                self._names[folder] = {}
        return self._names[folder]


@contextlib.contextmanager
def _reading(where: str, refusal: type[AuricleError]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refusal(f"{where} cannot be read: {because(error)}.") from error
    except ValueError as error:  # a path with a zero character
        raise refusal(f"{where!r} is not a path: name a file.") from error


def _within(content: bytes, most: int, where: str, refusal: type[AuricleError]) -> bytes:
    if len(content) > most:
        size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB" if most >= 1 << 10 else f"{most} bytes"
        raise refusal(f"{where} holds more than {size}: name another file.")
    return content


def _begins_as_text(content: bytes) -> bool:
    """Whether the first 4 kB can be text, a character that is cut off at their end among it."""
    try:
        return "\0" not in codecs.getincrementaldecoder(_encoding(content))().decode(content[: 1 << 12])
    except UnicodeDecodeError:
        return False


def _encoding(content: bytes) -> str:
    return next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
