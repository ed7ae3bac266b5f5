"""Zstandard frames that are read like a file: several, cut, too far back, too many."""

from __future__ import annotations

import io

import pytest
from backports import zstd
from backports.zstd import CompressionParameter
from hypothesis import given
from hypothesis import strategies as st

from auricle.packs.zstd_frames import MOST_FRAMES, Frames

WINDOW = 16 << 20


def read_all(data: bytes, size: int = 1000, window: int = WINDOW) -> bytes:
    """What frames hold, read in blocks."""
    frames = Frames(io.BytesIO(data), window)
    blocks = list(iter(lambda: frames.read(size), b""))
    assert all(len(block) <= size for block in blocks)
    return b"".join(blocks)


@given(contents=st.lists(st.binary(max_size=4000), max_size=5), size=st.integers(1, 5000))
def test_several_frames_are_one_stream(contents: list[bytes], size: int) -> None:
    data = b"".join(zstd.compress(content, 1) for content in contents)

    assert read_all(data, size) == b"".join(contents)


def test_a_frame_that_is_longer_than_what_is_read_at_once_comes_whole() -> None:
    content = bytes(range(256)) * 40_000

    assert read_all(zstd.compress(content, 1), 1 << 20) == content


def test_of_a_cut_frame_comes_what_stands_before_the_cut() -> None:
    content = bytes(1_000_000) + bytes(range(256)) * 4000

    got = read_all(zstd.compress(content, 1)[:-100])

    assert len(got) < len(content)
    assert content.startswith(got)


def test_what_is_no_frame_is_refused_also_behind_one() -> None:
    for data in (b"no frame at all", zstd.compress(b"a frame") + b"and something else"):
        with pytest.raises(zstd.ZstdError):
            read_all(data)


def test_a_frame_may_look_back_as_far_as_the_window_and_no_further() -> None:
    def packed(log: int) -> bytes:
        """A frame of content whose size it does not say."""
        compressor = zstd.ZstdCompressor(options={CompressionParameter.window_log: log})
        return compressor.compress(bytes(1000)) + compressor.flush()

    assert read_all(packed(20), window=1 << 20) == bytes(1000)
    with pytest.raises(zstd.ZstdError, match="memory"):
        read_all(packed(21), window=1 << 20)


def test_more_frames_than_any_tool_writes_are_refused() -> None:
    empty = zstd.compress(b"")

    assert read_all(empty * MOST_FRAMES) == b""
    with pytest.raises(zstd.ZstdError, match="frames"):
        read_all(empty * (MOST_FRAMES + 1))
