"""The bench of what packs hear together: the mean, the hours, and tables of 80 columns."""

from __future__ import annotations

import numpy as np
from bench.pack_means import Posteriors, live_hours, mean_of
from bench.pack_means_table import Commands, Live, Own, Result, text_of

from auricle.hearing.rule import Rule
from auricle.hearing.scenes import Scene, Stretch
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle_export.pretrain.streams import Streams


def test_the_mean_of_models_is_taken_window_by_window() -> None:
    one, other = (Posteriors([np.full((3, 2), v, np.float32)], [], np.full((4, 2), v, np.float32)) for v in (0.2, 0.6))
    mean = mean_of({"a": one, "b": other, "c": other}, ["a", "b"])
    np.testing.assert_allclose(mean.live[0], 0.4)
    np.testing.assert_allclose(mean.alone, 0.4)
    assert mean.commands == [] and mean.alone.dtype == np.float32


def test_hours_are_those_without_keywords() -> None:
    scene = Scene(np.zeros(0, np.int16), (), (Stretch("noise", 0, 16_000 * 1_800), Stretch("words", 0, 16_000 * 900)))
    pack = load_pack("home")
    assert live_hours(Streams((scene,), (), pack.labels, LogMel(pack.manifest.task), Rule())) == 0.75


def test_tables_fit_eighty_columns_however_long_a_name_is() -> None:
    hits = dict.fromkeys(("10", "5", "1"), (1.0, 1.0, 1.0))
    names = ("home/resnet-lite", "+".join(["a-pack-with-a-long-name/resnet-base"] * 12))
    live = tuple(Live(name, hits, 1.0, 1.0) for name in names)
    judged = tuple(Commands(name, 0.54, 1.0, 1.0, 1.0) for name in names)
    own = tuple(Own(name, 1.0, 1.0, 1.0, 1.0) for name in names)
    said = Result(99_999, 9_999, 100.25, live, names[0], judged, own)
    text = text_of(said)
    assert max(map(len, text.splitlines())) <= 80
    assert "mean of 12" in text and "100/100/100" in text
