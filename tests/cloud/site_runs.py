"""What tests of whole rounds share beside a site: the runtime of the devices, and the end of a coordinator's run."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.cloud.coordinator_site import DEVICES, Site, keep_updates, run

from auricle.packs.pack import load_pack
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_learning.runtimes import StepRuntime


@pytest.fixture(scope="module")
def runtime() -> StepRuntime:
    return StepRuntime(load_pack("digits"))


def on_a_site(case: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test of this case at a new site, its first argument; its others are fixtures and parameters."""
    asked = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in inspect.signature(case).parameters.values()]
    own = [each for each in asked if each.name != "site"]
    more = {"runtime", "tmp_path"} - {each.name for each in own}

    @functools.wraps(case)
    def test(**given: Any) -> None:
        told = {each.name: given[each.name] for each in own}
        run(lambda site: case(site, **told), given["runtime"], given["tmp_path"])

    del test.__wrapped__  # type: ignore[attr-defined]
    others = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in sorted(more)]
    test.__signature__ = inspect.Signature([*own, *others])  # type: ignore[attr-defined]
    return test


async def played(
    site: Site, *given: Any, agents: Sequence[str] = DEVICES[:3], keep: bool = False, **changes: Any
) -> Coordinator:
    """A coordinator after all its rounds, with new agents of these names; the bodies of updates are kept or not."""
    coordinator = site.coordinator(*given, **changes)
    if keep:
        keep_updates(coordinator)
    site.start_agents(coordinator, agents)
    await coordinator.run()
    return coordinator


async def end(*running: asyncio.Task[None]) -> None:
    """Cancel these, and wait for them."""
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
