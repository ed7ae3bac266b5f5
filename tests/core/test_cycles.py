"""Looking seldom for objects that hold each other still finds them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from auricle.process.cycles import OFTEN, look_seldom


@pytest.fixture(autouse=True)
def before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


class Knot:
    def __init__(self) -> None:
        self.own = self


def test_what_is_loaded_is_left_out_and_what_comes_later_is_found() -> None:
    look_seldom()
    assert gc.get_threshold() == OFTEN and gc.get_freeze_count() > 1000
    later = weakref.ref(Knot())
    gc.collect()
    assert later() is None
