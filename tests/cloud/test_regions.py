"""Rounds of several regions together: the model of one large cohort, and what is kept where one of them is cut off."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from auricle.errors import AuricleError, DataError, SettingsError, WireError
from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.pack import Pack
from auricle.wire.plan import Plan
from auricle.wire.tensors import digest, encode
from auricle_cloud.api.api_server import listening
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.api.regions_over_http import make_regions_app, tokens_in
from auricle_cloud.api.remote import DeniedError, Remote
from auricle_cloud.link.region_messages import (
    CONTENT_TYPE,
    PATH,
    Again,
    FromRegion,
    JoinRound,
    Joint,
    Later,
    Leave,
    MatrixQuestion,
    RegionPart,
    Reply,
    UpdateSummary,
    Wait,
    method_text,
)
from auricle_cloud.link.region_messages import read_message as read
from auricle_cloud.rounds.regions import joint, member, seats
from auricle_cloud.rounds.regions.joint import Meeting
from auricle_cloud.rounds.regions.joint_cohort import aggregate_of, summarise
from auricle_cloud.rounds.regions.joint_model import KEPT
from auricle_cloud.rounds.regions.member import LATE, RegionMember
from auricle_cloud.service import open_member
from auricle_cloud.settings import Detection, JointSettings, Limits, Privacy, RunSettings, SecureSum
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.aggregation.extras import Extras
from auricle_learning.aggregation.next_model import NextModel, next_model
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.methods.passes import planned_steps
from auricle_learning.presets import Preset

REGIONS = ("east", "north", "south")
LPA = Preset(Plan(), MethodSettings("lpa", {"prune_low": 0.0, "prune_high": 0.3}))
MOMENTUM = OptimizerSettings(kind="momentum", lr=0.5, beta1=0.5)
PRESETS = {
    "lpa": LPA,
    "fedavg": Preset(Plan(), MethodSettings("fedavg"), MOMENTUM),
    "fedvsa": Preset(Plan(), MethodSettings("fedvsa")).with_method(MethodSettings("fedvsa")),
    "lpa+fedvsa": Preset(Plan(), MethodSettings("lpa+fedvsa")).with_method(MethodSettings("lpa+fedvsa")),
    "fedopt": Preset(Plan(), MethodSettings("fedopt")),
    "fednova": Preset(Plan(), MethodSettings("fednova")),
}


async def nothing() -> None:
    """Look at nothing."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "HOLD_SECONDS", 0.2)
    monkeypatch.setattr(member, "AGAIN_SECONDS", 0.1)


class Regions:
    """Three regions of one fleet, with the place where they meet."""

    def __init__(
        self,
        folder: Path,
        pack: Pack,
        preset: Preset = LPA,
        quorum: int = 3,
        patience: float = 0.0,
        limits: Limits | None = None,
    ) -> None:
        self.settings = JointSettings(folder, REGIONS, preset, quorum, patience, limits or Limits())
        self.pack, self.preset, self.table = pack, preset, pack.plugin_table
        self.start = self.table.initial(7)
        self.meeting = Meeting(self.settings, pack, self.start)
        self.rule = self.meeting.rule

    def fleet(self, count: int = 15, seed: int = 0, base: np.ndarray | None = None) -> dict[str, Any]:
        """Updates of all devices; every third is of each region, and the first is far from the others."""
        rng, start = np.random.default_rng(seed), self.start if base is None else base
        moves = rng.normal(0.0, 0.01, (count, start.size))
        moves[0] *= 50
        return {
            "ids": [f"dev-{k:03d}" for k in range(count)],
            "weights": (start + moves).astype(np.float32),
            "samples": rng.integers(1, 90, count).astype(float),
            "losses": rng.random(count) * 3,
            "registered": rng.integers(1, 90, count).astype(float),
            "steps": rng.integers(1, 9, count).astype(float),
            "start": start,
        }

    def cohort(self, told: dict[str, Any], mine: Sequence[int] | slice = slice(None)) -> Cohort:
        layers = layers_of((spec.name, spec.size, spec.layer) for spec in self.table.specs)
        chosen = {name: np.array(told[name])[mine] for name in ("ids", "weights", "samples", "losses", "registered")}
        steps = told["steps"][mine]
        return Cohort.build(
            **{**chosen, "ids": [str(name) for name in chosen["ids"]]},
            start=told["start"],
            layers=layers,
            extras=Extras(
                steps=steps,
                planned=planned_steps(self.pack, self.preset.plan),
                rate=self.preset.plan.rate,
                labelled=np.ones(len(steps)),
            ),
        )

    def parts(self, told: dict[str, Any]) -> dict[str, Cohort]:
        return {name: self.cohort(told, slice(place, None, 3)) for place, name in enumerate(REGIONS)}

    def post(self, name: str) -> Callable[[bytes], bytes]:
        return lambda data: msgspec.msgpack.encode(self.meeting.take(name, read(data, FromRegion)))  # type: ignore[arg-type]

    def member(self, name: str) -> RegionMember:
        return RegionMember(self.post(name), self.pack.identity, self.rule)

    @contextmanager
    def meeting_goes_on(self) -> Iterator[None]:
        thread = threading.Thread(target=self.meeting.run)
        thread.start()
        try:
            yield
        finally:
            self.meeting.stop()
            thread.join(20)
            assert not thread.is_alive()

    async def round(self, parts: dict[str, Cohort], base: str | None = None) -> dict[str, NextModel]:
        base = digest(encode(self.start)) if base is None else base
        made = await asyncio.gather(
            *(self.member(name).next_model(base, each, nothing) for name, each in parts.items())
        )
        return dict(zip(parts, made, strict=True))


@pytest.mark.parametrize("name", PRESETS)
async def test_the_model_of_three_regions_is_that_of_one_coordinator(name: str, tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack, PRESETS[name])
    preset, state, kept, weights = PRESETS[name], None, None, regions.start
    with regions.meeting_goes_on():
        for number in (1, 2):
            told = regions.fleet(seed=number, base=weights)
            whole = regions.cohort(told)
            whole.extras.__dict__["state"] = kept
            one = next_model(whole, regions.rule, preset.server_for(number, 200), state)

            made = await regions.round(regions.parts(told), digest(encode(weights)))

            moved = np.abs(one.weights - weights).max()
            assert moved > 1e-4
            for place, region in enumerate(REGIONS):
                np.testing.assert_allclose(made[region].weights, one.weights, rtol=1e-6, atol=1e-6 * moved)
                ours = made[region].aggregate
                assert ours.ids == whole.ids[place::3]
                np.testing.assert_allclose(ours.share, one.aggregate.share[place::3], rtol=1e-6, atol=1e-12)
                assert ours.kept.tolist() == one.aggregate.kept[place::3].tolist()
            bounded = {entry.device for region in made.values() for entry in region.aggregate.bounded}
            assert bounded == {entry.device for entry in one.aggregate.bounded}
            state, kept, weights = one.optimizer, one.aggregate.state, made["north"].weights
    assert regions.meeting.number == 2


async def test_a_region_that_was_cut_off_is_given_the_same_model_again(tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack)
    parts = regions.parts(regions.fleet())
    with regions.meeting_goes_on():
        first = await regions.round(parts)
    restarted = Regions(tmp_path, runtime.pack)
    assert restarted.meeting.number == 1

    again = await restarted.round({"south": parts["south"]})

    assert again["south"].weights.tobytes() == first["south"].weights.tobytes()
    assert again["south"].aggregate.share.tobytes() == first["south"].aggregate.share.tobytes()
    assert again["south"].aggregate.flag is None


async def test_a_quorum_goes_on_without_a_region_and_that_one_takes_their_model(tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack, quorum=2)
    parts = regions.parts(regions.fleet())
    with regions.meeting_goes_on():
        made = await regions.round({name: parts[name] for name in ("east", "south")})
        late = await regions.round({"north": parts["north"]})

    assert made["east"].aggregate.share.any()
    assert late["north"].weights.tobytes() == made["east"].weights.tobytes()
    assert not late["north"].aggregate.share.any()
    assert late["north"].aggregate.flag == LATE


async def test_a_region_that_falls_silent_when_it_is_asked_is_left_out(
    tmp_path: Path, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "SILENCE_SECONDS", 2.0)
    regions = Regions(tmp_path, runtime.pack, quorum=2, patience=1.5)
    parts = regions.parts(regions.fleet())
    silent = JoinRound(
        "j",
        digest(encode(regions.start)),
        runtime.pack.identity,
        method_text(regions.rule),
        (UpdateSummary("dev-z", 9.0),),
    )
    with regions.meeting_goes_on():
        regions.meeting.take("north", silent)
        made = await regions.round({name: parts[name] for name in ("east", "south")})
        assert regions.meeting.take("north", read(msgspec.msgpack.encode(silent), FromRegion)) == Joint(  # type: ignore[arg-type]
            1, ("east", "south"), encode(made["east"].weights)
        )

    assert made["south"].aggregate.share.any()


async def test_few_devices_in_all_change_nothing(tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack)
    with regions.meeting_goes_on():
        made = await regions.round(regions.parts(regions.fleet(4)))

    assert made["north"].weights.tobytes() == regions.start.tobytes()
    assert made["north"].aggregate.flag == joint.TOO_FEW


async def test_a_model_that_must_not_be_published_is_not(tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack, PRESETS["fedavg"], limits=Limits(weight=1e-9))
    with regions.meeting_goes_on():
        made = await regions.round(regions.parts(regions.fleet()))

    assert made["east"].weights.tobytes() == regions.start.tobytes()
    assert "cannot be published" in str(made["east"].aggregate.flag)


async def test_an_answer_to_another_question_counts_for_nothing(tmp_path: Path, runtime: Any) -> None:
    """A region whose numbers are too few, or not finite, is left out, and asked anew when it comes back."""
    regions = Regions(tmp_path, runtime.pack, PRESETS["fedavg"], quorum=1)
    mine = regions.cohort(regions.fleet())
    rows = tuple(UpdateSummary(name, 5.0) for name in mine.ids)
    with regions.meeting_goes_on():
        far = np.full(regions.start.size, 1e6)
        for wrong in (b"", np.full(regions.start.size, np.nan).tobytes(), far.tobytes()):
            join = JoinRound(
                os.urandom(4).hex(),
                digest(encode(regions.start)),
                runtime.pack.identity,
                method_text(regions.rule),
                rows,
            )
            question = regions.meeting.take("east", join)
            while isinstance(question, Later):
                question = regions.meeting.take("east", join)
            assert isinstance(question, MatrixQuestion)
            answer = regions.meeting.take("east", Reply(join.join, question.number, wrong))
            while isinstance(answer, Later):
                answer = regions.meeting.take("east", Reply(join.join, question.number, wrong))
            assert answer == Again()
        made = await regions.round({"east": mine})

    assert made["east"].aggregate.share.any()


async def test_a_region_that_takes_long_over_its_answer_is_waited_for(
    tmp_path: Path, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "SILENCE_SECONDS", 1.5)
    monkeypatch.setattr(member, "ALIVE_SECONDS", 0.3)
    reply = member._reply

    def slowly(question: MatrixQuestion, cohort: Cohort) -> Any:
        time.sleep(3.0)
        return reply(question, cohort)

    monkeypatch.setattr(member, "_reply", slowly)
    regions = Regions(tmp_path, runtime.pack, PRESETS["fedavg"])
    with regions.meeting_goes_on():
        made = await regions.round(regions.parts(regions.fleet()))

    assert made["north"].aggregate.share.any()
    assert regions.meeting.number == 1


async def test_a_region_that_talks_and_never_answers_holds_nobody_up(
    tmp_path: Path, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "QUESTION_SECONDS", 1.0)
    regions = Regions(tmp_path, runtime.pack, quorum=2)
    parts, base = regions.parts(regions.fleet()), digest(encode(regions.start))
    rows = (UpdateSummary("dev-z", 9.0),)
    over = threading.Event()

    def talk() -> None:
        join = JoinRound("j", base, runtime.pack.identity, method_text(regions.rule), rows)
        regions.meeting.take("north", join)
        while not over.is_set():
            if isinstance(regions.meeting.take("north", Wait(join.join, busy=True)), Again):
                regions.meeting.take("north", join)  # joins anew at once
            time.sleep(0.05)

    talking = threading.Thread(target=talk)
    with regions.meeting_goes_on():
        talking.start()
        made = await regions.round({name: parts[name] for name in ("east", "south")})
        over.set()
        talking.join()

    assert made["south"].aggregate.share.any()


async def test_a_region_that_joins_again_after_its_answer_counts(tmp_path: Path, runtime: Any) -> None:
    """Its updates are in the model, whichever of its connections is given it."""
    regions = Regions(tmp_path, runtime.pack, PRESETS["fedavg"])
    parts, base = regions.parts(regions.fleet()), digest(encode(regions.start))
    join = JoinRound("j", base, runtime.pack.identity, method_text(regions.rule), summarise(parts["east"]))
    with regions.meeting_goes_on():
        regions.meeting.take("east", join)
        others = asyncio.create_task(regions.round({"south": parts["south"]}))
        north = threading.Event()

        async def last() -> dict[str, NextModel]:
            while not north.is_set():
                await asyncio.sleep(0.05)
            return await regions.round({"north": parts["north"]})

        third = asyncio.create_task(last())
        regions.meeting.take("east", join)
        north.set()
        question = await asyncio.to_thread(regions.meeting.take, "east", Wait("j"))
        while not isinstance(question, MatrixQuestion):
            question = await asyncio.to_thread(regions.meeting.take, "east", Wait("j"))
        answer = member._reply(question, parts["east"])
        regions.meeting.take("east", Reply("j", question.number, answer.tobytes()))
        again = await regions.round({"east": parts["east"]})
        await asyncio.gather(others, third)

    assert again["east"].aggregate.share.any()
    assert again["east"].aggregate.flag is None


async def test_a_region_that_leaves_is_not_asked(tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack, quorum=2, patience=0.5)
    base = digest(encode(regions.start))
    join = JoinRound("j", base, runtime.pack.identity, method_text(regions.rule), (UpdateSummary("dev-z", 9.0),))
    with regions.meeting_goes_on():
        regions.meeting.take("north", join)
        assert regions.meeting.take("north", Leave("j")) == Again()
        parts = regions.parts(regions.fleet())
        made = await regions.round({name: parts[name] for name in ("east", "south")})

    assert made["south"].aggregate.share.any()


async def test_an_operator_ends_the_wait(tmp_path: Path, runtime: Any) -> None:
    regions, looks = Regions(tmp_path, runtime.pack), []

    async def look() -> None:
        looks.append(1)
        if len(looks) > 3:
            raise AuricleError("aborted by an operator")

    with pytest.raises(AuricleError, match="aborted by an operator"), regions.meeting_goes_on():
        base = digest(encode(regions.start))
        await regions.member("north").next_model(base, regions.cohort(regions.fleet()), look)


def test_who_does_not_belong_is_told_why(tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack)
    good = JoinRound(
        "j",
        digest(encode(regions.start)),
        runtime.pack.identity,
        method_text(regions.rule),
        (UpdateSummary("dev-a", 1.0),),
    )
    change = msgspec.structs.replace
    for join, kind, sentence in (
        (change(good, pack="0" * 64), SettingsError, "has the pack 000000000000, and the regions meet with"),
        (
            change(good, method="fedavg, share 3"),
            SettingsError,
            "runs the method fedavg, share 3, and the regions meet",
        ),
        (change(good, rows=good.rows * 2), WireError, "one device has two"),
        (change(good, rows=(UpdateSummary("dev-a", 1e12),)), WireError, "more clips or a larger loss"),
    ):
        with pytest.raises(kind, match=sentence):
            regions.meeting.take("north", join)


def test_what_is_kept_is_read_with_care(tmp_path: Path, runtime: Any) -> None:
    (tmp_path / KEPT).write_bytes(b"no joint model")
    with pytest.raises(DataError, match="cannot be read, restore it or begin in another folder"):
        Regions(tmp_path, runtime.pack)


def test_a_part_of_another_round_is_refused(tmp_path: Path, runtime: Any) -> None:
    regions = Regions(tmp_path, runtime.pack)
    cohort = regions.cohort(regions.fleet(5))
    with pytest.raises(WireError, match="tells of 4 updates, and 5 are here"):
        aggregate_of(RegionPart(4, b"", b""), cohort, regions.start)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"preset": Preset(Plan(), MethodSettings("median"))}, "needs all updates in one place"),
        ({"mode": "async", "preset": PRESETS["fedavg"]}, "synchronous rounds"),
        ({"detection": Detection()}, "whose updates lie in other regions"),
        ({"privacy": Privacy(clip=1.0), "preset": PRESETS["fedavg"]}, "cohort of one coordinator"),
        (
            {"secure_sum": SecureSum(on=True), "preset": Preset(Plan(), MethodSettings("fedavg"))},
            "cohort of one coordinator",
        ),
    ],
)
def test_what_regions_cannot_do_together_is_refused(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    told = {"preset": LPA, **changes}
    with pytest.raises(SettingsError, match=sentence):
        RunSettings("f", BrokerAddress("127.0.0.1", 1883), tmp_path, region="https://127.0.0.1:1", **told)


async def test_only_a_region_is_let_in(tmp_path: Path, runtime: Any) -> None:
    """Over HTTP: a token for each region, made once, and a sentence for whatever is no message."""
    regions = Regions(tmp_path, runtime.pack)
    tokens = tokens_in(tmp_path, REGIONS)
    assert tokens_in(tmp_path, REGIONS) == tokens
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.token")} == {0o600}
    app = make_regions_app(regions.meeting, tokens, regions.table.size, len(regions.table.specs))
    async with listening(app, ApiSettings(port=0)) as url:

        async def post(token: str, data: bytes) -> bytes:
            return await asyncio.to_thread(Remote(url, token).post, PATH, data, CONTENT_TYPE)

        with pytest.raises(DeniedError, match="is of no region"):
            await post("auricle_" + "x" * 43, b"")
        with pytest.raises(SettingsError, match="not a message between regions"):
            await post(tokens["north"], b"no message")
        known = JoinRound(
            "j",
            digest(encode(regions.start)),
            runtime.pack.identity,
            method_text(regions.rule),
            (UpdateSummary("dev-a", 1.0),),
        )
        assert read(await post(tokens["north"], msgspec.msgpack.encode(known)), Later) == Later(1, 3)
        other = msgspec.structs.replace(known, base="0" * 64)
        answer = read(await post(tokens["south"], msgspec.msgpack.encode(other)), Joint)
        assert answer == Joint(0, (), encode(regions.start))
        regions.meeting.stop()


def test_a_region_needs_its_token(tmp_path: Path, runtime: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AURICLE_REGION_TOKEN", raising=False)
    told = RunSettings("f", BrokerAddress("127.0.0.1", 1883), tmp_path, preset=LPA, region="https://127.0.0.1:1")
    rule = BoundedRule(LPA.method.get_rule())
    with pytest.raises(DeniedError, match="AURICLE_REGION_TOKEN, or put it into"):
        open_member(told, runtime.pack, rule)
    (tmp_path / "region.token").write_text("auricle_token\n")
    assert open_member(told, runtime.pack, rule) is not None
    assert open_member(replace(told, region=None), runtime.pack, rule) is None
