"""Decisions from posteriors worked out by hand, and what must not depend on how labels are ordered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.core import tiny_pack

from auricle.errors import SettingsError
from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack, load_pack
from auricle.settings import from_mapping
from auricle_edge.listening.detect import DetectSettings, DetectTable, detect_settings
from auricle_edge.listening.detect.decision import Decider
from auricle_edge.listening.detect.rules import make_rules
from auricle_edge.listening.detect.settings import ANY_DROP

LABELS = ("yes", "no", "_unknown_", "_silence_")


def _decider(**changes: object) -> Decider:
    values = {"smoothing": 1, "patience": 1, "threshold": 0.5, "refractory": 0.0}
    return Decider(LABELS, DetectSettings(**{**values, **changes}))  # type: ignore[arg-type]


def _heard(decider: Decider, yes: Sequence[float | None]) -> list[tuple[int, float]]:
    """Steps at which `yes` was heard and its average, for posteriors of it; None: nobody judged."""
    heard = []
    for step, posterior in enumerate(yes):
        row = None if posterior is None else np.array([posterior, 0, 1 - posterior, 0], np.float32)
        decision = decider.step(row)
        if decision is not None:
            assert decision[0] == 0
            heard.append((step, round(decision[1], 6)))
    return heard


HEARD: dict[str, tuple[dict[str, object], list[float | None], list[tuple[int, float]]]] = {
    # (0 + 0 + 0.9) / 3 = 0.3, (0 + 0.9 + 0.9) / 3 = 0.6: the window before the first counts as 0, as does a closed gate
    "the average reaches the threshold": ({"smoothing": 3}, [0.9, 0.9, 0.9], [(1, 0.6)]),
    "nobody judged a window": ({"smoothing": 3}, [0.9, None, 0.9], [(2, 0.6)]),
    "windows in a row": ({"patience": 3}, [0.6, 0.7, 0.4, 0.6, 0.7, 0.8], [(5, 0.8)]),
    "once until it falls": ({}, [0.6, 0.9, 0.9, 0.9, 0.4, 0.7], [(0, 0.6), (5, 0.7)]),
    # 0.3 s are three hops: again at 3 at the earliest, and then only if it is still there
    "too soon, and it stays": ({"refractory": 0.3}, [0.6, 0.4, 0.7, 0.8, 0.9], [(0, 0.6), (3, 0.8)]),
    "too soon, and it goes": ({"refractory": 0.3}, [0.6, 0.4, 0.7, 0.4, 0.4], [(0, 0.6)]),
}


@pytest.mark.parametrize("case", HEARD)
def test_a_keyword_is_heard_by_the_rules(case: str) -> None:
    changes, posteriors, heard = HEARD[case]
    assert _heard(_decider(**changes), posteriors) == heard


def test_the_refractory_time_is_each_keywords_own() -> None:
    decider = _decider(refractory=1.0)
    words = [decider.step(np.array(row, np.float32)) for row in ([0.9, 0, 0, 0], [0, 0.9, 0, 0], [0.9, 0, 0, 0])]
    assert [None if w is None else w[0] for w in words] == [0, 1, None]


def test_each_keyword_has_its_own_threshold() -> None:
    """`yes` needs 0.8, `no` the default of 0.5."""
    decider = _decider(thresholds={"yes": 0.8})
    assert decider.step(np.array([0.7, 0.3, 0, 0], np.float32)) is None
    heard = decider.step(np.array([0.4, 0.6, 0, 0], np.float32))
    assert heard is not None and heard[0] == 1


def test_only_the_highest_of_two_keywords_above_their_thresholds_is_heard() -> None:
    decider = _decider(threshold=0.3)
    row = np.array([0.35, 0.55, 0.1, 0], np.float32)
    heard = [decider.step(row) for _ in range(3)]
    assert heard[0] is not None and heard[0][0] == 1 and heard[1:] == [None, None]


def test_unknown_and_silence_are_never_heard() -> None:
    decider = _decider(threshold=0.0)
    for row in ([0, 0, 1, 0], [0, 0, 0, 1]):
        decision = decider.step(np.array(row, np.float32))
        assert decision is None or LABELS[decision[0]] == "yes"
    decider = _decider(threshold=0.1)
    assert not any(decider.step(np.array([0, 0, half, 1 - half], np.float32)) for half in (0.0, 0.5, 1.0))


def test_after_a_gap_nothing_is_left() -> None:
    decider = _decider(smoothing=2, refractory=60.0)
    assert _heard(decider, [0.9, 0.9]) == [(1, 0.9)]
    decider.reset()
    assert _heard(decider, [0.9, 0.9]) == [(1, 0.9)]


def test_a_threshold_for_no_keyword_is_refused_and_changes_nothing() -> None:
    for word in ("yess", "_unknown_"):
        with pytest.raises(SettingsError, match=word):
            _decider(thresholds={word: 0.5})
    decider = _decider()
    with pytest.raises(SettingsError):
        decider.set_thresholds({"yes": 0.99, "on": 0.1})
    assert _heard(decider, [0.6]) == [(0, 0.6)]


def test_labels_without_a_keyword_are_refused() -> None:
    with pytest.raises(SettingsError, match="no keyword"):
        Decider(("_unknown_", "_silence_"), DetectSettings())


@settings(max_examples=40)
@given(
    arrays(np.float32, (25, 4), elements=st.floats(0, 1, width=32), unique=True),
    st.permutations(range(4)),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_the_order_of_the_labels_does_not_matter(
    rows: np.ndarray, order: list[int], smoothing: int, patience: int
) -> None:
    chosen = DetectSettings(smoothing=smoothing, patience=patience, threshold=0.4, refractory=0.2)
    plain, permuted = Decider(LABELS, chosen), Decider([LABELS[i] for i in order], chosen)
    for row in rows:
        one, other = plain.step(row), permuted.step(row[order])
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (LABELS[one[0]], one[1]) == (permuted.labels[other[0]], pytest.approx(other[1]))


def _reference(rows: np.ndarray, smoothing: int, patience: int, rest: int) -> list[tuple[int, int]]:
    """The rule without wake words, written down again window by window: steps and labels of what is heard at 0.4."""
    heard: list[tuple[int, int]] = []
    last: dict[int, int] = {}
    since: dict[int, int] = {}
    for step in range(len(rows)):
        averages = rows[max(0, step + 1 - smoothing) : step + 1].astype(float).sum(axis=0) / smoothing
        for word in (0, 1):
            if averages[word] < 0.4:
                since.pop(word, None)
            else:
                since.setdefault(word, step)
        best = int(averages[1] > averages[0])
        ready = best in since and step - since[best] >= patience - 1 and last.get(best, -1) < since[best]
        if ready and step - last.get(best, -rest) >= rest:
            last[best] = step
            heard.append((step, best))
    return heard


@settings(max_examples=60)
@given(
    arrays(np.float32, (30, 4), elements=st.floats(0, 1, width=32), unique=True), st.integers(1, 4), st.integers(1, 3)
)
@pytest.mark.slow
def test_without_wake_words_it_is_the_rule_as_it_was(rows: np.ndarray, smoothing: int, patience: int) -> None:
    """Against the rule written down in another way; 0.3 s of refractory time are three hops."""
    chosen = DetectSettings(smoothing=smoothing, patience=patience, threshold=0.4, refractory=0.3)
    decider = Decider(LABELS, chosen)
    decisions = [(step, decider.step(row)) for step, row in enumerate(rows)]
    found = [(step, decision[0]) for step, decision in decisions if decision is not None]
    assert found == _reference(rows, smoothing, patience, 3)


# -- which keywords count in which state, by the settings and the pack


RULED = ("yes", "no", "up", "_unknown_")


def test_without_wake_words_every_keyword_always_counts() -> None:
    rules = make_rules(RULED, DetectSettings(threshold=0.7, thresholds={"no": 0.6}))
    assert rules.awake is rules.waiting
    assert rules.waiting.active.tolist() == [True, True, True, False]
    assert rules.waiting.thresholds.tolist() == [0.7, 0.6, 0.7, 0.7]
    assert not rules.waiting.yielding.any()


def test_with_them_only_they_count_until_one_is_heard_and_commands_have_thresholds_of_their_own() -> None:
    settings = DetectSettings(threshold=0.7, thresholds={"yes": 0.9, "up": 0.65}, wake=("yes",), commands={"no": 0.3})
    rules = make_rules(RULED, settings)
    assert rules.waiting.active.tolist() == [True, False, False, False]
    assert rules.waiting.thresholds[0] == 0.9
    assert rules.awake.active.tolist() == [True, True, True, False]
    assert rules.awake.thresholds[:3].tolist() == [0.9, 0.3, 0.65]
    assert np.flatnonzero(rules.awake.yielding).tolist() == [0]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"wake": ("yess",)}, "yess"),
        ({"wake": ("_unknown_",)}, "_unknown_"),
        ({"wake": ("yes", "yes")}, "twice"),
        ({"wake": ("yes",), "commands": {"uo": 0.3}}, "uo"),
        ({"wake": ("yes",), "commands": {"yes": 0.3}}, "no command"),
        ({"thresholds": {"maybe": 0.5}}, "maybe"),
    ],
    ids=str,
)
def test_a_word_that_does_not_fit_is_refused(changes: dict[str, Any], wrong: str) -> None:
    with pytest.raises(SettingsError, match=wrong):
        make_rules(RULED, DetectSettings(**changes))


def _refusal(wake: str, *more: str) -> str:
    with pytest.raises(SettingsError) as refused:
        make_rules(("hey jarvis", "computer", "stop", "_unknown_"), DetectSettings(wake=(wake, *more)))
    return str(refused.value)


@pytest.mark.parametrize(
    ("wake", "command"),
    [
        (("hey robot",), 'auricle export wakeword "hey robot" --out hey-robot.tar.zst'),
        (("robot",), "auricle export wakeword robot --out robot.tar.zst"),
        (("hey computer",), 'auricle export wakeword "hey computer" --out hey-computer.tar.zst'),
        (("computer", "Grüß Gott"), 'auricle export wakeword computer "grüß gott" --out grüß-gott.tar.zst'),
        (("l'ordi $(x)",), """auricle export wakeword 'l'"'"'ordi $(x)' --out l-ordi-x.tar.zst"""),
    ],
    ids=str,
)
def test_a_wake_word_of_ones_own_is_answered_by_the_command_that_makes_it(wake: tuple[str], command: str) -> None:
    assert command in _refusal(*wake)


@pytest.mark.parametrize(
    ("wake", "meant"), [("computr", "computer"), ("Hey Jarvis", "hey jarvis"), ("hey jarvs", "hey jarvis")]
)
def test_a_slip_of_the_pen_is_answered_by_the_keyword_that_was_meant(wake: str, meant: str) -> None:
    assert f'"{meant}"' in _refusal(wake)
    assert "wakeword" not in _refusal(wake)


@pytest.mark.parametrize("wake", ["_unknown_", "_silence_", "hey_robot", "", "...", "42"])
def test_what_is_no_phrase_has_no_command_that_makes_it(wake: str) -> None:
    assert "wakeword" not in _refusal(wake)


# -- the table [detect] over the pack

HOPS: dict[str, Any] = {"hop": 0.05, "smoothing": 4, "patience": 1, "window": 2.5}
SAID = Listening(wake=("yes",), thresholds={"yes": 0.85, "no": 0.7}, commands={"no": 0.4, "up": 0.35}, **HOPS)
PACK = tiny_pack.pack(listening=SAID)


def test_a_pack_that_says_nothing_is_listened_to_as_ever() -> None:
    assert detect_settings(DetectTable(), load_pack("digits")) == DetectSettings()


def test_how_much_fainter_a_command_may_be_says_the_table_then_the_pack_and_else_nobody() -> None:
    """A pack that says nothing takes commands of every level."""
    said = msgspec.structs.replace(PACK.manifest, listening=msgspec.structs.replace(SAID, command_drop=4.0))
    for pack, table, drop in (
        (PACK, DetectTable(), ANY_DROP),
        (Pack(said, PACK.files), DetectTable(), 4.0),
        (Pack(said, PACK.files), DetectTable(command_drop=0.0), 0.0),
        (load_pack("home"), DetectTable(), 4.0),
    ):
        assert detect_settings(table, pack).command_drop == drop


def test_what_the_device_does_not_say_comes_from_the_pack() -> None:
    found = detect_settings(DetectTable(), PACK)
    assert (found.hop, found.smoothing, found.patience, found.window) == (0.05, 4, 1, 2.5)
    assert found.wake == ("yes",) and found.threshold == 0.8
    assert found.thresholds == {"yes": 0.85, "no": 0.7} and found.commands == {"no": 0.4, "up": 0.35}


def test_what_it_says_stands_word_by_word() -> None:
    said = DetectTable(hop=0.1, patience=3, window=5.0, thresholds={"yes": 0.9}, commands={"up": 0.5}, vad="off")
    found = detect_settings(said, PACK)
    assert (found.hop, found.smoothing, found.patience, found.window, found.vad) == (0.1, 4, 3, 5.0, "off")
    assert found.thresholds == {"yes": 0.9, "no": 0.7} and found.commands == {"no": 0.4, "up": 0.5}


def test_a_threshold_for_all_takes_the_place_of_the_packs() -> None:
    found = detect_settings(DetectTable(threshold=0.6, thresholds={"up": 0.5}), PACK)
    assert (found.threshold, found.thresholds) == (0.6, {"up": 0.5})
    assert found.commands == {"no": 0.4, "up": 0.35}


def test_its_words_are_those_of_the_pack_with_letters_and_marks_composed_or_not() -> None:
    pack = PACK.with_labels(["für", "tür", "no"])
    for form in ("NFC", "NFD"):
        said = {normalize(form, word): level for word, level in {"für": 0.9, "tür": 0.5}.items()}
        found = detect_settings(DetectTable(thresholds=said, wake=(normalize(form, "für"),)), pack)
        assert (found.thresholds, found.wake) == ({"für": 0.9, "tür": 0.5}, ("für",))


def test_an_empty_list_of_wake_words_opens_every_keyword_and_no_low_threshold_goes_with_it() -> None:
    found = detect_settings(DetectTable(wake=()), PACK)
    rules = make_rules(PACK.labels, found)
    assert rules.waiting.active[:3].all() and rules.waiting is rules.awake
    assert rules.waiting.thresholds[:3].tolist() == [0.85, 0.7, 0.8]


def test_another_wake_word_is_no_command_any_more() -> None:
    found = detect_settings(DetectTable(wake=("no",)), PACK)
    assert found.wake == ("no",) and found.commands == {"up": 0.35}
    with pytest.raises(SettingsError, match="noo"):
        detect_settings(DetectTable(wake=("noo",)), PACK)


def test_a_detector_whose_wake_words_are_all_keywords_listens_to_all_of_them_always() -> None:
    rules = make_rules(RULED, DetectSettings(wake=("yes", "no", "up"), thresholds={"no": 0.6}))
    assert rules.awake is rules.waiting
    assert rules.waiting.active.tolist() == make_rules(RULED, DetectSettings()).waiting.active.tolist()
    assert not rules.waiting.yielding.any()


def test_wake_words_that_are_all_keywords_of_a_pack_always_count() -> None:
    said = Listening(thresholds={"yes": 0.85, "no": 0.7, "up": 0.6})
    pack = tiny_pack.pack(listening=said)

    assert detect_settings(DetectTable(wake=("up", "no", "yes")), pack) == detect_settings(DetectTable(), pack)
    with pytest.raises(SettingsError, match="twice"):
        detect_settings(DetectTable(wake=("up", "no", "yes", "yes")), pack)


def test_the_table_is_read_from_a_file_and_has_the_settings_names() -> None:
    said = from_mapping(DetectTable, {"wake": ["yes"], "commands": {"no": 0.3}, "second_stage": "off"}, "edge.toml")
    assert said == DetectTable(wake=("yes",), commands={"no": 0.3}, second_stage="off")
    assert set(DetectTable.__struct_fields__) == set(DetectSettings.__struct_fields__)
