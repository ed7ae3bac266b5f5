"""The alarm of eq. 12 with devices that lie about their loss: too high, so that nothing is above them, or too low."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from auricle_cloud.detection.alarm import alarm, believed, next_reference, set_aside
from auricle_cloud.settings import Detection

RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data")) / "gsc"
CLEAN = [0.05, 0.08, 0.11, 0.14, 0.19, 0.2, 0.22, 0.31, 0.41, 0.8]
POISONED = [2.1, 3.9, 4.1, 4.4, 4.7, 4.9, 5.1, 5.2, 5.6, 5.8]
TOO_HIGH = (1e6, 50.0, 6.0)


def named(losses: list[float]) -> dict[str, float]:
    return {f"dev-{k:02d}": loss for k, loss in enumerate(losses)}


def fires(clean: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """As a coordinator compares a round with the one before."""
    return alarm(believed(now), next_reference(None, believed(clean), fired=False)).fires


def test_one_loss_of_a_million_does_not_turn_the_alarm_off() -> None:
    lied = named([1e6, *CLEAN[1:]])

    assert not alarm(named(POISONED), next_reference(None, lied, fired=False)).fires, "the formula alone is turned off"
    assert set_aside(lied) == ("dev-00",)
    assert fires(lied, named(POISONED))


def test_losses_of_speakers_who_differ_are_all_believed() -> None:
    spread = [0.10, 0.11, 0.13, 0.14, 0.16, 0.19, 0.22, 0.27, 0.31, 0.31, 0.34, 0.42, 0.47, 0.5, 0.51, 0.76, 0.77, 0.79]
    assert set_aside(named([*spread, 1.0, 1.75])) == (), "so differ twenty speakers in a clean round"
    assert set_aside(named([0.5, 0.5, 0.5, 0.52])) == ()
    assert set_aside(named([0.01] * 18 + [0.3, 0.9])) == (), "hard speakers of a fleet that has learnt"
    assert set_aside(named([0.01] * 18 + [0.3, 1.2])) == ("dev-19",)
    assert set_aside(named([0.5, 1e6, 0.4])) == (), "of three nobody can say which is wrong"
    assert set_aside(named([0.5, 0.5, 0.5, math.inf, math.nan])) == (), "they are votes"


@pytest.mark.parametrize("liars", [1, 2, 3])
@pytest.mark.parametrize("high", TOO_HIGH)
def test_neither_kind_of_lie_turns_the_alarm_off(liars: int, high: float) -> None:
    clean = named([high] * liars + CLEAN[liars:])
    late = named([0.0] * liars + POISONED[liars:])

    assert fires(clean, late)
    assert not fires(named(CLEAN), named([high] * liars + CLEAN[liars:])), "nor on"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_recall_on_recorded_speech_with_liars(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime", reason="the clients train on it")
    if not RECORDED.is_dir():
        pytest.skip("there is no recorded speech beside this checkout")
    from tests.cloud.poisoned_fleet import recorded

    fleet, _ = recorded(RECORDED)
    clean: list[dict[str, float]] = []
    for number in range(1, 11):
        clean.append(fleet.losses())
        fleet.play(attacked=number == 10)
    poisoned, rng, trials = fleet.losses(), np.random.default_rng(0), 300
    lines = ["liars  kind      recall  by the maximum  false alarms  liars named  others named"]
    for fraction in (0.1, 0.2, 0.3):
        for kind in ("1e6", "50", "5 x own", "0, late", "both"):
            hits = plain = false = found = wrong = 0
            for _ in range(trials):
                liars = set(rng.choice(sorted(poisoned), round(fraction * len(poisoned)), replace=False).tolist())
                before, after = (clean[i] for i in rng.choice(9, 1).item() + np.array([0, 1]))
                told, late = dict(before), dict(poisoned)
                for name in liars:
                    if kind != "0, late":
                        told[name] = {"50": 50.0, "5 x own": 5 * before[name]}.get(kind, 1e6)
                    if kind in ("0, late", "both"):
                        late[name] = 0.0
                hits += fires(told, late)
                plain += alarm(late, next_reference(None, told, fired=False)).fires
                false += fires(before, {**after, **{name: told[name] for name in liars}})
                doubted = set(set_aside(told))
                found, wrong = found + len(doubted & liars), wrong + len(doubted - liars)
            many = round(fraction * len(poisoned)) * trials
            lines.append(
                f"{fraction:5.0%}  {kind:8}  {hits / trials:6.0%}  {plain / trials:14.0%}  {false / trials:12.0%}  "
                f"{found / many:11.0%}  {wrong / (len(poisoned) * trials - many):12.1%}"
            )
            assert hits >= 0.95 * trials and false <= 0.02 * trials, lines[-1]
    with capsys.disabled():
        print("\n" + "\n".join(lines))


@pytest.mark.parametrize("one_phase", [False, True])
def test_a_coordinator_sets_a_lie_aside_and_names_its_device(
    one_phase: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="the devices of this round train on it")
    from tests.cloud import coordinator_site
    from tests.cloud.coordinator_site import FEDAVG, TASK, Site, run

    from auricle.packs.pack import load_pack
    from auricle_cloud.operations.operations import Operations
    from auricle_learning.runtimes import StepRuntime
    from auricle_learning.training.train import Trainer

    # The class is patched and not its objects: training computes the loss itself.
    truth = Trainer.inference_loss
    monkeypatch.setattr(Trainer, "inference_loss", lambda self, *a: 1e6 if self.seed == 4 else truth(self, *a))

    async def case(site: Site) -> None:
        coordinator = site.coordinator(1, FEDAVG, devices=4, quorum=1.0, detection=Detection(one_phase=one_phase))
        site.start_agents(coordinator, coordinator_site.DEVICES)
        await coordinator.run()

        store = site.store()
        detection = store.rounds.get(TASK, 1).detection
        assert detection is not None
        assert detection["set_aside"] == ["dev-d"] and detection["next_reference"] < 100
        (event,) = store.journal.events(kind="loss set aside")
        assert (event.device, event.detail) == ("dev-d", "a loss of 1e+06, far from all others'")
        why = Operations(store, coordinator.blobs, TASK, lambda: None, "anna").why_round(1, "dev-d")
        assert "Its loss of the received model is far from all others' and was not used." in why.devices[0].sentences
        store.close()

    run(case, StepRuntime(load_pack("digits")), tmp_path)
