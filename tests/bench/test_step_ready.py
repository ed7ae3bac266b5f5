"""How long a device takes until it can train: real jobs, few of them."""

from __future__ import annotations

import pytest
from bench.step_ready import WAYS, job_of, measure, report

from auricle.packs.pack import load_pack
from auricle_learning.native.library import compiler


def test_a_mutual_job_has_the_devices_model_beside_the_plug_in() -> None:
    pack = load_pack("gsc12")
    assert job_of(pack, "supervised").models == {"model": "crnn-lite"}
    assert list(job_of(pack, "mutual").models) == ["local", "plugin"]


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
def test_every_way_has_its_rounds() -> None:
    row = measure(load_pack("gsc12"), "supervised", 1)
    assert all(len(row[way]) == 1 and row[way][0] > 0 for way in WAYS)
    assert row["bytes"] > 1000
    assert "crnn-lite, supervised" in report({"pack": "gsc12", "rounds": 1, "load": 1.0, "rows": [row]})
