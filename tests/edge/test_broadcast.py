"""Listening along: every block, in order, without holding up who pushes."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.errors import AuricleError
from auricle_edge.listening.listening_thread import WAITING_BLOCKS, AudioBroadcast
from auricle_edge.listening.sound import Block


def block(number: int) -> Block:
    """A block of 10 samples."""
    return Block(np.full(10, number, np.int16), number * 10, 0.0)


def test_all_who_listen_along_get_the_blocks_in_order_until_the_end() -> None:
    taps = AudioBroadcast()
    with taps.listening() as first, taps.listening() as second:
        for number in range(3):
            taps.push(block(number))
        assert [next(first).start for _ in range(3)] == [0, 10, 20]
        assert [next(second).start for _ in range(3)] == [0, 10, 20]
        taps.close()
        assert list(first) == []


def test_who_is_behind_misses_blocks_and_holds_up_nobody() -> None:
    taps = AudioBroadcast()
    with taps.listening() as blocks:
        for number in range(WAITING_BLOCKS + 5):
            taps.push(block(number))
        assert [next(blocks).start for _ in range(WAITING_BLOCKS)][-1] == (WAITING_BLOCKS - 1) * 10
    taps.push(block(0))


def test_silence_is_an_error_that_says_so() -> None:
    with AudioBroadcast().listening(patience=0.01) as blocks, pytest.raises(AuricleError, match="No sound came"):
        next(blocks)
