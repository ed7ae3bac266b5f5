"""Models of single devices: kept with the version that made them, given to who is invited, restart or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import BASE, TASK, begin, end_round, open_round, update
from tests.cloud.coordinator_site import PLAN, Site, keep_updates
from tests.cloud.coordinator_site import TASK as KEYWORDS
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime

from auricle.wire.messages import Invite
from auricle.wire.tensors import decode, digest, encode
from auricle_cloud.operations.group_explanation import about_group, about_groups
from auricle_cloud.operations.operations import Operations
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.states.report import GroupsReport, read_report
from auricle_cloud.storage import schema
from auricle_cloud.storage.personal_records import MadeModel, personal_files
from auricle_cloud.storage.rows import UpdateRow
from auricle_cloud.storage.store import Store
from auricle_cloud.storage.verdicts import UpdateJudge
from auricle_learning.aggregation.extras import Extras
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset

ACMU = Preset(PLAN, MethodSettings("acmu", {"max_clusters": 2}))
OWN = "e" * 64


def blob(number: int) -> str:
    return f"{number:064x}"


def enter(store: Store, number: int, parent: int, made: dict[str, tuple[int, int]]) -> int:
    """A round that made these models of devices, by group and content; the version."""
    open_round(store, [*made], number, base=blob(100 + number) if number > 1 else BASE, version=parent)
    version = end_round(store, number, blob(101 + number))
    models = {device: MadeModel(cluster, blob(content)) for device, (cluster, content) in made.items()}
    with store.database.writing() as tx:
        store.personal.enter(tx, TASK, version, parent=parent, number=number, made=models)
    return version


def had(store: Store, version: int) -> dict[str, tuple[int, int, str]]:
    return {name: (row.round, row.cluster, row.blob) for name, row in store.personal.of(TASK, version).items()}


def test_a_version_has_the_models_of_its_round_and_of_all_others_those_before(store: Store) -> None:
    begin(store, ["dev-a", "dev-b", "dev-c"])
    first = enter(store, 1, 0, {"dev-a": (0, 1), "dev-b": (1, 2)})
    second = enter(store, 2, first, {"dev-b": (0, 3), "dev-c": (0, 3)})
    back = enter(store, 3, first, {"dev-c": (1, 4)})  # from the first one again

    assert had(store, 0) == {}
    assert had(store, first) == {"dev-a": (1, 0, blob(1)), "dev-b": (1, 1, blob(2))}
    assert had(store, second) == {"dev-a": (1, 0, blob(1)), "dev-b": (2, 0, blob(3)), "dev-c": (2, 0, blob(3))}
    assert had(store, back) == {"dev-a": (1, 0, blob(1)), "dev-b": (1, 1, blob(2)), "dev-c": (3, 1, blob(4))}
    assert [*store.personal.of(TASK, back, "dev-b")] == ["dev-b"] and not store.personal.of(TASK, back, "dev-z")


def test_their_files_are_in_use_until_no_version_and_no_open_round_has_them(store: Store) -> None:
    begin(store, ["dev-a", "dev-b"])
    first = enter(store, 1, 0, {"dev-a": (0, 1), "dev-b": (1, 2)})
    enter(store, 2, first, {"dev-b": (0, 3)})
    store.rounds.plan_up_to(TASK, 3)
    with store.rounds.moving(TASK, 3, "planned", "inviting", base=blob(103), base_version=2, plan=b"") as tx:
        store.rounds.invite(tx, TASK, 3, ["dev-a", "dev-b"], {"dev-a": OWN})

    assert {blob(1), blob(2), blob(3), OWN} <= store.models.in_use(TASK)
    assert store.models.drop(TASK, [first]) == {blob(1), blob(2)}
    assert {blob(1), blob(3), OWN} <= store.models.in_use(TASK) and blob(2) not in store.models.in_use(TASK)
    with store.database.reading() as tx:
        assert personal_files(tx) == {blob(1), blob(3), OWN}
    with store.rounds.moving(TASK, 3, "inviting", "aborted"):
        pass
    assert OWN not in store.models.in_use(TASK)
    assert store.personal.asked(TASK, 3) == {"dev-a": OWN}


def test_a_forgotten_device_has_no_model_any_more(store: Store) -> None:
    begin(store, ["dev-a", "dev-b"])
    version = enter(store, 1, 0, {"dev-a": (0, 1), "dev-b": (0, 1)})
    store.devices.forget_presence()

    store.devices.forget("dev-a", who="ops")

    assert [*had(store, version)] == ["dev-b"]


def test_an_update_counts_from_the_model_that_its_device_was_asked_to_begin_with(store: Store) -> None:
    begin(store, ["dev-a", "dev-b"])
    open_round(store, ["dev-a", "dev-b"])
    with store.database.writing() as tx:
        mine = schema.invitations.c.device == "dev-a"
        tx.execute(sa.update(schema.invitations).where(mine).values(base=OWN))
    arrived = [update("dev-a", base=BASE), update("dev-a", base=OWN), update("dev-b", base=OWN), update("dev-b")]

    with store.database.reading() as tx:
        judge = UpdateJudge(tx, arrived, 0)
        assert [judge.judge(each).code for each in arrived] == ["rejected:base", "accepted"] * 2


def test_groups_are_told_in_sentences() -> None:
    told = read_report({"groups": {"of": {"dev-b": 1, "dev-a": 0, "dev-c": 0}, "silhouette": 0.5}}).groups

    first, *members = about_groups(told)
    assert "2 groups" in first and "0.50" in first
    assert members == ["Group 0: dev-a, dev-c.", "Group 1: dev-b."]
    assert "1 other" in about_group(told, "dev-a")[0] and "alone" in about_group(told, "dev-b")[0]
    assert about_group(told, "dev-z") == about_groups(None) == about_groups(GroupsReport()) == []
    assert "1 group" in about_groups(GroupsReport(of={"dev-a": 0}))[0]
    many = about_groups(GroupsReport(of={f"dev-{k}": 0 for k in range(8)}))
    assert many[1] == "Group 0: dev-0, dev-1, dev-2, dev-3, dev-4 and 3 more."


def test_devices_that_go_on_from_the_fleets_model_are_not_said_to_have_their_groups() -> None:
    told = read_report({"groups": {"of": {"dev-b": 1, "dev-a": 0}, "silhouette": None, "own_models": False}}).groups

    assert "from the fleet's model" in about_groups(told)[0]
    assert about_group(told, "dev-a") == ["It is in group 0, alone."]
    assert "that group's model" in about_group(GroupsReport(of={"dev-a": 0}), "dev-a")[0], "as of older reports"


class Replay:
    """The rounds once more, by the rule alone: what each device began with and went on with."""

    def __init__(self, site: Site, blobs: Any, seed: int) -> None:
        self.table, self.blobs = site.pack.plugin_table, blobs
        self.weights = self.table.initial(seed)
        self.own: dict[str, Any] = {}

    def begin(self, device: str) -> Any:
        return self.own.get(device, self.weights)

    def round(self, counted: list[UpdateRow]) -> None:
        starts = np.stack([self.begin(row.device) for row in counted]).astype(np.float64)
        cohort = cohort_of(self.table, self.weights, counted, self.blobs, extras=Extras(starts=starts))
        made = ACMU.method.get_rule()(cohort)
        assert made.clusters is not None
        self.weights = np.asarray(made.weights, np.float32)
        self.own |= {d: np.asarray(w, np.float32) for d, w in zip(made.ids, made.clusters.models, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("killed_in", ["collecting", "closing", "aggregated"])
@on_a_site
async def test_each_device_goes_on_from_its_groups_model_through_a_kill(site: Site, killed_in: str) -> None:
    """Three rounds of three agents; the coordinator is ended in the second, and another one takes it up."""
    asked: list[tuple[int, str, str]] = []

    first = site.coordinator(2, ACMU)
    keep_updates(first)
    site.start_agents(first)
    for name, agent in site.agents.items():
        heard = agent.rounds.take_part

        async def take_part(invite: Invite, name: str = name, heard: Any = heard) -> None:
            asked.append((invite.round, name, invite.base))
            await heard(invite)

        agent.rounds.take_part = take_part  # type: ignore[method-assign]
    await first.run()
    store = site.store()
    with store.database.writing() as tx:  # as a kill leaves it: before the commit of the second round, or after it
        tx.execute(sa.update(schema.rounds).where(schema.rounds.c.round == 2).values(state=killed_in))
        if killed_in != "aggregated":
            for table in (schema.models, schema.personal_models):
                tx.execute(sa.delete(table).where(table.c.version == 2))
            tx.execute(sa.update(schema.tasks).values(current=1))
    store.close()
    second = await played(site, 3, ACMU, agents=(), keep=True)

    store = site.store()
    replay = Replay(site, second.blobs, second.settings.seed)
    for number in (1, 2, 3):
        expected = {name: digest(encode(replay.begin(name))) for name in site.agents}
        assert {(name, base) for of, name, base in asked if of == number} == set(expected.items())
        replay.round(store.updates.counted(KEYWORDS, number))
        report = read_report(store.rounds.report(KEYWORDS, number))
        assert report.groups is not None and set(report.groups.of) == set(site.agents)
    assert encode(site.done[-1].model) == encode(replay.weights)
    kept = store.personal.of(KEYWORDS, 3)
    assert {name: row.blob for name, row in kept.items()} == {
        name: digest(encode(own)) for name, own in replay.own.items()
    }
    assert len({digest(encode(own)) for own in replay.own.values()}) > 1, "a round's devices began all alike"
    assert decode(second.blobs.get(kept["dev-a"].blob), site.pack.plugin_table.size).shape == replay.weights.shape
    shown = Operations(store, second.blobs, KEYWORDS).show_device("dev-a").personal
    assert shown is not None and (shown.round, shown.group) == (3, kept["dev-a"].cluster)
    operations = Operations(store, second.blobs, KEYWORDS)
    said = about_groups(read_report(store.rounds.report(KEYWORDS, 3)).groups)
    assert said and operations.show_round(3).groups == said
    assert set(said) <= set(operations.why_round(3).sentences)
    store.close()
