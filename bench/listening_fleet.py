"""One fleet of the listening bench from its owners to its figures, and the file that a later run takes them from."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from auricle.errors import DataError
from auricle.files import write_durably
from auricle.packs.first_weights import first_weights
from auricle.packs.pack import Pack
from auricle.speech.clip_folder import scan_folder
from auricle_edge.listening.detect.rules import is_keyword
from bench.listening_judging import LISTENERS, Heard, Judge, Sound, hear_all
from bench.listening_owners import draw_owners
from bench.listening_result import DEVICE, SIDES, Asked, Day, Fleet, RoundOf, Side
from bench.listening_rounds import Clock, Life, Lives, Together
from bench.listening_sound import Days, amounts, judged_by, lived_with

PUBLISHED_HOURS = 1.0
"""Of sound without keywords on which every published plug-in is judged."""
Say = Callable[[str], None]


def run_fleet(data: Path, pack: Pack, asked: Asked, seed: int, answers: float, threads: int, say: Say) -> Fleet:
    """Let a fleet live and learn, and judge it before, between and after.

    Raises
    ------
    DataError
        A folder is missing, or has too few speakers.
    """
    words = [label for label in pack.labels if is_keyword(label)]
    clips = scan_folder(data / "gsc").clips
    owners = draw_owners(clips, words, asked.owners, asked.days, seed)
    lived, judging = lived_with(data, words, {owner.name for owner in owners}), judged_by(data, words)
    life = Life(
        asked.days,
        asked.rounds,
        answers,
        asked.judge == "streams",
        asked.judge_minutes,
        asked.preset,
        asked.server_rate,
        asked.local,
        asked.carried,
        seed,
        threads,
    )
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="auricle-listening-") as name, clock.phase("rounds"):
        days = Days(lived, asked.day_minutes)
        lives = asyncio.run(Together(pack, owners, days, life, Path(name), say, clock).run())
    with clock.phase("judging"):
        judge = Judge(pack, judging, Sound(asked.minutes, asked.passes, seed), asked.local)
        start = first_weights(pack, pack.manifest.plugin, 0)
        plugins = [start, *(each.plugin for each in lives.rounds)]
        heard = hear_all(judge, owners, lives.states, plugins, PUBLISHED_HOURS, say)
        sides = _sides(judge, lives, heard)
        by_day, by_round = _by_day(judge, life, lives, heard), _by_round(judge, lives, heard)
    names = tuple(owner.name for owner in owners)
    return Fleet(
        asked,
        seed,
        answers,
        names,
        dict(lives.answers),
        amounts(lived),
        amounts(judging),
        sides,
        by_day,
        by_round,
        clock.cost(),
    )


def _sides(judge: Judge, lives: Lives, heard: Heard) -> tuple[Side, ...]:
    ends = ((SIDES[0], 0), (SIDES[1], -1))
    return tuple(
        judge.side(when, listener, lives.states[at], heard.scenes, heard.said[at][listener])
        for when, at in ends
        for listener in LISTENERS
    )


def _by_day(judge: Judge, life: Life, lives: Lives, heard: Heard) -> tuple[Day, ...]:
    before = [0, *sorted(life.day_after()), life.rounds]
    days = []
    for number, (after, said) in enumerate(zip(before, heard.said, strict=True)):
        lived = lives.lived[number] if number < len(lives.lived) else []
        own = judge.played_to(lives.states[number], heard.scenes)
        judged = {
            name: judge.at_thresholds(heard.scenes, said[name], own if name == DEVICE else ()) for name in LISTENERS
        }
        days.append(
            Day(
                number + 1,
                after,
                sum(each.words for each in lived),
                sum(each.hits for each in lived),
                sum(each.false_accepts for each in lived),
                sum(each.hours for each in lived),
                judged,
            )
        )
    return tuple(days)


def _by_round(judge: Judge, lives: Lives, heard: Heard) -> tuple[RoundOf, ...]:
    scenes, published = heard.plugins
    judged = [judge.at_thresholds(scenes, said) for said in published]
    start = RoundOf(0, "start", 0, 0, 0, 0.0, judged[0])
    rounds = [
        RoundOf(each.number, each.state, each.invited, each.counted, each.refused, each.seconds, found)
        for each, found in zip(lives.rounds, judged[1:], strict=True)
    ]
    return (start, *rounds)


def known(folder: Path | None, asked: Asked, seed: int, answers: float) -> Fleet | None:
    """What an earlier run found for this fleet; None where there is no such file.

    Raises
    ------
    DataError
        The file cannot be read, or was measured with other settings.
    """
    if folder is None or not (file := _file(folder, seed, answers)).exists():
        return None
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Fleet)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{file} cannot be read: remove it, and the fleet is measured again.") from error
    if found.asked != asked:
        raise DataError(f"{file} was measured with other settings: choose another folder with --results.")
    return found


def keep(folder: Path | None, fleet: Fleet) -> None:
    """Write a fleet's figures where a later run finds them."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(_file(folder, fleet.seed, fleet.answers), msgspec.json.encode(fleet))


def _file(folder: Path, seed: int, answers: float) -> Path:
    return folder / f"fleet-{seed}-answers-{answers:g}.json"


def above_the_start(fleet: Fleet) -> tuple[Sequence[int], Sequence[int]]:
    """Days and rounds with more false accepts an hour than the start, at the pack's thresholds."""
    first = fleet.by_day[0].judged[DEVICE].per_hour
    days = [day.day for day in fleet.by_day[1:] if day.judged[DEVICE].per_hour > first]
    start = fleet.by_round[0].judged.per_hour
    return days, [each.number for each in fleet.by_round[1:] if each.judged.per_hour > start]
