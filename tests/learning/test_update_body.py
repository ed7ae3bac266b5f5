"""What rounding takes away from an update goes along with the next one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from auricle.packs.pack import load_pack
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle.wire.update_codec import decode_update
from auricle_learning.training.train import LocalState, RoundResult
from auricle_learning.training.update_body import UNSENT, update_body

TABLE = load_pack("digits").plugin_table
ZEROS = np.zeros(TABLE.size, np.float32)
INT8 = Plan(codec="int8")


def result(trained: Flat, **variates: Flat) -> RoundResult:
    return RoundResult(trained, LocalState(np.zeros(3, np.float32), variates=variates), 0.5, 1, 1.0, 4, None, None, 0)


def drawn(seed: int) -> Flat:
    return np.random.default_rng(seed).normal(0, 0.01, TABLE.size).astype(np.float32)


def test_in_the_long_run_everything_is_sent() -> None:
    wanted = sent = np.zeros(TABLE.size)
    kept: dict[str, Flat] = {}
    for seed in range(12):
        trained = drawn(seed)
        body, _, done = update_body(result(trained), ZEROS, INT8, TABLE, kept)
        kept = dict(done.local.variates)
        wanted = wanted + trained
        sent = sent + decode_update(body, ZEROS, TABLE, "int8")
    assert np.abs(wanted - sent - kept[UNSENT]).max() < 1e-6
    alone = sum(
        decode_update(update_body(result(drawn(seed)), ZEROS, INT8, TABLE, {})[0], ZEROS, TABLE, "int8")
        for seed in range(12)
    )
    assert np.linalg.norm(wanted - sent) < 0.5 * np.linalg.norm(wanted - alone)


def test_a_plan_that_asks_for_plain_numbers_forgets_what_was_kept_and_changes_nothing() -> None:
    done = result(drawn(1))
    body, _, same = update_body(done, ZEROS, Plan(), TABLE, {UNSENT: drawn(2)})
    assert same is done
    assert body == drawn(1).tobytes()


def test_what_was_kept_of_another_model_does_not_count() -> None:
    first = update_body(result(drawn(1)), ZEROS, INT8, TABLE, {UNSENT: np.ones(3, np.float32)})
    second = update_body(result(drawn(1)), ZEROS, INT8, TABLE, {})
    assert first[0] == second[0]


def test_what_a_rule_keeps_stays_beside_it() -> None:
    _, _, done = update_body(result(drawn(1), feddyn=ZEROS), ZEROS, INT8, TABLE, {})
    assert sorted(done.local.variates) == ["feddyn", UNSENT]


@pytest.mark.parametrize("codec", ["float32", "float16", "int8"])
def test_the_body_is_what_the_coordinator_reads(codec: str) -> None:
    body, _, _ = update_body(result(drawn(3)), drawn(4), Plan(codec=codec), TABLE, {})
    assert np.abs(decode_update(body, drawn(4), TABLE, codec) - drawn(3)).max() < 1e-3


@pytest.mark.parametrize("codec", ["float16", "int8"])
def test_maps_go_along_and_leave_the_weights_as_they_are(codec: str) -> None:
    plan, done = Plan(codec=codec), result(drawn(3))
    maps = {"maps": np.arange(3, dtype=np.float32)}
    body, headers, _ = update_body(replace(done, vectors=maps), drawn(4), plan, TABLE, {})
    assert [(header.name, header.length) for header in headers] == [("maps", 12)]
    assert body == update_body(done, drawn(4), plan, TABLE, {})[0] + np.arange(3, dtype="<f4").tobytes()
