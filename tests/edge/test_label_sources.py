"""Answers, chances and certainty become labelled clips; what nobody may keep is forgotten."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.edge.clip_sounds import FRONTEND, LABELS, LENGTH, NO_UNKNOWN, START, Hands, spoken, store, tone

from auricle.errors import DataError, SettingsError, StorageError
from auricle.speech.features import LogMel
from auricle_edge.clips import ClipStore, NewClip
from auricle_edge.clips.choice import past_age
from auricle_edge.clips.disk import Disk
from auricle_edge.labels import Labeller, LabelSettings
from auricle_edge.labels.candidates import opinion, reconsider
from auricle_edge.labels.surroundings import Chances
from auricle_edge.listening.detect.decision import NearMiss
from auricle_edge.listening.sound import Detection


class Room:
    """Ears that have heard a given sound, and then hear it again and again."""

    def __init__(self, sound: NDArray[np.int16]) -> None:
        self.sound, self.newest, self.speaking = sound, len(sound), False
        self.arrived: float | None = 0.0

    @property
    def oldest(self) -> int:
        return self.newest - len(self.sound)

    def audio(self, start: int, end: int) -> NDArray[np.int16]:
        if not self.oldest <= start <= end <= self.newest:
            raise DataError("not in memory")
        return self.sound[np.arange(start, end) % len(self.sound)]


class Home:
    """A labeller with everything around it, and a clock that is told the time."""

    def __init__(
        self,
        folder: Path,
        sound: NDArray[np.int16] | None = None,
        *,
        frontend: LogMel = FRONTEND,
        disk: Disk | None = None,
        recognise: Any = None,
        **settings: Any,
    ) -> None:
        self.clock = Hands(0.0)
        self.store: ClipStore = store(folder, frontend=frontend, **({"disk": disk} if disk else {}))
        self.ears = Room(spoken(12.0, at=9.0) if sound is None else sound)
        self.labeller = Labeller(
            self.store, self.ears, LabelSettings(**settings), recognise, clock=self.clock, rng=random.Random(0)
        )

    def hears(self, number: int = 1, word: str = "yes", score: float = 0.9, start: int = 140_000) -> str:
        name = f"{number:012x}"
        self.labeller.detected(Detection(name, word, score, "plugin", start, start + LENGTH, start + LENGTH, 0.0, 0.1))
        return name

    @property
    def kept(self) -> list[tuple[str | None, str, float]]:
        return [(clip.record.word, clip.record.source, clip.record.weight) for clip in self.store.list()]

    def until(self, seconds: float) -> list[Any]:
        """Let time pass, a tick a second, with a second of sound each; what was done."""
        done = []
        while self.clock.now < seconds:
            self.clock.now += 1
            self.ears.newest += LENGTH
            self.ears.arrived = self.clock.now
            done += self.labeller.tick()
        return done


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, ambient_seconds=1e6)


# -- answers


def test_a_confirmed_detection_is_kept_as_its_word_with_the_sound_that_was_judged(tmp_path: Path) -> None:
    home = Home(tmp_path, automatic_per_hour=0)
    name = home.hears()
    answer = home.labeller.confirm()
    (clip,) = home.store.list()
    assert (answer.clip, answer.word, answer.detection) == (clip.id, "yes", name)
    assert (clip.record.source, clip.record.score, clip.record.model) == ("confirmed", 0.9, "plugin")
    np.testing.assert_array_equal(home.store.read(clip.id), home.ears.sound[140_000 : 140_000 + LENGTH])
    assert answer.said.startswith("Confirmed: yes, heard 0 s ago")
    with pytest.raises(DataError, match="confirmed already"):
        home.labeller.confirm(name)


def test_an_answer_never_falls_through_to_the_detection_before(tmp_path: Path) -> None:
    home = Home(tmp_path, confirm_seconds=60.0)
    first = home.hears(1, "no")
    home.clock.now = 5.0
    second = home.hears(2, "yes", start=100_000)
    home.clock.now = 17.0
    denied = home.labeller.deny()
    assert (denied.detection, denied.heard, denied.seconds_ago) == (second, "yes", 12.0)
    for answer in (home.labeller.confirm, home.labeller.deny):
        with pytest.raises(DataError, match=rf"id {second}.*was denied"):
            answer()
    assert home.kept == [("_unknown_", "denied", 1.0)]
    assert home.labeller.confirm(first).detection == first


def test_an_answer_is_changed_by_the_id_of_its_detection_only(home: Home) -> None:
    name = home.hears()
    clip = home.labeller.confirm().clip
    assert (home.labeller.deny(name).clip, home.kept) == (clip, [("_unknown_", "denied", 1.0)])
    assert home.labeller.deny(name, "no").clip == clip
    assert home.kept == [("no", "confirmed", 1.0)]
    home.store.delete([str(clip)])
    assert home.labeller.confirm(name).clip not in (None, clip)
    assert home.kept == [("yes", "confirmed", 1.0)]


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_denial_that_has_no_label_in_the_pack_keeps_no_clip(tmp_path: Path, confirmed: bool) -> None:
    home = Home(tmp_path, frontend=NO_UNKNOWN)
    name = home.hears()
    if confirmed:
        home.labeller.confirm()
    denied = home.labeller.deny(name)
    assert (denied.clip, denied.word, home.kept) == (None, None, [])
    assert ("the clip was deleted" if confirmed else '"_unknown_"') in denied.said
    assert home.labeller.confirm(name).clip is not None
    assert home.kept == [("yes", "confirmed", 1.0)]


def test_the_newest_detection_is_that_of_the_moment_of_the_answer(home: Home) -> None:
    first = home.hears(1)
    pressed = home.labeller.moment
    second = home.hears(2, "no")
    assert home.labeller.confirm(moment=pressed).detection == first
    with pytest.raises(DataError, match=f"id {first}"):
        home.labeller.confirm(moment=pressed)
    assert home.labeller.deny().detection == second


def test_a_detection_whose_sound_is_not_held_does_not_pass_the_answer_on(home: Home) -> None:
    with pytest.raises(DataError, match="Nothing was heard"):
        home.labeller.deny()
    home.hears(1)
    lost = home.hears(2, "no", start=-LENGTH)
    with pytest.raises(DataError, match=f"id {lost}"):
        home.labeller.deny()
    assert home.kept == []


def test_a_denied_detection_is_kept_as_no_keyword_or_as_the_word_that_it_was(home: Home) -> None:
    home.labeller.deny(home.hears(1))
    home.labeller.deny(home.hears(2), "no")
    assert set(home.kept) == {("_unknown_", "denied", 1.0), ("no", "confirmed", 1.0)}
    with pytest.raises(SettingsError, match="yes"):
        home.labeller.deny(None, "yess")


def test_an_answer_comes_in_time_and_to_a_detection_that_there_was(tmp_path: Path) -> None:
    home = Home(tmp_path, confirm_seconds=5.0)
    home.hears()
    with pytest.raises(DataError, match="detection ffffffffffff"):
        home.labeller.confirm("f" * 12)
    home.clock.now = 5.0
    with pytest.raises(DataError, match="for 5 seconds"):
        home.labeller.deny()


def test_a_detection_that_nobody_answered_is_kept_only_where_the_model_was_sure(tmp_path: Path) -> None:
    home = Home(tmp_path, pseudo_threshold=0.95, pseudo_weight=0.25, ambient_seconds=1e6)
    home.hears(1, score=0.94)
    home.hears(2, "no", score=0.96)
    home.clock.now = 16.0
    assert home.labeller.tick()[0].clip is None
    assert home.kept == [("no", "pseudo", 0.25)]
    assert home.labeller.tick() == []


@pytest.mark.parametrize("followed", [True, False])
def test_a_wake_word_that_nobody_answered_is_kept_only_where_a_command_followed(home: Home, followed: bool) -> None:
    wake = "a" * 12 if followed else None
    for name, word, score, start, *rest in (
        ("a" * 12, "yes", 0.99, 20_000, "wake"),
        ("b" * 12, "no", 0.9, 140_000, "detection", wake, wake and "yes"),
    ):
        end = start + LENGTH
        home.labeller.detected(Detection(name, word, score, "plugin", start, end, end, 0.0, 0.1, *rest))
    done = home.until(16.0)
    assert home.kept == ([("yes", "pseudo", 0.5)] if followed else [])
    assert ("no command followed" in done[0].said) is not followed


class Full(Disk):
    full = True

    def write(self, path: Path, data: bytes) -> None:
        if self.full:
            raise StorageError("The disk is full.")
        super().write(path, data)


def test_an_answer_to_a_full_disk_may_be_given_again(tmp_path: Path) -> None:
    disk = Full()
    disk.full = False
    home = Home(tmp_path, disk=disk)
    home.hears()
    disk.full = True
    with pytest.raises(StorageError):
        home.labeller.confirm()
    disk.full = False
    assert home.labeller.confirm().word == "yes"


# -- missed


def test_a_missed_word_is_the_loudest_second_of_the_last_ones(home: Home) -> None:
    answer = home.labeller.missed("no")
    assert home.kept == [("no", "missed", 0.8)]
    assert answer.clip is not None
    found = home.store.read(answer.clip)
    start = next(i for i in range(130_000, 150_000, 1) if np.array_equal(home.ears.sound[i : i + LENGTH], found))
    assert abs(start + LENGTH / 2 - 9.25 * 16_000) <= 320


def test_missed_needs_a_word_and_something_that_sounds_like_one(tmp_path: Path) -> None:
    home = Home(tmp_path, spoken(12.0, at=2.0))
    with pytest.raises(DataError, match=r"5\.0 seconds"):
        home.labeller.missed("yes")
    for word, named in ((None, "missed_word"), ("yess", "yes")):
        with pytest.raises(SettingsError, match=named):
            home.labeller.missed(word)
    with pytest.raises(SettingsError, match="yess"):
        Home(tmp_path / "other", missed_word="yess")
    assert Home(tmp_path / "button", missed_word="no").labeller.missed().word == "no"


def test_a_missed_word_that_was_just_kept_as_something_else_gets_its_label(home: Home) -> None:
    """But one that was confirmed is not taken for a missed one."""
    home.hears()
    denied = home.labeller.deny()
    assert home.labeller.missed("no").clip == denied.clip
    assert home.kept == [("no", "missed", 0.8)]
    home.labeller.confirm(denied.detection)
    with pytest.raises(DataError, match="word"):
        home.labeller.missed("no")
    assert home.kept == [("yes", "confirmed", 1.0)]


@pytest.mark.parametrize("answer", ["none", "confirmed", "another word", "settled", "sound not held"])
def test_what_was_accepted_is_not_missed_unless_it_is_denied(home: Home, answer: str) -> None:
    name = home.hears(score=0.99) if answer != "sound not held" else ""
    if answer == "confirmed":
        home.labeller.confirm()
    elif answer == "another word":
        home.labeller.deny(word="no")
    elif answer == "settled":
        home.clock.now = home.ears.arrived = 16.0
        home.labeller.tick()
    elif answer == "sound not held":
        with home.labeller.paused():
            name = home.hears(2)
    before = home.kept
    remedy = "takes no answer" if answer in ("settled", "sound not held") else f"auricle edge deny {name}, with --word"
    with pytest.raises(DataError, match=f'heard as "yes" .id {name}.*{remedy}'):
        home.labeller.missed("no")
    assert home.kept == before


def test_a_missed_word_beside_an_accepted_one_is_taken_and_the_accepted_one_stays(home: Home) -> None:
    home.ears.sound = spoken(12.0, at=7.6) + spoken(12.0, at=9.6, level=9000)
    heard = home.hears(start=round(9.4 * 16_000))
    answer = home.labeller.missed("no")
    assert answer.seconds_ago == pytest.approx(4.15, abs=0.06) and answer.clip is not None
    assert answer.said == f'4 s ago: what was said was kept as "no" (clip {answer.clip}).'
    assert home.labeller.confirm().detection == heard
    assert set(home.kept) == {("no", "missed", 0.8), ("yes", "confirmed", 1.0)}


def test_the_last_seconds_are_those_of_the_clock_whether_sound_came_or_not(home: Home) -> None:
    """With the microphone gone, nothing of before is taken; an answer that waits is about the moment it was given."""
    pressed = home.labeller.moment
    home.clock.now = 40.0
    with pytest.raises(DataError, match=r"no sound came in the last 5 seconds.*edge status"):
        home.labeller.missed("no")
    assert home.kept == []
    home.ears.newest, home.ears.arrived = home.ears.newest + 2 * LENGTH, 2.0
    assert home.labeller.missed("no", moment=pressed).seconds_ago == pytest.approx(2.75, abs=0.06)
    home.ears.arrived = None
    home.clock.now = 0.0
    assert home.labeller.missed("no").word == "no", "it was just heard, whatever the number of its block"


def test_a_denied_detection_that_was_missed_is_named_and_its_answer_may_be_changed_again(home: Home) -> None:
    name = home.hears()
    home.labeller.deny()
    answer = home.labeller.missed("no")
    assert (answer.detection, answer.heard) == (name, "yes")
    assert answer.said.endswith(f'the clip {answer.clip} of what was said is now "no", no longer _unknown_ (denied).')
    assert home.labeller.confirm(name).clip == answer.clip
    assert home.kept == [("yes", "confirmed", 1.0)]


# -- words that were almost heard


def _almost(home: Home, word: str = "yes", start: int = 140_000, score: float = 0.6) -> None:
    """A word is almost heard; eight seconds of sound later that is settled."""
    home.labeller.almost(NearMiss(word, score, start, start + LENGTH))


def _settle(home: Home, seconds: int = 10) -> list[str]:
    """Let time pass; sources of what was kept of near-misses."""
    return [done.source for done in home.until(home.clock.now + seconds) if done.source in ("near", "repeated")]


def test_a_word_that_was_almost_heard_and_not_repeated_is_denied_by_silence(home: Home) -> None:
    _almost(home)
    assert _settle(home, 2) == []
    assert _settle(home) == ["near"]
    (clip,) = home.store.list()
    assert (clip.record.word, clip.record.guess, clip.record.score, clip.record.weight) == (None, "yes", 0.6, 0.0)
    assert not clip.record.held_out
    np.testing.assert_array_equal(home.store.read(clip.id), home.ears.sound[140_000 : 140_000 + LENGTH])
    data = home.store.device_data()
    assert (len(data.train), len(data.held_out), data.unlabelled) == (0, 0, None)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [("confirm", ["repeated"]), ("deny", ["near"]), (None, ["repeated"])],
    ids=["confirmed", "denied", "unanswered"],
)
def test_a_word_that_is_heard_when_said_again_was_missed_before(
    answer: str | None, kept: list[str], tmp_path: Path
) -> None:
    home = Home(tmp_path, ambient_seconds=1e6, confirm_seconds=12.0)
    _almost(home)
    home.until(2)
    home.hears(start=140_000 + 2 * LENGTH)
    if answer is not None:
        getattr(home.labeller, answer)()
    assert _settle(home, 30) == kept


def test_what_is_part_of_a_detection_or_only_tried_again_is_no_near_miss(tmp_path: Path) -> None:
    home = Home(tmp_path, ambient_seconds=1e6)
    _almost(home, "no")
    home.hears(start=140_000 + LENGTH // 4)
    assert _settle(home, 30) == []
    again = Home(tmp_path / "again", ambient_seconds=1e6)
    for _ in range(2):
        _almost(again, start=again.ears.newest - LENGTH)
        again.until(again.clock.now + 3)
    assert _settle(again, 30) == []
    answered = Home(tmp_path / "missed", ambient_seconds=1e6)
    _almost(answered)
    answered.labeller.missed("no")
    assert _settle(answered, 30) == []
    assert answered.kept == [("no", "missed", 0.8)]


@pytest.mark.parametrize(
    ("settings", "count"), [({"near_per_hour": 2}, 2), ({"near_per_hour": 0}, 0), ({"pseudo": False}, 0)]
)
def test_near_misses_have_a_quota_and_can_be_switched_off(tmp_path: Path, settings: dict[str, Any], count: int) -> None:
    home = Home(tmp_path, ambient_seconds=1e6, **settings)
    for word in ("yes", "no", "yes", "no"):
        _almost(home, word, start=home.ears.newest - LENGTH)
        _settle(home, 12)
    assert len(home.store.list()) == count


def test_near_misses_during_a_pause_are_not_kept(home: Home) -> None:
    with home.labeller.paused():
        _almost(home)
    assert _settle(home) == []


@pytest.mark.parametrize(
    ("source", "posteriors", "kept"),
    [
        ("near", (0.6, 0.2, 0.1, 0.1), None),
        ("near", (0.3, 0.2, 0.4, 0.1), ("_unknown_", "ambient", 0.25)),
        ("near", (0.2, 0.7, 0.05, 0.05), None),
        ("near", (float("nan"),) * 4, None),
        ("repeated", (0.6, 0.2, 0.1, 0.1), ("yes", "pseudo", 0.25)),
        ("repeated", (0.3, 0.2, 0.4, 0.1), None),
        ("repeated", (0.2, 0.7, 0.05, 0.05), None),
    ],
)
def test_a_near_miss_is_trained_on_only_where_a_later_model_agrees(
    source: str, posteriors: tuple[float, ...], kept: Any, home: Home
) -> None:
    home.store.add(NewClip(tone(1), None, source, 0.0, 0.6, guess="yes"))
    assert reconsider(home.store, _says(*posteriors), LabelSettings()) == (kept is not None)
    assert home.kept == [kept or (None, source, 0.0)]


def test_candidates_without_a_label_go_after_their_days(home: Home) -> None:
    for source in ("near", "repeated"):
        home.store.add(NewClip(tone(1), None, source, 0.0, 0.6, guess="yes"))
    clips = home.store.list()
    assert past_age(clips, home.store.settings, START + 1.9 * 86_400) == []
    assert len(past_age(clips, home.store.settings, START + 2.1 * 86_400)) == 2


# -- what the device keeps by itself


def test_quiet_seconds_are_kept_at_random_moments_and_no_more_than_allowed(tmp_path: Path) -> None:
    home = Home(tmp_path, ambient_seconds=60.0, automatic_per_hour=5)
    done = home.until(1800)
    assert home.kept == [("_silence_", "ambient", 0.5)] * 5
    assert len([each for each in done if each.clip]) == 5


def test_nothing_is_kept_while_the_microphone_is_muted(tmp_path: Path) -> None:
    home = Home(tmp_path, np.zeros(5 * LENGTH, np.int16), ambient_seconds=4.0)
    for _ in range(100):
        home.clock.now += 1
        assert home.labeller.tick() == []
    for _ in range(100):
        home.clock.now += 1
        home.ears.newest += LENGTH
        assert home.labeller.tick() == []


def test_nothing_that_is_heard_during_an_enrolment_is_kept_twice(tmp_path: Path) -> None:
    home = Home(tmp_path, ambient_seconds=4.0)
    with home.labeller.paused():
        home.hears(score=0.99)
        home.until(60)
        with pytest.raises(DataError, match="its sound was not held"):
            home.labeller.confirm()
    assert home.kept == []
    home.until(120)
    assert home.kept != []


def _says(*posteriors: float) -> Any:
    return lambda logs: np.tile(np.array(posteriors), (len(logs), 1))


@pytest.mark.parametrize(
    ("posteriors", "kept"),
    [
        ((0.97, 0.01, 0.01, 0.01), ("yes", "pseudo", 0.5)),
        ((0.01, 0.01, 0.97, 0.01), ("_unknown_", "ambient", 0.5)),
        ((0.6, 0.2, 0.1, 0.1), (None, "unlabelled", 0.0)),
        ((float("nan"), 0.0, 0.0, 0.0), (None, "unlabelled", 0.0)),
    ],
    ids=["sure of a word", "sure of none", "the middle", "broken model"],
)
def test_speech_is_kept_as_what_the_model_is_sure_of(
    posteriors: tuple[float, ...], kept: tuple[str | None, str, float], tmp_path: Path
) -> None:
    home = Home(tmp_path, recognise=_says(*posteriors), ambient_seconds=4.0, automatic_per_hour=1)
    home.ears.speaking = True
    home.until(30)
    assert home.kept == [kept]


@pytest.mark.parametrize("settings", [{}, {"pseudo": False, "recognise": _says(0.97, 0, 0, 0)}], ids=["none", "off"])
def test_without_a_model_or_pseudo_labels_speech_gets_no_label(tmp_path: Path, settings: dict[str, Any]) -> None:
    home = Home(tmp_path, ambient_seconds=4.0, automatic_per_hour=1, **settings)
    home.ears.speaking = True
    home.until(30)
    assert home.kept == ([] if settings else [(None, "unlabelled", 0.0)])


def test_a_second_that_a_detection_waits_on_is_no_negative(tmp_path: Path) -> None:
    home = Home(tmp_path, ambient_seconds=1.0, confirm_seconds=600.0)
    home.hears(start=home.ears.newest - LENGTH)
    for _ in range(50):
        home.clock.now += 1
        home.labeller.tick()
    assert home.kept == []


def test_a_disk_that_refuses_does_not_stop_the_device(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = Home(tmp_path, disk=Full(), ambient_seconds=4.0)
    home.until(30)
    assert home.kept == []
    assert "The disk is full." in caplog.text


# -- certainty


def test_the_opinion_is_fixmatch_with_the_lowest_label_of_equals() -> None:
    found = opinion(np.array([0.5, 0.5, 0, 0]), LABELS, 0.5)
    assert (found.source, found.word, found.score) == ("pseudo", "yes", 0.5)
    assert opinion(np.array([0.1, 0.1, 0.7, 0.1]), LABELS, 0.7).source == "ambient"
    assert opinion(np.array([0.1, 0.1, 0.7, 0.1]), LABELS, 0.71).source == "unlabelled"


def test_a_better_model_labels_what_waits_and_leaves_the_middle(home: Home) -> None:
    for seed in range(3):
        home.store.add(NewClip(tone(seed), None, "unlabelled", 0.0, 0.5, guess="yes"))
    rows = iter([(0.97, 0.01, 0.01, 0.01), (0.4, 0.3, 0.2, 0.1), (0.01, 0.01, 0.97, 0.01)])
    assert reconsider(home.store, lambda logs: np.array([next(rows)] * len(logs)), LabelSettings()) == 2
    assert set(home.kept) == {("yes", "pseudo", 0.5), (None, "unlabelled", 0.0), ("_unknown_", "ambient", 0.5)}
    assert {clip.record.score for clip in home.store.list()} == {0.97, 0.5}


def test_chances_come_once_each_about_as_often_as_asked() -> None:
    chances = Chances(100.0, 3, random.Random(0))
    moments = [now for now in range(100_000) if chances.due(float(now))]
    assert 900 < len(moments) < 1100
    assert min(b - a for a, b in itertools.pairwise(moments)) >= 25
    for _ in range(3):
        assert chances.allowed(50.0)
        chances.keep(50.0)
    assert not chances.allowed(3649.0)
    assert chances.allowed(3650.0)
