"""What left a device in rounds, and what its owner insists on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.edge.agent_site import Site, at_site, trainer, until

from auricle.errors import SettingsError
from auricle.wire.messages import Invite, Measure, Status, Update
from auricle.wire.plan import Noise, Plan, SecureSum
from auricle_edge.commands.status_sentences import of_sent
from auricle_edge.fleet.agent_context import Declined
from auricle_edge.fleet.sent_updates import FILE, SentLedger
from auricle_edge.service.status import fleet_status
from auricle_learning.training.gaussian_epsilon import _delta, gaussian_epsilon
from auricle_learning.training.learn_settings import LearnSettings

SUM = SecureSum(id="0" * 32, bound=0.5)
NOISE = Noise(clip=0.5, deviation=4.0)
"""Multiplier 4 / (2 * 0.5) = 4."""


def asked(plan: Plan | None = None) -> Invite | Measure:
    told: dict[str, Any] = {"fleet": "f", "device": "dev-a", "boot": "c", "task": "keywords", "round": 3, "epoch": 1}
    told |= {"base": "0" * 64, "length": 4, "codec": "float32", "chunks": 1}
    return Measure(**told) if plan is None else Invite(**told, plan=plan, ttl=60.0)


def ledger(folder: Path, **settings: Any) -> SentLedger:
    return SentLedger(folder, LearnSettings(**settings), durable=False)


def test_the_epsilon_of_a_device_is_the_analytic_one_and_never_below_it() -> None:
    accounting = pytest.importorskip("dp_accounting")
    for z in (0.5, 1.0, 4.0, 20.0):
        for delta in (1e-5, 1e-9):
            found = gaussian_epsilon(1 / z**2, delta)
            assert found == pytest.approx(accounting.get_epsilon_gaussian(z, delta), abs=2e-6)
            assert _delta(found, 1 / z) <= delta < _delta(found - 1e-5, 1 / z)
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(math.inf, 1e-5) == gaussian_epsilon(1e6, 1e-5) == math.inf


@pytest.mark.parametrize(
    ("settings", "plan", "why"),
    [
        ({"require": "secure-sum"}, Plan(), 'no secure sum: .learn. require = "secure-sum"'),
        ({"require": "secure-sum"}, Plan(noise=NOISE), "no secure sum"),
        ({"require": "secure-sum"}, None, "measures the loss"),
        ({"largest_epsilon": 8.0}, None, "measures the loss"),
        ({"largest_epsilon": 8.0}, Plan(), "no noise: .learn. largest_epsilon = 8"),
        ({"largest_epsilon": 8.0}, Plan(secure_sum=SUM), "no noise"),
        ({"largest_epsilon": 8.0}, Plan(noise=Noise(clip=0.5, deviation=0.0)), "no noise"),
        ({"largest_epsilon": 0.9}, Plan(noise=NOISE), r"epsilon would be 0\.9\d+ .* largest_epsilon is 0\.9"),
    ],
)
def test_a_round_without_what_the_owner_insists_on_is_declined(
    settings: dict[str, Any], plan: Plan | None, why: str, tmp_path: Path
) -> None:
    ledger(tmp_path).require(asked(plan))
    with pytest.raises(Declined, match=why):
        ledger(tmp_path, **settings).require(asked(plan))


def test_rounds_with_noise_add_up_until_the_largest_epsilon_whatever_restarts(tmp_path: Path) -> None:
    """Of multiplier 4: 0.93 after one round, 1.36 after two, 1.70 after three."""
    plan = Plan(noise=NOISE)
    for number in (1, 2):
        one = ledger(tmp_path, largest_epsilon=1.5)
        one.require(asked(plan))
        one.note(plan, number, 100)
    again = ledger(tmp_path, largest_epsilon=1.5)
    assert again.status.epsilon == pytest.approx(gaussian_epsilon(2 / 16, 1e-5))
    assert (again.status.noisy, again.status.bytes, again.status.last_round) == (2, 200, 2)
    with pytest.raises(Declined, match=r"largest_epsilon is 1\.5"):
        again.require(asked(plan))
    (tmp_path / FILE).write_text("{damaged")
    damaged = ledger(tmp_path, largest_epsilon=1.5)
    with pytest.raises(Declined, match=r"not known: .*delete it"):
        damaged.require(asked(plan))
    with pytest.raises(SettingsError, match="delete it"):
        _ = damaged.status


def test_what_left_is_said_in_sentences(tmp_path: Path) -> None:
    one = ledger(tmp_path, require="secure-sum", largest_epsilon=1.5)
    assert list(of_sent(one.status)) == [
        "Nothing left the device in rounds.",
        "Epsilon 0 of at most 1.5 (delta 1e-05) towards who sees its updates.",
        "It takes part only in rounds with a secure sum.",
    ]
    one.note(Plan(), 1, 10)
    one.note(Plan(noise=NOISE, secure_sum=SUM), 2, 20)
    assert list(of_sent(one.status))[:2] == [
        "In rounds left the device: 1 masked sum, 1 plain update, 30 bytes; last in round 2, a masked sum.",
        "Epsilon 0.9263 of at most 1.5 (delta 1e-05) towards who sees its updates; its plain updates are covered by no "
        "epsilon.",
    ]


@at_site
async def test_the_coordinator_hears_why_and_the_device_counts_what_leaves(site: Site) -> None:
    c = site.coordinator
    async with site.device() as agent:
        await c.say("inv", c.invite(site.model))
        update = await c.wait(Update)
        await c.ack(update)
        await until(lambda: agent.state == "idle")
        sent = fleet_status(agent).sent
        assert sent is not None
        assert (sent.plain, sent.masked, sent.bytes, sent.last_kind) == (1, 0, update.length, "plain update")
        assert list(of_sent(sent)) == [
            f"In rounds left the device: 1 plain update, {update.length:,} bytes; last in round 1, a plain update."
        ]
    own = trainer(site.runtime)
    own.settings = msgspec.structs.replace(own.settings, require="secure-sum")
    async with site.device(own):
        await c.say("inv", c.invite(site.model, 2))
        declined = await c.wait(Status)
        assert declined.state == "declined" and declined.reason.startswith("The round has no secure sum")
        assert len(c.said(Update)) == 1
