"""What devices report of how well they hear, in the database: each period once, bounded, kept for a while."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from auricle.wire.messages import HearingReport
from auricle_cloud.states.hearing_comparison import MOST_AN_HOUR, MOST_DETECTIONS
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.hearing_rows import DAY_SECONDS, HearingRow, HearingTotal
from auricle_cloud.storage.schema import devices, hearing, meta

QUARTER_SECONDS = 900.0
MOST_IN_A_DAY = 100
"""Quarter hours that the reports of a device may cover in a day, and their number: 96, and some for clocks."""
KEYWORDS = "keywords "
"""Begins the keys of `meta` with the keywords of a pack."""


class Hearing:
    """All reports of hearing of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def enter(self, tx: sa.Connection, message: HearingReport, now: float | None = None) -> str | None:
        """Enter a report; why it is refused, or None. One that is there already changes nothing."""
        now = time.time() if now is None else now
        standing = tx.execute(sa.select(devices.c.standing).where(devices.c.device == message.device)).scalar()
        if standing != "approved":
            return f"standing: the device is {standing or 'unknown'}"
        if message.heard > message.span:
            return "hearing: more was heard than time has passed"
        own = hearing.c.device == message.device
        if tx.execute(sa.select(hearing.c.period).where(own, hearing.c.period == message.period)).first() is not None:
            return None
        said = sa.select(sa.func.coalesce(sa.func.sum(hearing.c.span), 0)).where(own, hearing.c.at > now - DAY_SECONDS)
        if int(tx.execute(said).scalar_one()) + message.span > MOST_IN_A_DAY:
            return "hearing: reports of more time than a day has"
        message = bounded(message)
        kept = {name: getattr(message, name) for name in HearingRow.__struct_fields__ if name not in ("at", "each")}
        self._db.insert_missing(tx, hearing, device=message.device, at=now, each=list(message.each), **kept)
        return None

    def trim(self, before: float) -> None:
        """Forget what came before."""
        with self._db.writing() as tx:
            tx.execute(sa.delete(hearing).where(hearing.c.at < before))

    def totals(
        self,
        since: float,
        until: float | None = None,
        *,
        names: Collection[str] | None = None,
        base: str | None = None,
    ) -> list[HearingTotal]:
        """What devices have reported, by name.

        Parameters
        ----------
        since, until
            Only of periods that lie wholly within these times, as far as the coordinator's clock can tell.
        names
            Only of these devices.
        base
            Only of periods in which the fleet's model of this hash had been received last.
        """
        wide = sa.case((hearing.c.full_scale == "much", 1), else_=0)
        far = sa.case((hearing.c.offset == "large", 1), else_=0)
        sums = {
            "heard": hearing.c.heard,
            "detections": hearing.c.detections,
            "denied": hearing.c.denied,
            "missed": hearing.c.missed,
            "complaints": complaints(),
            "at_full_scale": wide,
            "off_centre": far,
        }
        query = sa.select(
            hearing.c.device,
            devices.c.label,
            sa.func.count().label("reports"),
            sa.func.max(hearing.c.at).label("last"),
            sa.func.avg(hearing.c.level).label("level"),
            sa.func.avg(hearing.c.noise).label("noise"),
            *(sa.func.sum(column).label(name) for name, column in sums.items()),
        ).join(devices, devices.c.device == hearing.c.device)
        query = query.where(devices.c.standing == "approved", hearing.c.at - QUARTER_SECONDS * hearing.c.span >= since)
        query = query if until is None else query.where(hearing.c.at <= until)
        query = query if names is None else query.where(hearing.c.device.in_(list(names)))
        query = query if base is None else query.where(hearing.c.base == base)
        query = query.group_by(hearing.c.device, devices.c.label).order_by(hearing.c.device)
        with self._db.reading() as tx:
            return [_total(row) for row in tx.execute(query)]

    def reports(self, device: str, *, limit: int, before: int | None = None) -> list[HearingRow]:
        """A device's reports, the newest first; `before` a period goes on from there."""
        query = sa.select(hearing).where(hearing.c.device == device).order_by(hearing.c.period.desc()).limit(limit)
        query = query if before is None else query.where(hearing.c.period < before)
        with self._db.reading() as tx:
            rows = tx.execute(query).mappings().all()
        return [HearingRow(**{name: row[name] for name in HearingRow.__struct_fields__}) for row in rows]

    def name_keywords(self, pack: str, words: Sequence[str]) -> None:
        """Keep a pack's keywords in its order: reports count by their places."""
        with self._db.writing() as tx:
            value = {"value": msgspec.json.encode(list(words)).decode()}
            self._db.upsert(tx, meta, {"key": KEYWORDS + pack}, value)

    def keywords(self, pack: str) -> list[str]:
        """A pack's keywords in its order; none of a pack that no coordinator here has run."""
        with self._db.reading() as tx:
            value = tx.execute(sa.select(meta.c.value).where(meta.c.key == KEYWORDS + pack)).scalar()
        return [] if value is None else msgspec.json.decode(value, type=list[str])


def bounded(message: HearingReport) -> HearingReport:
    """The report with no more detections, and complaints about them, than its time can have had.

    Denied and missed share one bound, each by its part in both.
    """
    most, detected = message.heard * (MOST_AN_HOUR // 4), message.heard * (MOST_DETECTIONS // 4)
    wrong = max(message.denied + message.missed, most, 1)
    return msgspec.structs.replace(
        message,
        denied=message.denied if wrong == most else message.denied * most // wrong,
        missed=message.missed if wrong == most else message.missed * most // wrong,
        detections=min(message.detections, detected),
        each=tuple(min(count, detected) for count in message.each),
    )


def complaints() -> sa.ColumnElement[int]:
    """Denied and missed of a report, as far as they count."""
    cap, wrong = hearing.c.heard * (MOST_AN_HOUR // 4), hearing.c.denied + hearing.c.missed
    return sa.case((wrong > cap, cap), else_=wrong)


def _total(row: sa.Row[Any]) -> HearingTotal:
    """A row of sums; PostgreSQL's are decimals."""
    return HearingTotal(
        device=row.device,
        label=row.label,
        reports=row.reports,
        hours=int(row.heard) / 4,
        detections=int(row.detections),
        denied=int(row.denied),
        missed=int(row.missed),
        complaints=int(row.complaints),
        level=None if row.level is None else float(row.level),
        noise=None if row.noise is None else float(row.noise),
        at_full_scale=int(row.at_full_scale),
        off_centre=int(row.off_centre),
        last=row.last,
    )
