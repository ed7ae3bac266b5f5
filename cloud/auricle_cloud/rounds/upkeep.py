"""Every second beside the rounds: operators' changes, what is to be published, tuning, schedules and signs of life."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable

from auricle.mqtt_link.link import MqttLink
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.process.heaps import give_back
from auricle.process.times import latest_at
from auricle_cloud.link.inbox import Inbox
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.observing.hearing_watch import HearingWatch
from auricle_cloud.observing.metrics import MOST_ROLLOUTS
from auricle_cloud.ota.conductor import Conductor
from auricle_cloud.ota.renewal import Renewal
from auricle_cloud.rounds.chores import Chores, Every
from auricle_cloud.rounds.closing import Closing
from auricle_cloud.rounds.cohort_choice import fewest
from auricle_cloud.rounds.context import POLL, RoundContext
from auricle_cloud.storage.access_rows import ScheduleRow
from auricle_cloud.storage.database import BEAT_SECONDS, Pulse
from auricle_cloud.storage.hearing_rows import DAY_SECONDS
from auricle_cloud.storage.nightly_backup import NightlyBackup
from auricle_cloud.storage.state_folders import place_of
from auricle_cloud.storage.store import Store

TRIM = 300.0
"""Seconds between looks for events that are not kept any more; rounds may be rare, and events are not."""

BACKUP_SECONDS = 60.0
"""Seconds between looks whether a backup is due."""
SPARE = 60.0
"""Seconds between two times at which memory that is free is given back to the system."""
FIGURES_SECONDS = 5.0
"""Seconds between two times at which what metrics show is read."""
HEARD_SECONDS = 5.0
"""Seconds between two times at which it is written down when devices were heard, and what was refused of them."""

HEARD_WITHIN = 10.0
"""Seconds after the first connection in which a device that was here before may still be heard."""
EVERY = 5.0
"""Seconds between looks, when nothing has happened."""
AGAIN = 60.0
"""Seconds after which a device that has not answered is told again."""


class Upkeep:
    """Does the chores of a coordinator.

    Parameters
    ----------
    site
        What the coordinator's parts share.
    inbox, link
        Whose keys and refusals are read and written, and whose connection is watched.
    waiting
        How many messages are in hand.
    closing, conductor, tuner
        Publish models, take the steps of rollouts, and tell devices how keen they listen.
    """

    def __init__(
        self,
        site: RoundContext,
        inbox: Inbox,
        link: MqttLink,
        waiting: Callable[[], int],
        closing: Closing,
        conductor: Conductor,
        tuner: Tuner,
    ) -> None:
        self._site, self._inbox, self._link, self._waiting = site, inbox, link, waiting
        settings, store = site.settings, site.store
        self.chores = Chores()
        self.hearing = HearingWatch(store.hearing, site.metrics.hearing, settings.keep_hearing * DAY_SECONDS)
        renewal = Renewal(settings.folder, store)
        self._renewal: dict[str, Callable[[], object]] = {"renewal of update metadata": renewal.look}
        self._figures = Every(FIGURES_SECONDS, self._show_figures, site.clock)
        self._flush = Every(HEARD_SECONDS, lambda: inbox.flush(), site.clock)
        self._trim = Every(TRIM, lambda: store.journal.trim(settings.keep_events, settings.keep_audit), site.clock)
        self._spare = Every(SPARE, give_back, site.clock)
        self._backups: dict[str, Callable[[], object]] = {}
        if settings.backups is not None:
            nightly = NightlyBackup(
                store, site.blobs, settings.folder, settings.backups, settings.keep_backups, site.clock
            )
            self._backups = {"backup": Every(BACKUP_SECONDS, nightly.look, site.clock)}
        self._connected = {
            "publishing of models": closing.send_outgoing,
            "rollouts": conductor.look,
            "tuning of devices": tuner.look,
        }
        self._looking = threading.Lock()
        self._connected_at: float | None = None
        self._next_beat, self._was_connected = 0.0, False

    def note_connection(self) -> None:
        """The link is up: from the first time on, devices that were here before have a while to be heard."""
        self._connected_at = self._connected_at or self._site.clock.monotonic()

    async def run(self) -> None:
        """Do them every second, until cancelled.

        Raises
        ------
        SupersededError
            Another coordinator has taken over.
        """
        while True:
            await self._site.clock.pause(POLL)
            await asyncio.to_thread(self.look)
            await self.chores.do_async({"presence of devices": self._settle_presence, "sign of life": self._beat})
            if self._link.connected:
                await self.chores.do_async(self._connected)
            self._site.changed.set()

    async def _beat(self) -> None:
        """Say every few seconds, and when the link comes or goes, that this coordinator works."""
        connected = self._link.connected
        if self._site.clock.monotonic() < self._next_beat and connected == self._was_connected:
            return
        problem = "" if connected else self._link.last_error or ""
        pulse = Pulse(
            self._site.clock.now(),
            connected=connected,
            problem=problem,
            fewest=fewest(self._site),
            needs=tuple(self._site.needs),
            place=place_of(self._site.settings.folder),
        )
        await asyncio.to_thread(self._site.store.database.beat, pulse)
        self._next_beat, self._was_connected = self._site.clock.monotonic() + BEAT_SECONDS, connected

    async def _settle_presence(self) -> None:
        """Devices that were here when the last coordinator stopped had time enough to answer this one."""
        since = self._connected_at
        if not self._site.presence_known and since is not None and self._site.clock.monotonic() > since + HEARD_WITHIN:
            await asyncio.to_thread(self._site.store.devices.give_up_unheard)
            self._site.presence_known = True

    def look(self) -> None:
        """Do those that need no link; SupersededError as of `run`."""
        with self._looking:  # a connection looks, too: nothing is planned or signed twice
            self._do_chores()

    def _do_chores(self) -> None:
        if not self.chores.do({"database": self._require_epoch}):
            self.chores.do(self._renewal)  # others would wait for it in turn
            return
        self.chores.do(
            {
                "reading of keys": self._inbox.reload,
                "journal of refusals": self._flush,
                "journal of events": self._trim,
                **self._renewal,
                "watch over hearing": self.hearing.look,
                "metrics": self._figures,
                "memory": self._spare,
                "schedules": self._heed_schedules,
                **self._backups,
            }
        )

    def _require_epoch(self) -> None:
        """SupersededError when another coordinator has taken over."""
        with self._site.store.database.writing():
            pass

    def _heed_schedules(self) -> None:
        store, settings = self._site.store, self._site.settings
        if self._site.privacy is not None and self._site.privacy.spent_out is not None:
            return
        schedules = store.schedules.all()
        idle = len(self._site.eligible()[0]) if schedules else 0
        for schedule in due(schedules, self._site.clock.now(), idle):
            if schedule.task == settings.task and store.rounds.due(settings.task) is None:
                who = f"schedule {schedule.name}"
                store.rounds.plan(settings.task, schedule.rounds, mode=settings.mode, who=who)
                store.schedules.ran(schedule.name, self._site.clock.now())

    def _show_figures(self) -> None:
        store = self._site.store
        self._site.metrics.look(
            store.devices.tally(),
            store.models.current(self._site.task),
            connected=self._link.connected,
            waiting=self._waiting(),
            unfinished=self._inbox.unfinished,
            rollouts=store.rollouts.watched(MOST_ROLLOUTS),
        )


def due(schedules: Iterable[ScheduleRow], now: float, idle: int) -> list[ScheduleRow]:
    """Which schedules plan their rounds now.

    Parameters
    ----------
    schedules
        Rows: `at` is `HH:MM` in the local time of this machine, or `always`; `idle` devices must be ready; `last` is
        when it last planned, in seconds since 1970.
    now
        Seconds since 1970.
    idle
        Devices that are ready to train.

    Returns
    -------
    list
        In the given order. A time of day that has passed stays due until enough devices are ready, to the next one.
    """
    return [
        row
        for row in schedules
        if idle >= row.idle and row.last < (now if row.at == "always" else latest_at(row.at, now))
    ]


class Tuner:
    """Tells devices how much to hear, again and again until they say that it is in effect.

    Parameters
    ----------
    store
        Holds what operators want, and what devices say.
    messenger
        Speaks to devices.
    clock
        Whom it asks for the time.
    """

    def __init__(self, store: Store, messenger: Messenger, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store, self._messenger, self._clock = store, messenger, clock
        self._told: dict[str, tuple[int, float]] = {}
        """What a device was told last, and when."""
        self._looked = -EVERY

    def wake(self) -> None:
        """Look again at the next opportunity: an operator or a device has changed something."""
        self._looked = -EVERY

    def came(self, device: str) -> None:
        """Tell a device that has just come again what it was told before: it may have lost it."""
        self._told.pop(device, None)
        self.wake()

    async def look(self) -> None:
        """Tell those that hear otherwise than operators want."""
        now = self._clock.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked = now
        wanted = await asyncio.to_thread(self._store.devices.untuned)
        self._told = {name: told for name, told in self._told.items() if name in wanted}
        for device, step in wanted.items():
            before, at = self._told.get(device, (None, 0.0))
            if before != step or now - at >= AGAIN:
                await self._messenger.tune(device, step)
                self._told[device] = (step, now)
