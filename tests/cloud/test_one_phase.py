"""Detection in one phase: devices train at once, and an alarm puts what they trained onto the repaired model (A45)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from tests.cloud.coordinator_site import FEDAVG, TASK, Site
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime

from auricle.process.cli import main
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.settings import Detection
from auricle_cloud.storage.schema import rounds
from auricle_cloud.storage.store import Store

ONE_PHASE = Detection(one_phase=True)


def lower_reference(store: Store, number: int) -> None:
    """Make every loss of the next round a vote for the alarm."""
    detection = {**(store.rounds.get(TASK, number).detection or {}), "next_reference": 1e-9}
    with store.database.writing() as tx:
        tx.execute(sa.update(rounds).where(rounds.c.round == number).values(detection=detection))


@on_a_site
@pytest.mark.slow
async def test_an_alarm_after_training_puts_the_updates_onto_the_repaired_model(site: Site) -> None:
    await played(site, 1, FEDAVG, detection=ONE_PHASE, keep=True)
    store = site.store()
    lower_reference(store, 1)
    second = await played(site, 2, FEDAVG, detection=ONE_PHASE, agents=(), keep=True)

    models = {row.version: row for row in store.models.all(TASK)}
    made = [(models[v].origin, models[v].round, models[v].parent) for v in range(4)]
    assert made == [("first", None, None), ("round", 1, 0), ("repair", 2, 0), ("round", 2, 2)]
    assert models[2].blob == models[0].blob and store.models.current(TASK).version == 3
    done, row = site.done[-1].report, store.rounds.get(TASK, 2)
    assert done["detection"]["fires"] and done["detection"]["repair"] == "rolled back"
    assert set(done["detection"]["losses"]) == {"dev-a", "dev-b", "dev-c"}
    assert (row.base_version, done["base_version"], row.detection["trained_from"]) == (2, 2, models[1].blob)

    counted, table = store.updates.counted(TASK, 2), site.pack.plugin_table
    sent = second.weights(models[1].blob).astype(np.float64)
    trained = cohort_of(table, second.weights(models[1].blob), counted, second.blobs)
    share = trained.samples / trained.samples.sum()
    expected = second.weights(models[0].blob) + (share @ trained.weights.astype(np.float64) - sent)
    assert np.abs(second.weights(models[3].blob) - expected).max() < 1e-6
    assert [event.detail for event in store.journal.events(kind="alarm")] == [done["detection"]["sentence"]]
    store.close()


@on_a_site
async def test_a_round_that_was_moved_is_judged_as_it_was_moved(site: Site) -> None:
    await played(site, 1, FEDAVG, detection=ONE_PHASE)
    store = site.store()
    lower_reference(store, 1)
    await played(site, 2, FEDAVG, detection=ONE_PHASE, agents=(), keep=True)
    shape = (4, site.pack.manifest.task.frames, site.pack.manifest.task.frontend.mels)
    validation = ValidationSet(np.zeros(shape, np.float32), np.arange(4) % len(site.pack.labels))
    third = site.coordinator(3, FEDAVG, detection=ONE_PHASE, evaluator=OnnxEvaluator(site.pack, validation))
    judgement = third.rounds._synchronous._judgement
    assert judgement is not None

    cohort = third.site.cohort(store.rounds.get(TASK, 2), store.updates.counted(TASK, 2))
    found = await judgement.find(3, 3)

    assert np.array_equal(cohort.start, third.weights(store.models.get(TASK, 2).blob))
    whole = cohort.samples @ cohort.weights.astype(np.float64) / cohort.samples.sum()
    assert np.abs(whole - third.weights(store.models.get(TASK, 3).blob)).max() < 1e-6
    assert found.detail["judged_round"] == 2 and found.detail["method"] == "exact"
    third.store.close()
    store.close()


def test_one_phase_without_detection_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["cloud", "serve", "--broker", "mqtt://h", "--fleet", "f", "--state", str(tmp_path), "--one-phase"])

    assert (code, "add --detect" in capsys.readouterr().err) == (2, True)
