"""Rounds whose updates travel in eight bits: who is asked for them, what is counted, and what is refused."""

from __future__ import annotations

from pathlib import Path

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
from auricle.wire.update_codec import encode_update, length_of
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
from auricle_cloud.commands.coordinator_tables import RoundSettings
from auricle_cloud.settings import Limits, SecureSum
from auricle_edge.fleet.device_messages import DeviceMessages

FEDAVG = CoordinatorSettings(rounds=RoundSettings(preset="fedavg", codec="int8")).preset_for(trained=False)


@pytest.mark.slow
@on_a_site
async def test_an_agent_that_is_too_old_sends_float32_beside_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = DeviceMessages.register

    def register(self: DeviceMessages) -> Register:
        made = ours(self)
        return replace(made, codecs=("float32", "float16")) if made.device == DEVICES[0] else made

    monkeypatch.setattr(DeviceMessages, "register", register)

    coordinator = await played(site, 2, FEDAVG, keep=True)
    store = site.store()
    rows = [row for number in (1, 2) for row in store.updates.counted(coordinator.settings.task, number)]
    assert sorted((row.device, row.codec) for row in rows) == sorted(
        (name, "float32" if name == DEVICES[0] else "int8") for name in DEVICES[:3] for _ in range(2)
    )
    length = length_of(coordinator.pack.plugin_table, "int8")
    bodies = {row.codec: len(coordinator.blobs.get(row.body)) for row in rows}
    assert bodies == {"float32": 4 * coordinator.pack.plugin_table.size, "int8": length}
    assert length < 0.27 * bodies["float32"]
    assert encode(site.done[-1].model) == recomputed(coordinator, rows, 2)[-1]
    assert site.done[-1].model.tolist() != coordinator.pack.plugin_table.initial(0).tolist()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path, limits=Limits())
    made.heard.base = lambda _sha256: np.zeros(SIZE, np.float32)  # type: ignore[method-assign]
    return made


def given(desk: Desk, body: bytes) -> None:
    topic = TOPICS.up("dev-a", "upd")
    desk.give(topic, signed(ANA, topic, update(body, codec="int8"), body))


def test_a_sound_update_is_counted(desk: Desk) -> None:
    moved = np.linspace(-0.5, 0.5, SIZE, dtype=np.float32)
    given(desk, encode_update(moved, np.zeros(SIZE, np.float32), table_of(SIZE), "int8"))
    assert desk.verdicts() == ["accepted"]


@pytest.mark.parametrize(
    ("scale", "reason"),
    [(np.nan, "values"), (-1.0, "values"), (1e30, "values"), (100.0, "norm")],
    ids=["no number", "negative", "beyond every weight", "too far"],
)
def test_a_body_that_cannot_count_is_refused_with_the_reason(desk: Desk, scale: float, reason: str) -> None:
    moved = np.full(SIZE, 0.5, np.float32)
    body = encode_update(moved, np.zeros(SIZE, np.float32), table_of(SIZE), "int8")
    given(desk, np.array([scale], "<f4").tobytes() + body[4:])
    assert desk.inbox.refused == {reason: 1}
    assert desk.files() == 0


def test_a_secure_sum_has_its_own_form(tmp_path: Path) -> None:
    told = CoordinatorSettings(
        fleet="home",
        broker="mqtt://c:p@localhost",
        state=str(tmp_path),
        rounds=RoundSettings(preset="fedavg", codec="int8", method="fedavg", method_options={"weighting": "uniform"}),
        secure_sum=SecureSum(on=True),
    )
    with pytest.raises(SettingsError, match="A secure sum has its own form of updates: leave out int8"):
        told.run_settings(None)
