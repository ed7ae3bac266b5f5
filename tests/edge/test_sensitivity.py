"""Sensitivity from the coordinator: thresholds by hand, taken only from it and only where the owner allows it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.edge.agent_site import DEVICE, FLEET, OTHER, Site, run, until

from auricle.errors import StorageError
from auricle.packs.pack import load_pack
from auricle.wire.messages import DeviceState, Tune
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.detect.decision import Decider
from auricle_edge.listening.detect.rules import shift_threshold, tune
from auricle_edge.listening.tuning import FILE, Tuning
from auricle_edge.settings import read_settings
from auricle_learning.runtimes import StepRuntime

LABELS = ("yes", "no", "_silence_")


@pytest.mark.parametrize(
    ("threshold", "step", "expected"),
    [
        *((0.8, step, expected) for step, expected in ((1, 0.75), (2, 0.7), (-2, 0.9), (0, 0.8))),
        *((1.0, step, expected) for step, expected in ((-2, 1.0), (2, 0.9))),
        *((0.05, step, expected) for step, expected in ((2, 0.05), (-1, 0.1))),
        (0.96, -1, 0.99),
        (0.12, 1, 0.1),
    ],
)
def test_a_step_is_five_hundredths_within_limits(threshold: float, step: int, expected: float) -> None:
    assert shift_threshold(threshold, step) == pytest.approx(expected)


def test_all_keywords_are_shifted_from_their_own_thresholds() -> None:
    settings = DetectSettings(threshold=0.8, thresholds={"no": 0.5}, commands={"no": 0.6})
    more = tune(settings, LABELS, 1)
    assert (more.thresholds, more.commands) == ({"yes": 0.75, "no": 0.45}, {"no": 0.55})
    assert tune(settings, LABELS, 0) is settings


def test_a_decider_hears_at_one_step_more_what_it_did_not_hear() -> None:
    settings = DetectSettings(smoothing=1, patience=1, threshold=0.8)
    decider = Decider(LABELS, settings)
    said = np.array([0.77, 0.1, 0.13], np.float32)
    assert decider.step(said) is None
    decider.set_thresholds(tune(settings, LABELS, 1).thresholds)
    assert decider.step(said) is not None
    decider.reset()
    decider.set_thresholds(tune(settings, LABELS, 0).thresholds)
    assert decider.step(said) is None


def test_what_the_coordinator_wants_is_applied_and_survives_a_restart(tmp_path: Path) -> None:
    applied: list[int] = []
    tuning = Tuning(tmp_path, accepted=True)
    tuning.apply = applied.append
    asyncio.run(tuning.tune(-2))
    assert (applied, tuning.told, Tuning(tmp_path, accepted=True).told) == ([-2], -2, -2)
    refusing = Tuning(tmp_path, accepted=False)
    asyncio.run(refusing.tune(2))
    assert (refusing.step, refusing.told, Tuning(tmp_path, accepted=True).step) == (0, None, -2)


@pytest.mark.parametrize("content", ["3", "-3", "1.5", '"1"', "", "true"])
def test_a_file_with_anything_else_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(StorageError, match="delete it"):
        Tuning(tmp_path, accepted=True)


def test_the_owner_refuses_it_by_a_setting(tmp_path: Path) -> None:
    given = {"device": "kitchen-1", "state": str(tmp_path)}
    file = tmp_path / "edge.toml"
    file.write_text("[remote]\nsensitivity = false\n")
    assert read_settings(None, given).remote.sensitivity
    assert not read_settings(file, given).remote.sensitivity


def tune_message(step: int, epoch: int = 5, nonce: str = "") -> Tune:
    return Tune(fleet=FLEET, device=DEVICE, boot="c", epoch=epoch, sensitivity=step, nonce=nonce)


def test_a_device_obeys_its_coordinator_alone_and_says_what_is_in_effect(tmp_path: Path) -> None:
    runtime = StepRuntime(load_pack("digits"))

    async def story(site: Site) -> None:
        tuning = Tuning(tmp_path, accepted=True)
        with ThreadPoolExecutor(1) as executor:
            tuning.executor = executor
            async with site.device(parts={"tuning": tuning}):
                coordinator = site.coordinator
                await coordinator.say("cmd", tune_message(2), key=OTHER)  # another key
                await coordinator.barrier()
                assert tuning.step == 0
                await coordinator.say("cmd", tune_message(1))
                await until(lambda: any(state.sensitivity == 1 for state in coordinator.said(DeviceState)))
                await coordinator.barrier(epoch=6)
                await coordinator.say("cmd", tune_message(-1))  # a coordinator that was overtaken
                await coordinator.barrier(epoch=6)
                assert tuning.step == 1

    run(story, runtime, tmp_path / "site")


def test_a_device_without_it_says_that_it_takes_none(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        async with site.device():
            await site.coordinator.say("cmd", tune_message(2))
            await site.coordinator.barrier()
            states = site.coordinator.said(DeviceState)
            assert states and {state.sensitivity for state in states} == {None}

    run(story, StepRuntime(load_pack("digits")), tmp_path)
