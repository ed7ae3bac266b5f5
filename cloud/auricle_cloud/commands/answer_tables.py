"""Answers' rows as tables on a terminal: which columns there are, and which hide first where there is little room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from auricle.process.table import Column, Grid, moment
from auricle_cloud.operations.device_answers import DevicePage, DeviceRow, EventPage
from auricle_cloud.operations.model_operations import ModelPage, ModelRow
from auricle_cloud.operations.operations import TokenList
from auricle_cloud.operations.rollout_answers import (
    PendingList,
    ReleaseList,
    ReleaseRow,
    RoleKeysList,
    RolloutPage,
    RolloutRow,
)
from auricle_cloud.operations.round_answers import RoundPage, RoundRow, ScheduleList
from auricle_cloud.states.figures import figures_in

ROUND = (
    "round",
    "state",
    "mode",
    "request",
    "invited",
    "failed",
    "counted",
    "left_out",
    *(figure.name for figure in figures_in("terminal")),
    "closed",
)
MEMBER = ("device", "state", "samples", "loss", "staleness", "seconds", "received", "reason")
DEVICE = (
    "device",
    "label",
    "standing",
    "online",
    "offline_since",
    "gate",
    "samples",
    "selected",
    "harmful_count",
    "left_out_rounds",
    "last_seen",
    "ineligible",
)
INVITED = ("round", "state", "counted_in", "samples", "loss", "plugin_accuracy", "personal_accuracy", "reason")
EVENT = ("id", "at", "kind", "device", "round", "who", "detail")
MODEL = ("version", "current", "origin", "round", "parent", "accuracy", "loss", "created", "blob")
RELEASE = ("path", "kind", "board", "os", "fleet", "version", "identity", "size", "added")
ROLLOUT = (
    "rollout",
    "state",
    "stage",
    "stages",
    "label",
    "waiting",
    "asked",
    "updated",
    "failed",
    "refused",
    "silent",
    "started",
    "reason",
)
HEARING = (
    "device",
    "label",
    "hours",
    "detections",
    "denied",
    "missed",
    "level",
    "noise",
    "troubles",
    "last",
)
REPORT = (
    "period",
    "received",
    "hours",
    "heard",
    "detections",
    "denied",
    "missed",
    "level",
    "noise",
    "full_scale",
    "offset",
)
REFUSED = ("code", "count", "last", "detail")
SCHEDULE = ("name", "at", "idle", "rounds", "last")
ROWS: dict[type, Sequence[str]] = {
    RoundRow: ROUND,
    ModelRow: MODEL,
    DeviceRow: DEVICE,
    ReleaseRow: RELEASE,
    RolloutRow: ROLLOUT,
}
PAGES: dict[type, tuple[str, Sequence[str]]] = {
    RoundPage: ("rounds", ROUND),
    EventPage: ("events", EVENT),
    DevicePage: ("devices", DEVICE),
    ModelPage: ("models", MODEL),
    ScheduleList: ("schedules", SCHEDULE),
    ReleaseList: ("releases", RELEASE),
    RoleKeysList: ("roles", ("role", "threshold", "keys")),
    PendingList: ("pending", ("role", "version", "signed", "missing", "unsigned", "file")),
    RolloutPage: ("rollouts", ROLLOUT),
    TokenList: ("tokens", ("name", "role", "created", "expires")),
}

TIMES = (
    "at",
    "last",
    "last_seen",
    "offline_since",
    "first_seen",
    "created",
    "expires",
    "planned",
    "opened",
    "closed",
    "received",
    "revoked",
    "added",
    "started",
    "decided",
)

SENTENCES = ("reason", "detail", "ineligible", "troubles")
"""Columns that are put on several lines where they are long."""
RANKS: tuple[Sequence[str], ...] = (
    ("device", "rollout", "path", "name", "version", "code", "token"),
    ("state", "standing", "kind", "at", "reason", "detail", "ineligible", "current"),
    ("online", "counted", "invited", "expires", "count", "updated", "failed", "hours", "detections", "role", "label"),
    (
        "round",
        "left_out",
        "loss",
        "accuracy",
        "last_seen",
        "last",
        "stage",
        "stages",
        "idle",
        "rounds",
        "revoked",
        "origin",
    ),
    (
        "waiting",
        "offline_since",
        "received",
        "samples",
        "opened",
        "closed",
        "counted_in",
        "asked",
        "denied",
        "missed",
        "created",
    ),
)
"""Columns by importance: those of the first line, and a table's first column, are always shown; the last hide first."""
OTHERS = len(RANKS)
_RANKS = {name: rank for rank, names in enumerate(RANKS) for name in names}


def plain(text: str) -> str:
    """Text without anything that a terminal would obey: a device may have written it."""
    return "".join(character if character.isprintable() else "?" for character in text)


def table(rows: Iterable[Any], columns: Sequence[str]) -> Grid:
    """A table of structs."""
    found = list(rows)
    ranks = [0 if i == 0 and name != "id" else _RANKS.get(name, OTHERS) for i, name in enumerate(columns)]
    shown = [Column(n.replace("_", " "), rank, n in SENTENCES) for n, rank in zip(columns, ranks, strict=True)]

    def write(short: bool) -> list[list[str]]:
        return [[cell(name, getattr(row, name), short=short) for name in columns] for row in found]

    return Grid(shown, write)


def cell(column: str, value: object, *, short: bool = False) -> str:
    """A value as it stands in a table; `short`: a time without what everybody knows."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in TIMES and isinstance(value, int | float):
        return moment(value, short=short)
    if column == "blob":
        return str(value)[:12]
    if isinstance(value, list):
        return " ".join(cell("", item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else plain(str(value))
