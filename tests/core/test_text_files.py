"""Text that people write: every encoding that their programs save is read, all else is one sentence."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from unicodedata import normalize

import pytest

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.files import (
    LONGEST_LINE,
    NamesOnDisk,
    decode_text,
    normal_form,
    open_regular,
    read_bytes,
    read_lines,
    read_text,
)

TEXTS = ("", "a", 'name = "für"\nb = 1\n', "\n\nα\tβ\n\n", "𞤀 ok\n", "no line feed at the end")
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": lambda text: text.encode(),
    "utf-8 with mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "utf-16 little": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "utf-16 big": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
}
ENDS = ("\n", "\r\n", "\r")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_the_same_however_it_was_saved(tmp_path: Path, text: str, encoding: str, end: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(ENCODINGS[encoding](text.replace("\n", end)))
    assert read_text(path) == text
    if end != "\r":
        assert "".join(read_lines(path)).replace("\r\n", "\n") == text


BROKEN = {
    "a zero byte": b"a\0b",
    "utf-16 without its mark": "abc".encode("utf-16-le"),
    "latin-1": "für".encode("latin-1"),
    "half a character": "für".encode()[:2],
    "a surrogate": b"\xed\xa0\x80",
    "half a character of utf-16": b"\xff\xfea",
    "utf-32": "abc".encode("utf-32"),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("read", [read_text, lambda *given, **more: list(read_lines(*given, **more))])
def test_what_is_no_text_is_refused_in_a_sentence(tmp_path: Path, content: bytes, read: Callable[..., object]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"^The list {path} is not text") as refused:
        read(path, "The list", refusal=DataError)
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


def test_the_line_that_is_no_text_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^this is not text in UTF-8 \(line 3\)"):
        decode_text(b"a\nb\n\xff\n", "this")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (_fifo, "is a pipe, not a file"),
    "folder": (Path.mkdir, "is a folder, not a file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is a device, not a file"),
    "socket": (_socket, "is a socket, not a file"),
    "nothing": (lambda path: None, "cannot be read"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
    "a file on the way": (lambda path: path.parent.touch(), "cannot be read"),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("read", [read_text, read_bytes, lambda path: list(read_lines(path))])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str, read: Callable[..., object]) -> None:
    make, says = NO_FILES[kind]
    path = tmp_path / "x" / "y" if kind == "a file on the way" else tmp_path / "x"
    make(path)
    with pytest.raises(SettingsError, match=says):
        read(path)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "ü" * 300])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError):
        read_text(tmp_path / name)


def test_a_text_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4097)
    with pytest.raises(SettingsError, match="more than 4 KiB"):
        read_text(path, most=4096)
    assert len(read_text(path, most=4097)) == 4097
    for text in ("für " * 4096, "\ufeff" + "x" * 8192, "é" * 8192):
        for encoding in ("utf-8", "utf-16"):
            path.write_text(text, encoding)
            with pytest.raises(SettingsError, match="more than 4 KiB"):
                read_text(path, most=4096)
    path.write_bytes(b"PK\xff\n" * 4096)
    with pytest.raises(SettingsError, match="is not text"):
        read_text(path, most=4096)


def test_a_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a\n" + "x" * (LONGEST_LINE + 1))
    lines = read_lines(path)
    assert next(lines) == "a\n"
    with pytest.raises(SettingsError, match="line 2, is longer than"):
        next(lines)


WORDS = ("für", "tür", "ångström", "việt", "한국", "ok", "naïve café")


def _mixed(text: str, draw: random.Random) -> str:
    """Letter by letter composed or not."""
    return "".join(normalize(draw.choice(("NFC", "NFD")), letter) for letter in normalize("NFC", text))


@pytest.mark.parametrize("seed", range(20))
def test_a_file_is_found_whatever_the_form_of_its_name_on_disk(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    parts = [draw.choice(WORDS) for _ in range(3)]
    there = tmp_path.joinpath(*(_mixed(part, draw) for part in parts))
    there.parent.mkdir(parents=True)
    there.write_text("found")
    asked = tmp_path.joinpath(*(_mixed(part, draw) for part in parts))
    assert read_text(asked) == "found"
    assert NamesOnDisk().find(asked).samefile(there)
    assert NamesOnDisk().find(asked / "ü") == asked / "ü"


def test_of_two_names_that_look_the_same_each_is_itself(tmp_path: Path) -> None:
    for form in ("NFC", "NFD"):
        (tmp_path / normalize(form, "ü")).write_text(form)
    for form in ("NFC", "NFD"):
        assert read_text(tmp_path / normalize(form, "ü")) == form


def test_a_folder_is_listed_once_for_all_names_that_are_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[object] = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: [listings.append(folder), *listdir(folder)][1:])
    names = NamesOnDisk()
    for number in range(100):
        names.find(tmp_path / f"ü{number}.wav")
    assert listings == [tmp_path]


def test_labels_are_compared_in_one_form() -> None:
    for word in WORDS:
        assert len({normal_form(normalize(form, word)) for form in ("NFC", "NFD")}) == 1
    assert normal_form("plain") == "plain"


def test_a_refusal_is_of_the_family(tmp_path: Path) -> None:
    with pytest.raises(AuricleError), open_regular(tmp_path):
        """Not reached."""
