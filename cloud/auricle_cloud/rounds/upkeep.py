"""Every second beside the rounds: what operators changed, what is to be published, schedules and signs of life."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from auricle.mqtt_link.link import MqttLink
from auricle_cloud.link.inbox import Inbox
from auricle_cloud.link.tuner import Tuner
from auricle_cloud.observing.hearing_watch import HearingWatch
from auricle_cloud.observing.metrics import ROLLOUTS
from auricle_cloud.ota.conductor import Conductor
from auricle_cloud.ota.renewal import Renewal
from auricle_cloud.rounds.chores import Chores, Every
from auricle_cloud.rounds.closing import Closing
from auricle_cloud.rounds.context import POLL, RoundContext
from auricle_cloud.rounds.schedule import due
from auricle_cloud.storage.database import Pulse
from auricle_cloud.storage.hearing_records import DAY

TRIM = 300.0
"""Seconds between looks for events that are not kept any more; rounds may be rare, and events are not."""

BEAT = 10.0
"""Seconds between two rows that say that the coordinator works."""

HEARD_WITHIN = 10.0
"""Seconds after the first connection in which a device that was here before may still be heard."""


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
        self.hearing = HearingWatch(store.hearing, site.metrics.hearing, settings.keep_hearing * DAY)
        renewal = Renewal(settings.folder, store)
        self._renewal: dict[str, Callable[[], object]] = {"renewal of update metadata": renewal.look}
        self._trim = Every(TRIM, lambda: store.journal.trim(settings.keep_events, settings.keep_audit))
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
        self._connected_at = self._connected_at or time.monotonic()

    async def run(self) -> None:
        """Do them every second, until cancelled.

        Raises
        ------
        SupersededError
            Another coordinator has taken over.
        """
        while True:
            await asyncio.sleep(POLL)
            await asyncio.to_thread(self.look)
            await self.chores.do_async({"presence of devices": self._settle_presence, "sign of life": self._beat})
            if self._link.connected:
                await self.chores.do_async(self._connected)
            self._site.changed.set()

    async def _beat(self) -> None:
        """Say every few seconds, and when the link comes or goes, that this coordinator works."""
        connected = self._link.connected
        if time.monotonic() < self._next_beat and connected == self._was_connected:
            return
        problem = "" if connected else self._link.last_error or ""
        pulse = Pulse(time.time(), connected=connected, problem=problem)
        await asyncio.to_thread(self._site.store.database.beat, pulse)
        self._next_beat, self._was_connected = time.monotonic() + BEAT, connected

    async def _settle_presence(self) -> None:
        """Devices that were here when the last coordinator stopped had time enough to answer this one."""
        since = self._connected_at
        if not self._site.presence_known and since is not None and time.monotonic() > since + HEARD_WITHIN:
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
                "journal of refusals": self._inbox.flush,
                "journal of events": self._trim,
                **self._renewal,
                "watch over hearing": self.hearing.look,
                "metrics": self._show_figures,
                "schedules": self._heed_schedules,
            }
        )

    def _require_epoch(self) -> None:
        """SupersededError when another coordinator has taken over."""
        with self._site.store.database.writing():
            pass

    def _heed_schedules(self) -> None:
        store, settings = self._site.store, self._site.settings
        schedules = store.schedules.all()
        idle = len(self._site.eligible()[0]) if schedules else 0
        for schedule in due(schedules, time.time(), idle):
            if schedule.task == settings.task and store.rounds.due(settings.task) is None:
                who = f"schedule {schedule.name}"
                store.rounds.plan(settings.task, schedule.rounds, mode=settings.mode, who=who)
                store.schedules.ran(schedule.name, time.time())

    def _show_figures(self) -> None:
        store = self._site.store
        self._site.metrics.look(
            store.devices.all(),
            store.models.current(self._site.task),
            connected=self._link.connected,
            waiting=self._waiting(),
            unfinished=self._inbox.unfinished,
            rollouts=store.rollouts.watched(ROLLOUTS),
        )
