"""A wake word, then a command, hop by hop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.core.hearing.by_hand import peaks_of, spoken

from auricle.errors import DataError
from auricle.hearing.command_counts import CommandCounts, command_counts, counts_over_speech, wakes_heard
from auricle.hearing.rule import Rule
from auricle.hearing.scenes import Scene, Stretch
from auricle.hearing.waking import Heard, Waking, hear_awake

LABELS = ("computer", "yes", "no", "_unknown_")
PLAIN = Waking(("computer",), {"computer": 0.5}, {"yes": 0.4, "no": 0.4}, 1.0, Rule(0.1, 1, 1, 0.0))
HOP = 1_600


def peaks(at: dict[int, tuple[str, float]]) -> np.ndarray:
    return peaks_of(LABELS, 60, at)


def heard(at: dict[int, tuple[str, float]], waking: Waking = PLAIN) -> list[tuple[str, int]]:
    """Words and the hops at whose end they were decided."""
    return [(h.word, h.decided // HOP - 1) for h in hear_awake(peaks(at), LABELS, waking)]


def test_asleep_no_command_counts() -> None:
    assert heard({5: ("yes", 0.9), 8: ("no", 1.0)}) == []


def test_a_wake_word_opens_a_window_of_ten_hops() -> None:
    """Heard at hop 5, commands count at hops 6 to 15."""
    for hop, counts in ((6, True), (15, True), (16, False)):
        said = [("yes", hop)] if counts else []
        assert heard({5: ("computer", 0.6), hop: ("yes", 0.45)}) == [("computer", 5), *said]


def test_the_first_command_closes_the_window_and_a_wake_word_opens_it_again() -> None:
    assert heard({5: ("computer", 0.6), 8: ("yes", 0.5), 10: ("no", 0.5)}) == [("computer", 5), ("yes", 8)]
    again = {5: ("computer", 0.6), 14: ("computer", 0.7), 20: ("no", 0.5)}
    assert heard(again) == [("computer", 5), ("computer", 14), ("no", 20)]


def test_a_guard_keeps_the_first_hops_of_the_window_for_the_wake_words() -> None:
    """Two hops after the one of the decision: `yes` counts from hop 8 on, and from nothing."""
    guarded = replace(PLAIN, guard=2)
    for hop, counts in ((6, False), (7, False), (8, True)):
        said = [("yes", hop)] if counts else []
        assert heard({5: ("computer", 0.6), hop: ("yes", 0.45)}, guarded) == [("computer", 5), *said]
    again = {5: ("computer", 0.6), 7: ("computer", 0.6), 9: ("yes", 0.9), 10: ("no", 0.5)}
    assert heard(again, guarded) == [("computer", 5), ("computer", 7), ("no", 10)]


def test_awake_a_wake_word_holds_a_command_back_only_where_it_can_be_heard_itself() -> None:
    """Still above its 0.5 in hop 6 it yields, and below it in hop 9; in hop 12 it is heard again instead of `no`."""
    rows = peaks({5: ("computer", 0.9)})
    rows[6, :2] = 0.8, 0.45
    assert [h.word for h in hear_awake(rows, LABELS, PLAIN)] == ["computer", "yes"]
    rows[6, 1], rows[9, :2] = 0.0, (0.49, 0.45)
    assert [h.word for h in hear_awake(rows, LABELS, PLAIN)] == ["computer", "yes"]
    rows[9, :2], rows[12, :3:2] = 0.0, (0.6, 0.5)
    assert [h.word for h in hear_awake(rows, LABELS, PLAIN)] == ["computer", "computer"]


def test_the_highest_of_the_wake_words_counts_whatever_a_command_has() -> None:
    """Asleep the commands are no rivals."""
    rows = peaks({})
    rows[5, :2] = 0.6, 0.9
    assert [h.word for h in hear_awake(rows, LABELS, PLAIN)] == ["computer"]


def test_what_commands_had_before_the_wake_word_is_forgotten() -> None:
    """Of two windows, 0.6 at the wake word's own hop and 0.3 after it would be 0.45; from nothing it is 0.15."""
    waking = Waking(("computer",), {"computer": 0.2}, {"yes": 0.4, "no": 0.4}, 1.0, Rule(0.1, 2, 1, 0.0))
    rows = peaks({})
    rows[5, :2], rows[6, 1] = (0.5, 0.6), 0.3
    assert [h.word for h in hear_awake(rows, LABELS, waking)] == ["computer"]


def at(word: str, seconds: float, *, command: bool = True) -> Heard:
    return Heard(word, round(seconds * 16_000), command)


def test_commands_are_right_wrong_or_missed() -> None:
    """The wake word from 1 to 1.5 s, `yes` from 2 to 2.4 s: until 3.4 s."""
    scene = Scene(np.zeros(160_000, np.int16), (spoken("computer", 1, 1.5, "wake"), spoken("yes", 2, 2.4, "command")))
    wake = at("computer", 1.6, command=False)
    for found, expected in (
        ([wake, at("yes", 2.5)], CommandCounts(wakes=1, woken=1, commands=1, reached=1, right=1)),
        ([wake, at("no", 2.5)], CommandCounts(wakes=1, woken=1, commands=1, reached=1, wrong=1)),
        ([wake, at("yes", 1.8)], CommandCounts(wakes=1, woken=1, commands=1, reached=1, wrong=1)),
        ([wake, at("yes", 3.5)], CommandCounts(wakes=1, woken=1, commands=1, reached=1)),
        ([], CommandCounts(wakes=1, commands=1)),
    ):
        assert command_counts(scene, found, 3.0) == expected
    clear = replace(scene, words=(scene.words[0], replace(scene.words[1], recording="r")))
    for found, right in (([wake, at("yes", 2.5)], 1), ([wake, at("no", 2.5)], 0), ([], 0)):
        counts = command_counts(clear, found, 3.0, {"r"})
        assert (counts.clear, counts.clear_right) == (1, right)
        assert command_counts(clear, found, 3.0, {"s"}).clear == 0


def test_a_command_after_a_wake_word_alone_or_where_nobody_spoke_is_false() -> None:
    scene = Scene(
        np.zeros(320_000, np.int16), (spoken("computer", 1, 1.5, "wake alone"),), (Stretch("noise", 160_000, 320_000),)
    )
    found = [at("computer", 1.7, command=False), at("no", 4), at("computer", 12, command=False), at("yes", 13)]
    counts = command_counts(scene, found, 3.0)
    hours = 10 / 3600
    assert counts == CommandCounts(1, 1, alone=1, opened=1, false=1, false_wakes=1, false_commands=1, hours=hours)
    assert counts + CommandCounts(wakes=2, hours=1.0) == CommandCounts(
        3, 1, alone=1, opened=1, false=1, false_wakes=1, false_commands=1, hours=hours + 1.0
    )
    assert command_counts(scene, [], 3.0) == CommandCounts(1, alone=1, hours=hours)


def test_what_is_said_over_speech_is_counted_for_itself() -> None:
    """A command that is right, and a wake word alone with a command after it; the sound without any counts once."""
    said = (("computer", 1, 1.5, "wake over"), ("yes", 2, 2.4, "command over"), ("computer", 8, 8.5, "alone over"))
    words = tuple(spoken(*each) for each in said)
    scene = Scene(np.zeros(320_000, np.int16), words, (Stretch("noise", 240_000, 320_000),))
    found = [at("computer", 1.6, command=False), at("yes", 2.5), at("computer", 8.6, command=False), at("no", 11)]
    assert counts_over_speech(scene, found, 3.0) == CommandCounts(
        wakes=2, woken=2, commands=1, reached=1, right=1, alone=1, opened=1, false=1
    )
    assert command_counts(scene, found, 3.0) == CommandCounts(hours=5 / 3600)


def test_wake_words_and_thresholds_belong_to_the_labels() -> None:
    with pytest.raises(DataError, match="wake words jarvis are not labels"):
        hear_awake(peaks({}), LABELS, Waking(("jarvis",), {"jarvis": 0.5}, {}))
    with pytest.raises(DataError, match='no threshold for "no"'):
        hear_awake(peaks({5: ("computer", 0.9)}), LABELS, Waking(("computer",), {"computer": 0.5}, {"yes": 0.5}))


def test_each_detection_is_of_one_wake_word_only() -> None:
    """Said at 1 and at 1.6 s, heard once at 2 s, which both could be; and not heard at 5 s."""
    said = [(1.0, "noise"), (1.6, "noise"), (5.0, "wake")]
    words = tuple(spoken("computer", start, start + 0.5, kind) for start, kind in said)
    scene = Scene(np.zeros(0, np.int16), (*words, spoken("yes", 8, 8.4, "noise")))
    found = [at("computer", 2.0, command=False), at("yes", 5.5)]
    assert [heard for _, heard in wakes_heard(scene, found, ("computer",))] == [True, False, False]
