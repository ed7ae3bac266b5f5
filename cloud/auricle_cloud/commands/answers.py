"""How answers look on a terminal: tables and sentences; or one line of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import typer

from auricle.process.ending import fit_to_terminal
from auricle.process.table import Grid, console
from auricle.process.times import how_many, time_zone, to_json
from auricle_cloud.commands.answer_tables import (
    DEVICE,
    EVENT,
    HEARING,
    INVITED,
    MEMBER,
    PAGES,
    REFUSED,
    REPORT,
    ROLLOUT,
    ROUND,
    ROWS,
    SCHEDULE,
    plain,
    table,
)
from auricle_cloud.operations.device_answers import (
    Changed,
    DeviceDetail,
    DeviceLog,
    DeviceRow,
    Tuned,
)
from auricle_cloud.operations.device_explanation import sentence as as_sentence
from auricle_cloud.operations.hearing_operations import HearingDetail, HearingPage
from auricle_cloud.operations.model_operations import Judged
from auricle_cloud.operations.operations import Overview, TokenMade
from auricle_cloud.operations.rollout_answers import (
    RolloutDetail,
)
from auricle_cloud.operations.round_answers import (
    RoundDetail,
    RoundWhy,
    ScheduleRow,
    Started,
    Waiting,
)
from auricle_cloud.operations.types import Done
from auricle_cloud.states.round import FINISHED, counted_words


def say(text: str, *, fit: bool = False) -> None:
    """Print a sentence; with `fit` on lines of the terminal's width, which nobody should have to copy."""
    typer.echo(fit_to_terminal(plain(text)) if fit else plain(text))


def show(answer: msgspec.Struct, *, as_json: bool) -> None:
    """Print an answer."""
    if as_json:
        typer.echo(to_json(answer))
        return
    to_copy = isinstance(answer, Done | TokenMade)  # commands, paths and tokens: a terminal's own breaks are not copied
    for part in [*getattr(answer, "trouble", ()), *_parts(answer)]:
        say(part, fit=not to_copy) if isinstance(part, str) else console().print(part, crop=False)


def _parts(answer: object) -> list[str | Grid]:
    """Sentences and tables, one after the other."""
    if isinstance(answer, tuple(PAGES)):
        name, columns = PAGES[type(answer)]
        rows = getattr(answer, name)
        return [table(rows, columns) if rows else "Nothing to list.", *_more(answer), *_zones(rows)]
    if isinstance(answer, ScheduleRow):
        return [table([answer], SCHEDULE), *_zones([answer])]
    if type(answer) in ROWS:
        return [table([answer], ROWS[type(answer)])]
    if isinstance(answer, RoundDetail):
        made = [] if answer.model is None else [f"It made version {answer.model} of the model."]
        cohort = table(answer.cohort, MEMBER) if answer.cohort else "No device of it is like that."
        if answer.waiting is not None:
            cohort = table(answer.cohort, MEMBER) if answer.cohort else "Nobody is invited yet."
            made = ["", *waiting_lines(answer.waiting)]
        noise = [*(answer.secure_sum.sentences if answer.secure_sum else ())]
        noise += [] if answer.privacy is None else answer.privacy.sentences
        return [table([answer.row], ROUND), "", cohort, *_more(answer), *made, *answer.groups, *noise]
    if isinstance(answer, RoundWhy):
        about = [f"  {sentence}" for device in answer.devices for sentence in _indent(device.sentences)]
        about += _more(answer)
        if len(answer.devices) == 1 and answer.state in FINISHED:  # perhaps named: it comes first
            return [*(line.removeprefix("  ") for line in about), *answer.sentences]
        return [*answer.sentences, *about]
    if isinstance(answer, DeviceDetail):
        history = table(answer.history, INVITED) if answer.history else "It was never invited."
        return [
            table([answer.row], DEVICE),
            answer.runs,
            _sensitivity(answer.row),
            *([f"Not in the quorum: {as_sentence(answer.row.not_in_quorum)}"] if answer.row.not_in_quorum else []),
            *_personal(answer),
            *([answer.learning] if answer.learning else []),
            "",
            history,
            *_more(answer),
            "",
            *_log(answer.events, answer.refusals),
        ]
    if isinstance(answer, DeviceLog):
        return [*_log(answer.events, answer.refusals), *_more(answer)]
    if isinstance(answer, HearingPage):
        return _hearing(answer)
    if isinstance(answer, HearingDetail):
        reports = table(answer.reports, REPORT) if answer.reports else "It has never reported how well it hears."
        return [table([answer.row], HEARING), "", reports, *_detections_by_word(answer), *_more(answer)]
    if isinstance(answer, Overview):
        return _overview(answer)
    if isinstance(answer, RolloutDetail):
        about = [f"  {said}" for device in answer.devices for said in _indent(device.sentences)]
        return [table([answer.row], ROLLOUT), "", *answer.sentences, "", *about, *_more(answer)]
    return [_sentence(answer)]


def _personal(answer: DeviceDetail) -> list[str]:
    """The model of its own, where it has one."""
    own = answer.personal
    if own is None:
        return []
    others = f"{own.shared_with} other device{'' if own.shared_with == 1 else 's'}"
    return [
        f"It begins its next round with a model of its own, {own.blob[:12]}, which {others} have too: "
        f"in round {own.round} it was in group {own.group}."
    ]


def _zones(rows: Sequence[object]) -> list[str]:
    """Whose clock the times of schedules are of; nothing below another table."""
    if not rows or not isinstance(rows[0], ScheduleRow):
        return []
    theirs, own = rows[0].zone, time_zone()
    if theirs == own:
        return [f"Times are {own}."]
    return [f"at: the coordinator's clock, {theirs}; last: this machine's, {own}."]


def _more(answer: object) -> list[str]:
    """How to see the next page, where there is one."""
    following = getattr(answer, "next", None)
    if following is None:
        return []
    return [f"More: add {'--after' if isinstance(following, str) else '--before'} {following}."]


def _indent(sentences: Sequence[str]) -> list[str]:
    return [sentences[0], *(f"  {sentence}" for sentence in sentences[1:])]


def _log(events: Sequence[Any], refusals: Sequence[Any]) -> list[str | Grid]:
    parts: list[str | Grid] = [table(events, EVENT) if events else "No event is known of it."]
    return [*parts, "", "Refused:", table(refusals, REFUSED)] if refusals else parts


def _hearing(answer: HearingPage) -> list[str | Grid]:
    """The fleet in a sentence, labels and devices in tables; counts are an hour."""
    whole = answer.fleet
    if not whole.devices:
        return [f"No device has reported in the last {answer.days:g} days: see [report] in docs/hearing-reports.md."]
    span, hours = ("an hour", 1.0) if whole.hours >= 1 else ("in all", whole.hours)  # less shows no rate
    detected, denied, missed = (rate * hours for rate in (whole.detections, whole.denied, whole.missed))
    said = (
        f"{whole.devices} devices have reported {whole.hours:.4g} h in the last {answer.days:g} days; {span} they "
        f"detected {detected:.3g}, {denied:.2g} were denied and {missed:.2g} missed."
    )
    labels: list[str | Grid] = ["", table(answer.labels, ("label", "devices", *HEARING[2:]))]
    return [said, *(labels if answer.labels else []), "", table(answer.devices, HEARING), *_more(answer)]


def _detections_by_word(answer: HearingDetail) -> list[str]:
    """Detections by keyword in the reports shown, where the owner allows it."""
    counted: Counter[str] = Counter()
    for report in answer.reports:
        counted.update(report.words)
    words = ", ".join(f"{word} {count}" for word, count in counted.most_common() if count)
    return ["", f"Detections by word in these reports: {words}."] if words else []


def waiting_lines(answer: Waiting) -> list[str]:
    """Why a round does not go on, in lines."""
    return [*answer.sentences, *(f"  {one.device} {as_sentence(one.reason)}" for one in answer.devices)]


def _sensitivity(row: DeviceRow) -> str:
    """What is wanted of a device, and what it does."""
    if row.sensitivity_now is None:
        why = "its owner refuses it, its agent is too old, or it has not come yet"
        return f"Sensitivity {row.sensitivity:+d} is wanted; the device takes none ({why})."
    if row.sensitivity_now == row.sensitivity:
        return f"Sensitivity {row.sensitivity:+d}."
    return f"Sensitivity {row.sensitivity:+d} is wanted; {row.sensitivity_now:+d} is in effect."


def _overview(answer: Overview) -> list[str | Grid]:
    standings = ", ".join(f"{count} {name}" for name, count in answer.standings.items() if count)
    parts: list[str | Grid] = [
        f"{how_many(answer.devices, 'device')} ({standings or 'none yet'}), {answer.online} online, "
        f"{answer.ready} ready.",
        f"{how_many(answer.planned, 'round')} {'is' if answer.planned == 1 else 'are'} planned.",
    ]
    if answer.waiting is not None:
        parts += [line for line in waiting_lines(answer.waiting) if line not in answer.trouble]
    elif answer.under_way is not None:
        row = answer.under_way
        parts.append(f"Round {row.round} is {row.state}: {counted_words(row.counted, row.invited, row.left_out)}.")
    if answer.model is not None:
        accuracy = "" if answer.model.accuracy is None else f", accuracy {answer.model.accuracy:.4f}"
        parts.append(f"Version {answer.model.version} is current{accuracy}.")
    parts += [answer.learning] if answer.learning else []
    parts += [f"{one.device} is not in the quorum: {as_sentence(one.reason)}" for one in answer.not_in_quorum]
    if answer.alarms:
        parts += ["Alarms:", table(answer.alarms, EVENT)]
    return parts


def _sentence(answer: object) -> str:
    if isinstance(answer, (Done, Judged)):
        return answer.done
    if isinstance(answer, Started):
        return f"Planned: round {', '.join(str(number) for number in answer.rounds)}."
    if isinstance(answer, Changed):
        who = ", ".join(answer.devices)
        return f"Now {answer.standing}: {who}." if who else f"Nothing changed: already {answer.standing}."
    if isinstance(answer, Tuned):
        said = f"Sensitivity {answer.sensitivity:+d} is wanted of {', '.join(answer.devices)}."
        refusing = f" It is not taken by {', '.join(answer.refusing)}: see devices show." if answer.refusing else ""
        return said + refusing
    if isinstance(answer, TokenMade):
        return answer.token
    return msgspec.json.encode(answer).decode()
