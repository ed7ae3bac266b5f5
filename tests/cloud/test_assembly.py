"""Updates in parts, and the memory they take."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cloud.arrivals import update

from auricle.errors import WireError
from auricle_cloud.link import assembly
from auricle_cloud.link.assembly import Assemblies

LENGTH = 60


def held(assemblies: Assemblies) -> int:
    """Bytes that are really kept."""
    return sum(len(part) for kept in assemblies._kept.values() for part in kept.parts.values())


def test_a_part_that_comes_again_replaces_itself() -> None:
    assemblies = Assemblies()
    for part in (b"abcd", b"", b"xy"):
        assert assemblies.add(update(length=4, part=0, parts=2), part) is None
        assert assemblies.size == held(assemblies) == len(part)
    assert assemblies.add(update(length=4, part=1, parts=2), b"z") == b"xyz"


def test_another_body_or_number_of_parts_begins_anew() -> None:
    assemblies = Assemblies()
    assemblies.add(update(length=4, part=0, parts=2), b"ab")
    assert assemblies.add(update(length=4, part=1, parts=2, body="d" * 64), b"cd") is None
    assert assemblies.add(update(length=4, part=0, parts=3, body="d" * 64), b"ef") is None
    assert assemblies.size == held(assemblies) == 2


def test_those_that_rested_long_make_room_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assemblies = Assemblies(10)
    assemblies.add(update("dev-a", length=8, parts=2), b"abcd")
    assemblies.add(update("dev-b", length=8, parts=2), b"abcd")
    with pytest.raises(WireError, match=r"^memory: "):
        assemblies.add(update("dev-c", length=8, parts=2), b"abcd")
    kept_after_refusal = (sorted(assemblies._kept), assemblies.size)
    assemblies._kept["dev-a"].touched -= assembly.PATIENCE_SECONDS + 1

    assert assemblies.add(update("dev-c", length=8, parts=2), b"abcd") is None

    assert kept_after_refusal == (["dev-a", "dev-b"], 8)
    assert (sorted(assemblies._kept), assemblies.size) == (["dev-b", "dev-c"], 8)
    assemblies.drop("dev-b")
    assemblies.drop("dev-b")
    assert assemblies.size == held(assemblies) == 4


PARTS = st.tuples(
    *(st.sampled_from(each) for each in (["dev-a", "dev-b", "dev-c"], ["b" * 64, "d" * 64])),
    *(st.integers(0, 4), st.integers(1, 5), st.binary(max_size=40), st.booleans()),
)


@settings(max_examples=300)
@given(sent=st.lists(PARTS, max_size=40), budget=st.integers(0, 150))
@pytest.mark.slow
def test_memory_is_counted_exactly_and_never_more_than_the_budget_and_an_update_a_device(
    sent: list[tuple[str, str, int, int, bytes, bool]], budget: int
) -> None:
    assemblies = Assemblies(budget)
    for device, body, part, parts, content, rested in sent:
        if rested and device in assemblies._kept:
            assemblies._kept[device].touched -= assembly.PATIENCE_SECONDS + 1
        message = update(device, body=body, length=LENGTH, part=min(part, parts - 1), parts=parts)
        try:
            whole = assemblies.add(message, content)
        except WireError as error:
            assert str(error).split(":")[0] in ("part", "memory")
            assert device not in assemblies._kept
        else:
            assert whole is None or parts == 1 or len(whole) <= LENGTH
            assert (whole is None) == (device in assemblies._kept)

        assert assemblies.size == held(assemblies) <= budget
        assert all(0 <= kept.size <= LENGTH for kept in assemblies._kept.values())
