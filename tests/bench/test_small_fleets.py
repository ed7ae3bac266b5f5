"""In a home of three the one that sounds different takes part, and a zero model does not decide: with the default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.slow
def test_a_home_of_three_hears_the_odd_one_and_survives_a_zero_model() -> None:
    pytest.importorskip("onnxruntime", reason="the devices train on it")
    if not RECORDED.is_dir():
        pytest.skip("there is no recorded speech beside this checkout")
    from bench.small_fleets import WAYS, make_home, play

    from auricle.packs.pack import load_pack
    from auricle.speech.folder import load_folder

    words = ",".join(load_pack("digits").labels)
    gsc, other = (load_folder(RECORDED / name, words, min_word_clips=1) for name in ("gsc", "fsdd"))
    home = make_home(gsc, other, 3, seed=0)
    begun = home.judged(home.start)
    honest, pruned = (play(home, WAYS[way](), "none", 8) for way in ("serve", "farthest"))
    attacked = play(home, WAYS["serve"](), "zero model", 8)

    assert honest.out == 0 and pruned.out > 0.5
    assert honest.odd > begun.odd + 0.1 > pruned.odd
    assert attacked.unheard > begun.unheard - 0.05
