"""Why no device trains the default pack's plug-in beside an own model that begins as noise: a round of two people."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auricle.first_weights import chosen_weights
from auricle.pack import Pack, load_pack
from auricle_cloud.presets import PRACTICAL
from auricle_edge.runtimes import StepRuntime
from auricle_edge.speech_data import load_clips
from auricle_edge.train import Trainer

RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data"))
PEOPLE = ("893705bb", "1b4c9b89")
"""Speakers of `gsc` who said most of the ten commands; nobody trained the pack on them."""

pytestmark = pytest.mark.skipif(
    not (RECORDED / "gsc").is_dir(), reason=f"no recorded speech in {RECORDED}: set AURICLE_SPEECH"
)


def heard_after_a_round(pack: Pack, local: str, speaker: str) -> float:
    """Share of somebody's held-out clips that the plug-in has right after their first round."""
    data, _ = load_clips(RECORDED / "gsc", pack, speaker=speaker)
    plugin = chosen_weights(None, pack, pack.manifest.plugin, 0)
    assert plugin is not None
    trainer = Trainer(StepRuntime(pack), local, data, 0, chosen_weights(None, pack, local, 0))
    result = trainer.run(PRACTICAL.plan_for(1, 30, 0), 1, plugin, trainer.first_state())
    accuracy = trainer.held_out_accuracy(pack.manifest.plugin, result.plugin)
    assert accuracy is not None
    return accuracy


@pytest.mark.parametrize("speaker", PEOPLE)
def test_beside_noise_the_plug_in_loses_more_than_beside_a_trained_model(speaker: str) -> None:
    home = load_pack("home")
    if "resnet-base" in home.manifest.start:
        pytest.skip("the pack brings trained weights of resnet-base now")

    noise, trained = (heard_after_a_round(home, local, speaker) for local in ("resnet-base", "resnet-lite"))

    assert noise <= trained - 0.2
