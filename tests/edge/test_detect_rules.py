"""Which keywords count in which state, and what of the settings and the pack says so: exact, with every refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.core import tiny_pack

from auricle.errors import SettingsError
from auricle.packs.manifest import Listening
from auricle.packs.pack import load_pack
from auricle.settings import from_mapping
from auricle_edge.listening.detect import DetectSettings, DetectTable, detect_settings
from auricle_edge.listening.detect.rules import make_rules

LABELS = ("yes", "no", "up", "_unknown_")


def test_without_wake_words_every_keyword_always_counts() -> None:
    rules = make_rules(LABELS, DetectSettings(threshold=0.7, thresholds={"no": 0.6}))
    assert rules.awake is rules.waiting
    assert rules.waiting.active.tolist() == [True, True, True, False]
    assert rules.waiting.thresholds.tolist() == [0.7, 0.6, 0.7, 0.7]
    assert not rules.waiting.yielding.any()


def test_with_them_only_they_count_until_one_is_heard_and_commands_have_thresholds_of_their_own() -> None:
    settings = DetectSettings(threshold=0.7, thresholds={"yes": 0.9, "up": 0.65}, wake=("yes",), commands={"no": 0.3})
    rules = make_rules(LABELS, settings)
    assert rules.waiting.active.tolist() == [True, False, False, False]
    assert rules.waiting.thresholds[0] == 0.9
    assert rules.awake.active.tolist() == [True, True, True, False]
    assert rules.awake.thresholds[:3].tolist() == [0.9, 0.3, 0.65]
    assert np.flatnonzero(rules.awake.yielding).tolist() == [0]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"wake": ("yess",)}, r'wake: there is no keyword "yess": did you mean "yes"\?'),
        ({"wake": ("_unknown_",)}, 'wake: there is no keyword "_unknown_"'),
        ({"wake": ("yes", "yes")}, "a word twice"),
        ({"wake": ("yes", "no", "up")}, "no command is left"),
        ({"wake": ("yes",), "commands": {"uo": 0.3}}, r'there is no command "uo": did you mean "up"\?'),
        ({"wake": ("yes",), "commands": {"yes": 0.3}}, 'there is no command "yes"'),
        ({"thresholds": {"maybe": 0.5}}, 'no keyword "maybe" to set a threshold for'),
    ],
    ids=str,
)
def test_a_word_that_does_not_fit_is_refused_with_the_nearest_that_does(changes: dict[str, Any], wrong: str) -> None:
    with pytest.raises(SettingsError, match=wrong):
        make_rules(LABELS, DetectSettings(**changes))


# -- the table [detect] over the pack

SAID = Listening(
    hop=0.05,
    smoothing=4,
    patience=1,
    thresholds={"yes": 0.85, "no": 0.7},
    wake=("yes",),
    window=2.5,
    commands={"no": 0.4, "up": 0.35},
)
PACK = tiny_pack.pack(listening=SAID)


def test_a_pack_that_says_nothing_is_listened_to_as_ever() -> None:
    assert detect_settings(DetectTable(), load_pack("digits")) == DetectSettings()


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


def test_an_empty_list_of_wake_words_opens_every_keyword_and_no_low_threshold_goes_with_it() -> None:
    found = detect_settings(DetectTable(wake=()), PACK)
    rules = make_rules(PACK.labels, found)
    assert rules.waiting.active[:3].all() and rules.waiting is rules.awake
    assert rules.waiting.thresholds[:3].tolist() == [0.85, 0.7, 0.8]


def test_another_wake_word_is_no_command_any_more() -> None:
    found = detect_settings(DetectTable(wake=("no",)), PACK)
    assert found.wake == ("no",) and found.commands == {"up": 0.35}
    with pytest.raises(SettingsError, match='did you mean "no"'):
        detect_settings(DetectTable(wake=("noo",)), PACK)


def test_the_table_is_read_from_a_file_and_its_names_are_checked() -> None:
    said = from_mapping(DetectTable, {"wake": ["yes"], "commands": {"no": 0.3}, "second_stage": "off"}, "edge.toml")
    assert said == DetectTable(wake=("yes",), commands={"no": 0.3}, second_stage="off")
    with pytest.raises(SettingsError, match=r'no setting "wakes": did you mean "wake"\?'):
        from_mapping(DetectTable, {"wakes": ["yes"]}, "edge.toml")


def test_both_structs_have_the_same_names() -> None:
    names = [{field.name for field in msgspec.structs.fields(kind)} for kind in (DetectTable, DetectSettings)]
    assert names[0] == names[1]
