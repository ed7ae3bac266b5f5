"""Rounds whose updates are what moved: who is asked for them, what is counted, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from msgspec.structs import replace
from tests.cloud.coordinator_site import DEVICES, Site, recomputed
from tests.cloud.desk import ANA, SIZE, TOPICS, Desk, signed, table_of, update
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime

from auricle.errors import SettingsError
from auricle.wire.messages import Register
from auricle.wire.tensors import encode
from auricle.wire.update_codec import MOVES, encode_update, length_of
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
from auricle_cloud.commands.coordinator_tables import RoundSettings
from auricle_cloud.settings import Limits, Privacy, SecureSum
from auricle_edge.fleet.device_messages import DeviceMessages

SHARES = {"int8": 0.27, "top-k": 0.1}
"""Most that each takes of float32's bytes."""


@pytest.mark.slow
@pytest.mark.parametrize("codec", MOVES)
@on_a_site
async def test_an_agent_that_is_too_old_sends_float32_beside_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch, codec: Literal["int8", "top-k"]
) -> None:
    fedavg = CoordinatorSettings(rounds=RoundSettings(preset="fedavg", codec=codec)).preset_for(trained=False)
    ours = DeviceMessages.register

    def register(self: DeviceMessages) -> Register:
        made = ours(self)
        return replace(made, codecs=("float32", "float16")) if made.device == DEVICES[0] else made

    monkeypatch.setattr(DeviceMessages, "register", register)

    coordinator = await played(site, 2, fedavg, keep=True)
    store = site.store()
    rows = [row for number in (1, 2) for row in store.updates.counted(coordinator.settings.task, number)]
    assert sorted((row.device, row.codec) for row in rows) == sorted(
        (name, "float32" if name == DEVICES[0] else codec) for name in DEVICES[:3] for _ in range(2)
    )
    length = length_of(coordinator.pack.plugin_table, codec)
    bodies = {row.codec: len(coordinator.blobs.get(row.body)) for row in rows}
    assert bodies == {"float32": 4 * coordinator.pack.plugin_table.size, codec: length}
    assert length < SHARES[codec] * bodies["float32"]
    assert encode(site.done[-1].model) == recomputed(coordinator, rows, 2)[-1]
    assert site.done[-1].model.tolist() != coordinator.pack.plugin_table.initial(0).tolist()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path, limits=Limits())
    made.heard.base = lambda _sha256: np.zeros(SIZE, np.float32)  # type: ignore[method-assign]
    return made


def given(desk: Desk, body: bytes, codec: str) -> None:
    topic = TOPICS.up("dev-a", "upd")
    desk.give(topic, signed(ANA, topic, update(body, codec=codec), body))


@pytest.mark.parametrize("codec", MOVES)
def test_a_sound_update_is_counted(desk: Desk, codec: str) -> None:
    moved = np.linspace(-0.5, 0.5, SIZE, dtype=np.float32)
    given(desk, encode_update(moved, np.zeros(SIZE, np.float32), table_of(SIZE), codec), codec)
    assert desk.verdicts() == ["accepted"]


@pytest.mark.parametrize("codec", MOVES)
@pytest.mark.parametrize(
    ("scale", "reason"),
    [(np.nan, "values"), (-1.0, "values"), (1e30, "values"), (5e3, "norm")],
    ids=["no number", "negative", "beyond every weight", "too far"],
)
def test_a_body_that_cannot_count_is_refused_with_the_reason(desk: Desk, scale: float, reason: str, codec: str) -> None:
    moved = np.full(SIZE, 0.5, np.float32)
    body = encode_update(moved, np.zeros(SIZE, np.float32), table_of(SIZE), codec)
    given(desk, np.array([scale], "<f4").tobytes() + body[4:], codec)
    assert desk.inbox.refused == {reason: 1}
    assert desk.files() == 0


def test_places_that_are_not_as_many_as_due_are_refused(desk: Desk) -> None:
    body = encode_update(np.ones(SIZE, np.float32), np.zeros(SIZE, np.float32), table_of(SIZE), "top-k")
    head = 4 * len(table_of(SIZE).specs)
    given(desk, body[:head] + bytes([body[head] ^ 1]) + body[head + 1 :], "top-k")
    given(desk, body[:-1], "top-k")
    assert desk.inbox.refused == {"values": 1, "shape": 1}
    assert desk.files() == 0


@pytest.mark.parametrize(
    ("rounds", "others", "says"),
    [
        (
            {"codec": "int8", "method": "fedavg", "method_options": {"weighting": "uniform"}},
            {"secure_sum": SecureSum(on=True)},
            "A secure sum has its own form of updates: leave out int8, or --secure-sum.",
        ),
        (
            {"codec": "top-k", "method": "fedavg"},
            {"privacy": Privacy(clip=1.0)},
            "In top-k a device holds back a part of its noise, on which the epsilon of the fleet view counts: leave "
            "out top-k, or --dp-clip.",
        ),
        (
            {"codec": "top-k", "method": "median"},
            {},
            'The method "median" takes each weight alone, and of most weights most devices send nothing in top-k: '
            "choose another method, or int8.",
        ),
    ],
    ids=["secure sum", "noise", "median"],
)
def test_what_cannot_work_together_is_refused(
    tmp_path: Path, rounds: dict[str, Any], others: dict[str, Any], says: str
) -> None:
    told = CoordinatorSettings(
        fleet="home",
        broker="mqtt://c:p@localhost",
        state=str(tmp_path),
        rounds=RoundSettings(preset="fedavg", **rounds),
        **others,
    )
    with pytest.raises(SettingsError, match=re.escape(says)):
        told.run_settings(None)
