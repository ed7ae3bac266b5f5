"""A coordinator with its API and page, run together until they are asked to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from aiohttp import web

from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.pack import Pack
from auricle.process.cycles import look_seldom
from auricle.process.heaps import share_heaps
from auricle.process.open_files import raise_open_files
from auricle.process.until_signal import until_signal
from auricle.wire.tensors import Flat, TensorTable
from auricle_cloud.api.api_server import listening
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.api.app import make_app
from auricle_cloud.api.health import BlobsTake, Check, database_answers, folder_takes, metadata_lives
from auricle_cloud.api.regions_over_http import make_regions_app, meet, posting, tokens_in
from auricle_cloud.evaluation.evaluator import Evaluator, choose_evaluator
from auricle_cloud.evaluation.validation_set import load_validation
from auricle_cloud.identity.enrolment import Enrolment, open_enrolment
from auricle_cloud.identity.issuing import FleetTold
from auricle_cloud.operations.operations import Operations
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.rounds.leadership import work_and_lead
from auricle_cloud.rounds.regions.joint import Meeting
from auricle_cloud.rounds.regions.member import RegionMember
from auricle_cloud.settings import JointSettings, RoundDone, RunSettings
from auricle_learning.aggregation.bounded import BoundedRule

log = logging.getLogger("auricle.cloud")

TAKE_OVER_SECONDS = 30.0
"""A coordinator that was replaced notices when it writes, which it does every ten seconds."""


Joined = Callable[[str, int], None]


@dataclass(frozen=True)
class Started:
    """What a coordinator says of itself when it starts."""

    key: str
    """Its public key in hex: agents obey it and nobody else."""
    epoch: int
    page: str | None
    """URL of page and API; None without one."""


async def run_service(
    settings: RunSettings,
    pack: Pack,
    api: ApiSettings | None,
    evaluator: Evaluator | None,
    started: Callable[[Started], None],
    watcher: Callable[[RoundDone], Awaitable[None]],
    *,
    take_over: bool = False,
) -> None:
    """Run a coordinator until all its rounds are done, or SIGINT or SIGTERM.

    Parameters
    ----------
    settings, pack
        The run.
    api
        How to serve API and page; None: not at all.
    evaluator
        What the operator's validation set says of models; None without one.
    started
        Called once with what it says of itself.
    watcher
        Awaited after every round.
    take_over
        Wait for the port of a coordinator that this one replaces.

    Raises
    ------
    SettingsError
        Several coordinators are to serve what is no PostgreSQL database.
    """
    raise_open_files()
    share_heaps()
    look_seldom()

    async def lead(succeeds: bool = False) -> None:
        coordinator = Coordinator(settings, pack, watcher, evaluator)
        coordinator.site.presence_known = succeeds
        coordinator.site.joint = open_member(settings, pack, coordinator.site.rule)
        async with serving_api(coordinator, api, TAKE_OVER_SECONDS if take_over else 0.0) as url:
            started(Started(coordinator.identity.public.hex(), coordinator.epoch, url))
            await coordinator.run()

    if settings.worker is None:
        await until_signal(lead())
    else:
        take_over = True  # of the coordinator that led before: it may hold the port for a moment
        await until_signal(work_and_lead(settings, pack, lead))


@asynccontextmanager
async def serving_api(coordinator: Coordinator, api: ApiSettings | None, patience: float) -> AsyncIterator[str | None]:
    """Serve API and page to the end of the block, waiting so many seconds for the port; their URL, None without."""
    if api is None:
        yield None
        return
    async with listening(application(coordinator, api), api, patience) as url:
        yield url


def open_evaluator(settings: RunSettings, pack: Pack) -> Evaluator | None:
    """What judges models on the operator's validation set; None without one.

    Raises
    ------
    DataError
        There are no clips in it, or not of the pack's words.
    """
    if settings.validation is None:
        return None
    evaluator, sentence = choose_evaluator(
        pack, load_validation(settings.validation, pack, cache=settings.folder), settings.compute
    )
    log.warning("%s", sentence)
    return evaluator


def open_member(settings: RunSettings, pack: Pack, rule: BoundedRule) -> RegionMember | None:
    """The region's side of a run; None where its rounds are its own. Raises as `posting` does."""
    if settings.region is None:
        return None
    return RegionMember(posting(settings.region, settings.folder), pack.identity, rule)


async def run_regions(settings: JointSettings, pack: Pack, start: Flat, api: ApiSettings, started: Joined) -> None:
    """Be the place where regions meet until SIGINT or SIGTERM.

    Parameters
    ----------
    settings, pack, start
        As of `Meeting`.
    api
        Where it listens.
    started
        Called once with its URL and how many joint rounds there were.

    Raises
    ------
    SettingsError
        What is kept in the folder is of another pack, or a token's file has none.
    DataError
        What is kept there cannot be read.
    StorageError
        A joint model could not be written.
    """
    meeting, table = Meeting(settings, pack, start), pack.plugin_table
    app = make_regions_app(meeting, tokens_in(settings.folder, settings.regions), table.size, len(table.specs))
    await meet(meeting, app, api, lambda url: started(url, meeting.number))


def as_devices_reach(broker: BrokerAddress) -> str | None:
    """The broker without the coordinator's name; None without TLS: then it is on this machine only."""
    return str(replace(broker, username=None)) if broker.tls else None


def application(coordinator: Coordinator, api: ApiSettings) -> web.Application:
    """API and page of a coordinator of this event loop."""
    loop = asyncio.get_running_loop()
    settings, store = coordinator.settings, coordinator.store
    releases = coordinator.releases

    def wake() -> None:
        loop.call_soon_threadsafe(coordinator.look_again)

    def operations(who: str) -> Operations:
        return Operations(store, coordinator.blobs, settings.task, wake, who, table, enrolment)

    def table(identity: str) -> TensorTable | None:
        return coordinator.pack.plugin_table if identity == coordinator.pack.identity else None

    def enrolment() -> Enrolment | None:
        return open_enrolment(settings.folder, store.database, coordinator.inbox.reload, tells)

    def connected() -> str | None:
        return None if coordinator.link.connected else "The broker is not connected."

    tells = FleetTold(
        settings.fleet, api.device_broker or as_devices_reach(settings.broker), coordinator.identity.public.hex()
    )
    healthy: dict[str, Check] = {
        "database": database_answers(store),
        "disk": folder_takes(settings.folder),
        "chores": coordinator.upkeep.chores.failing,
    }
    return make_app(
        operations,
        store.tokens,
        coordinator.announcements,
        coordinator.metrics.registry,
        healthy,
        {"broker": connected, "blobs": BlobsTake(coordinator.blobs), "updates": metadata_lives(releases)},
        api,
        enrolment,
        releases,
    )
