"""What a check is, what came of it, and all that there are."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Literal

from auricle.mqtt_link.settings import BrokerAddress, Will
from tests.brokers.session import EndError, RefusalError, Session, Wishes

Need = Literal["required", "used"]
"""Whether Auricle cannot do without it, or uses it where it exists."""
Verdict = Literal["held", "missed", "not offered", "not tried"]
Figures = Mapping[str, float | int | str]

COORDINATOR, ONE, TWO = "coordinator", "dev-a", "dev-b"
ROLES = (COORDINATOR, ONE, TWO)
"""Users that the broker has to know: one that leads, two that are devices."""
LONGEST = 120.0
"""Seconds of one check."""


class MissError(Exception):
    """A broker does not do what a check asks; one sentence."""


class NotOfferedError(Exception):
    """A broker does not have what a check looks at; one sentence."""


class NotTriedError(Exception):
    """A check needs something that this run was not given; one sentence."""


@dataclass(frozen=True)
class Outcome:
    """What came of a check."""

    name: str
    need: Need
    verdict: Verdict
    sentence: str = ""
    """Why, unless it held."""
    figures: Figures = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class Target:
    """A broker, as a check sees it.

    `users` has the address of each role and of those of a crowd; `restart` is there where this program started the
    broker itself.
    """

    users: Mapping[str, BrokerAddress]
    fleet: str
    named: bool = True
    """Whether each role is a user of its own."""
    crowd: int = 1000
    restart: Callable[[], Awaitable[None]] | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    mark: str = ""
    """Drawn for each check: what comes of an earlier one is known by another."""

    @property
    def top(self) -> str:
        """What all topics of the fleet begin with."""
        return f"auricle/1/{self.fleet}"

    @property
    def five(self) -> bool:
        """Whether MQTT 5 is spoken."""
        return self.users[COORDINATOR].protocol == "5"

    def session(self, user: str, name: str | None = None, *, protocol: str | None = None, **wishes: object) -> Session:
        """A session of a user that is not open yet; one that is still open when the check ends is killed."""
        address = self.users[user]
        if protocol is not None:
            address = dataclasses.replace(address, protocol=protocol)  # type: ignore[arg-type]
        one = Session(address, name or user, Wishes(**wishes))  # type: ignore[arg-type]
        self.stack.callback(one.kill)
        return one

    async def open(self, user: str, *filters: str, will: Will | None = None, **wishes: object) -> Session:
        """An open session of a user, which begins clean unless `clean` says otherwise, and what it subscribes."""
        if not self.five and wishes.get("expiry") and wishes.get("clean", True):
            await self.forget(user)
        one = await self.session(user, will=will, **wishes).open()
        if filters:
            await one.subscribe(*(each if each.startswith("$") else f"{self.top}/{each}" for each in filters))
        return one

    async def forget(self, user: str) -> None:
        """Have the broker forget the session of a user."""
        async with self.session(user):
            pass
        if not self.five:
            # amqtt 0.12.1 forgets up to a second after it has closed the connection, and then the next session too.
            await asyncio.sleep(1)

    def require_five(self) -> None:
        """`NotOfferedError` where MQTT 5 is not spoken."""
        if not self.five:
            raise NotOfferedError("It does not speak MQTT 5.")


Run = Callable[[Target], Awaitable[Figures | None]]


@dataclass(frozen=True)
class Check:
    """A check by its name."""

    name: str
    need: Need
    run: Run
    by_name: bool
    """Whether it needs a user for each role."""

    async def outcome(self, target: Target) -> Outcome:
        """Try it on a broker; whatever a broker does, this is an outcome."""
        began = time.monotonic()

        def came(verdict: Verdict, sentence: str = "", figures: Figures | None = None) -> Outcome:
            return Outcome(self.name, self.need, verdict, sentence, figures or {}, round(time.monotonic() - began, 2))

        if self.by_name and not target.named:
            return came("not tried", "It needs a user of its own for each role.")
        target.mark = secrets.token_hex(4)
        try:
            async with AsyncExitStack() as target.stack:
                figures = await asyncio.wait_for(self.run(target), LONGEST)
        except MissError as error:
            return came("missed", str(error))
        except NotOfferedError as error:
            return came("not offered", str(error))
        except NotTriedError as error:
            return came("not tried", str(error))
        except (EndError, RefusalError) as error:
            return came("missed", f"It ends a connection that is needed ({error}).")
        except (asyncio.TimeoutError, TimeoutError):
            return came("missed", f"It took longer than {LONGEST:.0f} s.")
        return came("held", figures=figures)


CHECKS: dict[str, Check] = {}


def check(name: str, need: Need = "required", *, by_name: bool = False) -> Callable[[Run], Run]:
    """Register a check."""

    def register(run: Run) -> Run:
        CHECKS[name] = Check(name, need, run, by_name)
        return run

    return register


def expect(held: bool, sentence: str) -> None:
    """`MissError` with the sentence unless it held."""
    if not held:
        raise MissError(sentence)
