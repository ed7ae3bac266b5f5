"""Scenes have the words where they say they are, as loud beside the background as they say."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.errors import DataError
from auricle.hearing import scenes, sounds, wake_scenes
from auricle.hearing.sounds import Take
from auricle.speech.audio import SAMPLE_RATE

RATE = SAMPLE_RATE


def tone(hertz: float, seconds: float = 0.4, lead: float = 0.3, total: float = 1.0) -> np.ndarray:
    """A clip of a second with a tone in it."""
    clip = np.zeros(round(total * RATE), np.float32)
    first, count = round(lead * RATE), round(seconds * RATE)
    clip[first : first + count] = 0.1 * np.sin(2 * np.pi * hertz * np.arange(count) / RATE)
    return clip


def hiss(seconds: float, seed: int) -> np.ndarray:
    return (0.01 * np.random.default_rng(seed).standard_normal(round(seconds * RATE))).astype(np.float32)


TAKES = [Take(word, f"s{n}", tone(400 + 100 * n)) for n, word in enumerate(("yes", "no", "up", "go"))]
OTHERS = [Take("bed", "o1", tone(1500)), Take("cat", "o2", tone(1700))]
NOISE = [hiss(5, 1), hiss(7, 2)]


def test_the_word_is_where_its_energy_is() -> None:
    """98 % of 6,400 equal samples from 4,800 on: the first 64 and the last 64 are left out, give or take a period."""
    first, last = sounds.word_span(tone(400))
    assert abs(first - 4_864) < 40 and abs(last - 11_136) < 40


def test_the_noise_has_the_level_that_the_snr_says() -> None:
    """The scene less the same scene without noise is the noise; its loudest half second beside the word counts."""
    scene = scenes.keywords_in_noise(TAKES, NOISE, np.random.default_rng(3), snr=(6.0, 18.0))
    quiet = scenes.keywords_in_noise(TAKES, NOISE, np.random.default_rng(3), snr=(106.0, 118.0))
    bed = (scene.samples.astype(np.float32) - quiet.samples) / 32_767
    assert [w.word for w in scene.words] == [w.word for w in quiet.words]
    for word in scene.words:
        level = sounds.level(quiet.samples[word.start : word.end + 1].astype(np.float32) / 32_767)
        noise = sounds.level(bed[word.start - 4_000 : word.end + 4_000])
        assert 20 * np.log10(level / noise) == pytest.approx(word.snr, abs=0.7)
        assert 6 <= word.snr <= 18


def test_every_take_is_said_once_as_loud_as_speech_with_pauses_between() -> None:
    scene = scenes.keywords_in_noise(TAKES, NOISE, np.random.default_rng(0), snr=(100.0, 100.0), pauses=(1.0, 2.0))
    assert sorted((w.word, w.speaker) for w in scene.words) == sorted((t.word, t.speaker) for t in TAKES)
    starts = [w.start for w in scene.words]
    assert starts == sorted(starts)
    assert all(1.5 * RATE < b.start - a.end < 3 * RATE for a, b in zip(scene.words, scene.words[1:], strict=False))
    for word in scene.words:
        loudness = 20 * np.log10(sounds.level(scene.samples[word.start : word.end].astype(np.float32) / 32_767))
        assert -26 - 4.5 < loudness < -26 + 4.5 + 3  # a tone of 0.4 s in half a second is up to 3 dB louder


def test_the_same_seed_makes_the_same_scene() -> None:
    one, other = (scenes.keywords_over_speech(TAKES, NOISE, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one.samples, other.samples) and one.words == other.words
    assert {w.kind for w in one.words} == {"over speech"} and all(5 <= w.snr <= 15 for w in one.words)


def test_a_neighbour_ends_shortly_before_the_keyword() -> None:
    """In a scene without noise, the sound before the keyword stops 20 to 350 ms before its start."""
    rng = np.random.default_rng(8)
    scene = scenes.keywords_after_words(TAKES * 5, OTHERS, NOISE, rng, snr=(120.0, 120.0), followed=0.5)
    assert len(scene.words) == 20 and {w.word for w in scene.words} == {"yes", "no", "up", "go"}
    followed = 0
    for word in scene.words:
        before = np.abs(scene.samples[: word.start - 100]) > 60
        gap = (word.start - np.flatnonzero(before)[-1]) / RATE
        assert 0.0 < gap < 0.36
        after = np.abs(scene.samples[word.end + 150 : word.end + RATE // 2]) > 60
        followed += bool(after.any())
    assert 4 <= followed <= 16


def test_a_command_follows_its_wake_word_and_some_wake_words_are_alone() -> None:
    wakes = [Take("computer", f"w{n}", tone(300 + n)) for n in range(3)]
    rng = np.random.default_rng(4)
    scene = wake_scenes.wake_then_command(wakes, TAKES * 10, NOISE, rng, gap=(0.1, 1.5), alone=0.25)
    kinds = [w.kind for w in scene.words]
    assert kinds.count("command") == 40 == kinds.count("wake")
    assert 5 <= kinds.count("wake alone") <= 25
    for number, word in enumerate(scene.words):
        if word.kind == "command":
            wake = scene.words[number - 1]
            assert wake.kind == "wake" and 0.1 * RATE - 1 <= word.start - wake.end <= 1.5 * RATE + 1
        elif word.kind == "wake alone" and number + 1 < len(scene.words):
            assert scene.words[number + 1].start - word.end > 4.5 * RATE
    ends = [w.end for w in scene.words]
    assert ends == sorted(ends) and ends[-1] < len(scene.samples)


def test_over_speech_somebody_talks_on_in_the_window_and_wake_words_have_kinds_of_their_own() -> None:
    """5 to 15 dB below the word in the loudest half second around it, and still there two seconds after the word."""
    wakes, talk = [Take("computer", "w", tone(300))], [hiss(15, 3)]
    scene = wake_scenes.wake_over_speech(wakes, TAKES * 5, talk, np.random.default_rng(6))
    kinds = [w.kind for w in scene.words]
    assert kinds.count("command over") == 20 == kinds.count("wake over")
    assert 4 <= kinds.count("alone over") <= 30 and len(kinds) == 40 + kinds.count("alone over")
    for word in scene.words:
        if word.kind == "alone over":
            after = scene.samples[word.end + 2 * RATE : word.end + 2 * RATE + RATE // 2].astype(np.float32)
            said = scene.samples[word.start : word.end].astype(np.float32)
            assert -17 < 20 * np.log10(sounds.level(after) / sounds.level(said)) < -3
            assert 5 <= word.snr <= 15


def test_a_room_rings_on_after_the_word() -> None:
    """The dry word is exact zeros after its end; the room's last quarter second is not, and fades."""
    rng = np.random.default_rng(0)
    dry = scenes.keywords_in_noise(TAKES[:1], NOISE, rng, snr=(120.0, 120.0))
    wet = scenes.keywords_in_noise(TAKES[:1], NOISE, np.random.default_rng(0), snr=(120.0, 120.0), rooms=True)
    end_dry, end_wet = dry.words[0].end + 800, wet.words[0].end + 800
    assert sounds.level(dry.samples[end_dry : end_dry + 1600].astype(np.float32)) < 2
    ringing = [
        sounds.level(wet.samples[at : at + 800].astype(np.float32)) for at in range(end_wet, end_wet + 4000, 800)
    ]
    assert ringing[0] > 20 and ringing[0] > ringing[2] > ringing[4]
    assert wet.words[0].kind == "rooms"


def test_a_room_decays_by_60_db_in_the_time_it_says() -> None:
    """-60 dB at the end: the level of each tenth falls by 6 dB."""
    response = sounds.room(np.random.default_rng(1), decay=(0.5, 0.5))[200:]
    levels = [20 * np.log10(sounds.level(part)) for part in np.array_split(response, 10)]
    assert np.polyfit(range(10), levels, 1)[0] == pytest.approx(-6, abs=0.6)


def test_sound_without_keywords_is_one_stretch_of_its_kind() -> None:
    rng = np.random.default_rng(2)
    spoken = [hiss(3, n) for n in range(9)]
    made = [
        scenes.without_keywords("speech", spoken, NOISE, rng, seconds=15),
        scenes.run_together(OTHERS, NOISE, rng, seconds=20),
        scenes.noise_alone(NOISE, rng, seconds=30),
    ]
    assert [(s.kind, s.start, s.end) for scene in made for s in scene.stretches] == [
        (kind, 0, len(scene.samples)) for kind, scene in zip(("speech", "run together", "noise"), made, strict=True)
    ]
    assert not any(scene.words for scene in made)
    assert len(made[2].samples) == 30 * RATE and 14 < len(made[0].samples) / RATE < 24
    whole = scenes.end_to_end(made)
    assert [s.start for s in whole.stretches] == [0, *np.cumsum([len(s.samples) for s in made])[:2].tolist()]
    assert whole.hours == pytest.approx(sum(s.hours for s in made))


def test_sound_without_keywords_knows_its_recordings() -> None:
    """A recording under two names is one; where it says a recording is, there is sound, and pauses between."""
    rng = np.random.default_rng(2)
    spoken = [tone(500, 3, 0, 3), tone(700, 3, 0, 3), tone(500, 3, 0, 3)]
    names = {sounds.fingerprint(sound) for sound in spoken}
    scene = scenes.without_keywords("speech", spoken, NOISE, rng, snr=(60, 60))
    assert len(names) == 2 and {piece.source for piece in scene.pieces} == names and len(scene.pieces) == 3
    heard = np.abs(scene.samples.astype(np.float32))
    for piece, after in zip(scene.pieces, (*[p.start for p in scene.pieces[1:]], len(heard)), strict=True):
        assert piece.end - piece.start == 3 * RATE and after >= piece.end + 0.3 * RATE - 1
        assert heard[piece.start : piece.end].mean() > 100 * heard[piece.end : after].mean()

    together = scenes.run_together(OTHERS, NOISE, rng, seconds=20)
    assert {piece.source for piece in together.pieces} == {sounds.fingerprint(take.sound) for take in OTHERS}
    assert all(0.45 < (piece.end - piece.start) / RATE < 0.55 for piece in together.pieces)

    alone = scenes.noise_alone(NOISE, rng, seconds=50)
    assert [(p.end - p.start) / RATE for p in alone.pieces][2:] == [15, 15, 8]
    assert {p.source: (p.end - p.start) / RATE for p in alone.pieces[:2]} == {
        sounds.fingerprint(noise): seconds for noise, seconds in zip(NOISE, (5, 7), strict=True)
    }
    assert [p.start for p in alone.pieces[1:]] == [p.end for p in alone.pieces[:-1]]

    whole = scenes.end_to_end([scene, together])
    assert whole.pieces[3].start == together.pieces[0].start + len(scene.samples)
    assert scenes.keywords_in_noise(TAKES, NOISE, rng).pieces == ()


def test_a_background_needs_a_recording() -> None:
    with pytest.raises(DataError, match="needs at least one recording"):
        scenes.keywords_in_noise(TAKES, [], np.random.default_rng(0))
