"""What a codec left out of updates is kept until it arrives, and only what did not arrive is ever sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.edge.agent_site import TASK, Site, at_site, until

from auricle.errors import StorageError
from auricle.wire.messages import Ack, Update
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat, decode, digest
from auricle.wire.update_codec import MOVES, decode_update
from auricle_edge.fleet.unsent_moves import FILE, UnsentMoves

PACK, SIZE = "ab" * 32, 3
FIRST, SECOND = np.array([1, 2, 3], np.float32), np.array([-1, 0.5, 0], np.float32)


def moves_in(folder: Path, pack: str = PACK, size: int = SIZE) -> UnsentMoves:
    return UnsentMoves(folder, pack, size, durable=False)


def update(number: int, task: str = TASK) -> Update:
    told: dict[str, Any] = {"fleet": "f", "device": "dev-a", "boot": "b", "attempt": 1, "epoch": 1, "length": 1}
    told |= {"base": "0" * 64, "body": digest(bytes([number])), "codec": "int8", "samples": 4, "loss": 2.5}
    return Update(**told, task=task, round=number)


def ack(about: Update, verdict: str, weight: float = 1.0) -> Ack:
    told: dict[str, Any] = {"fleet": "f", "device": "dev-a", "boot": "c", "attempt": 1, "epoch": 1, "weight": weight}
    return Ack(**told, task=about.task, round=about.round, body=about.body, verdict=verdict)


def values(moves: Flat | None) -> list[float] | None:
    return None if moves is None else moves.tolist()


@pytest.mark.parametrize(
    ("verdict", "weight", "stays"),
    [
        ("accepted", 1.0, SECOND),
        ("duplicate", 1.0, SECOND),
        ("stale", 0.5, SECOND),
        ("stale", 0.0, FIRST),
        ("late", 1.0, FIRST),
        ("closed", 1.0, FIRST),
        ("conflict", 1.0, FIRST),
        ("rejected:norm: further from the round's model than 100", 1.0, None),
    ],
)
def test_what_became_of_an_update_decides_what_the_next_one_takes_along(
    tmp_path: Path, verdict: str, weight: float, stays: Flat | None
) -> None:
    moves = moves_in(tmp_path)
    moves.keep(update(1), FIRST)
    moves.settle(update(1), ack(update(1), "accepted"))
    moves.keep(update(2), SECOND)
    assert values(moves.of(TASK)) == SECOND.tolist(), "as long as nobody says, it is what surely did not arrive"
    for _ in range(2):  # the device ended before it forgot the update, sent it again and was told the same
        moves.settle(update(2), ack(update(2), verdict, weight))
        assert values(moves_in(tmp_path).of(TASK)) == values(stays)


def test_an_update_that_cannot_arrive_took_nothing_along(tmp_path: Path) -> None:
    moves = moves_in(tmp_path)
    moves.keep(update(1), FIRST)
    moves.keep(update(2), SECOND)
    moves.settle(update(1), None)
    assert values(moves.of(TASK)) == SECOND.tolist(), "it is another one's"
    moves.settle(update(2), None)
    assert values(moves.of(TASK)) == FIRST.tolist()


def test_a_first_update_that_comes_late_leaves_nothing(tmp_path: Path) -> None:
    moves = moves_in(tmp_path)
    moves.keep(update(1), FIRST)
    moves.settle(update(1), ack(update(1), "late"))
    assert moves.of(TASK) is None
    assert list(tmp_path.iterdir()) == []


def test_of_another_task_pack_or_model_it_is_nothing(tmp_path: Path) -> None:
    moves = moves_in(tmp_path)
    moves.keep(update(1), FIRST)
    assert moves.of("other") is None
    assert moves_in(tmp_path, "cd" * 32).of(TASK) is None
    assert moves_in(tmp_path, size=2).of(TASK) is None
    moves.keep(update(2, "other"), SECOND)
    moves.settle(update(2, "other"), ack(update(2, "other"), "late"))
    assert moves.of("other") is None and moves.of(TASK) is None


def test_an_update_that_is_whole_leaves_nothing(tmp_path: Path) -> None:
    moves = moves_in(tmp_path)
    moves.keep(update(1), FIRST)
    moves.keep(update(2), None)
    assert moves.of(TASK) is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_nothing_and_is_written_again(tmp_path: Path) -> None:
    moves, path = moves_in(tmp_path), tmp_path / FILE
    moves.keep(update(1), FIRST)
    moves.keep(update(2), SECOND)
    whole = path.read_bytes()
    infinite = whole[:-4] + np.float32(np.inf).tobytes()
    turned = [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(len(whole) - 24, len(whole))]
    for wrong in (*(whole[:length] for length in range(len(whole))), whole + b"x", infinite, *turned):
        path.write_bytes(wrong)
        assert moves.of(TASK) is None
        moves.settle(update(2), ack(update(2), "late"))
    moves.keep(update(3), FIRST)
    assert values(moves.of(TASK)) == FIRST.tolist()


def test_what_cannot_be_read_or_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    moves = moves_in(tmp_path)
    for work in (lambda: moves.of(TASK), lambda: moves.keep(update(1), FIRST)):
        with pytest.raises(StorageError, match=FILE):
            work()


async def take_part(site: Site, number: int, codec: str, verdict: str) -> Flat | None:
    """What stays after a round of a device that was just started; before, it is what was wanted and not sent."""
    c, table = site.coordinator, site.runtime.pack.plugin_table
    base, plan = decode(site.model, table.size), Plan(codec=codec, mode="supervised")
    async with site.device() as agent:
        moves, trainer = agent._delivery.unsent, agent.trainer
        before = moves.of(TASK)
        await c.say("inv", c.invite(site.model, number, plan=plan))
        sent = await c.wait(Update, number)
        after, read = moves.of(TASK), decode_update(c.bodies()[-1], base, table, codec)
        trained = trainer.run(plan, number, base, trainer.first_state()).plugin
        wanted = trained if before is None else trained + before
        assert values(after) == (wanted.astype(np.float64) - read).astype(np.float32).tolist()
        await c.ack(sent, verdict)
        await until(lambda: agent.state == "idle")
        return moves.of(TASK)


@pytest.mark.slow
@pytest.mark.parametrize("codec", MOVES)
@at_site
async def test_a_device_takes_along_what_did_not_arrive_also_after_a_restart(site: Site, codec: str) -> None:
    counted = await take_part(site, 1, codec, "accepted")
    assert counted is not None and counted.any()
    late = await take_part(site, 2, codec, "late")
    assert values(late) == values(counted), "as if it had taken no part"
    assert await take_part(site, 3, codec, "rejected:values") is None
    assert await take_part(site, 4, codec, "accepted") is not None
