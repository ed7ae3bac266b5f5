"""Steps of two plug-ins in turns, through the packs' own graphs, and the bytes of an upload."""

from __future__ import annotations

import pytest
from bench.step_plugins import KINDS, arguments, roles_of, run, upload_bytes

from auricle.packs.pack import load_pack


def test_an_upload_is_the_weights_and_a_signed_header_for_each_frame() -> None:
    """26,572 weights of four bytes fit one frame, 64,580 take three; a header has a few hundred bytes."""
    lite, res = (load_pack(name) for name in ("gsc12", "gsc12-res"))
    assert 300 < upload_bytes(lite, "float32") - 4 * 26_572 < 700
    assert 300 < upload_bytes(lite, "float16") - 2 * 26_572 < 700
    assert 3 * 300 < upload_bytes(res, "float32") - 4 * 64_580 < 3 * 700


def test_a_mutual_step_takes_the_devices_own_model_beside_the_plug_in() -> None:
    pack = load_pack("gsc12-res")
    assert roles_of(pack, "supervised") == {"model": "resnet-lite"}
    trained = "resnet-base" if "resnet-base" in pack.manifest.start else "resnet-lite"
    assert roles_of(pack, "mutual") == {"local": trained, "plugin": "resnet-lite"}


@pytest.mark.slow
def test_steps_of_two_packs_take_turns() -> None:
    """Real steps, few of them: every kind has a row for each pack, the first without a ratio."""
    result = run(arguments(["--rounds", "2", "--steps", "2"]))
    assert [(cost.kind, cost.pack) for cost in result.costs] == [
        (kind, pack) for kind in KINDS for pack in ("gsc12", "gsc12-res")
    ]
    for cost in result.costs:
        assert cost.p10 <= cost.p90 and cost.p90 > 0  # what a busy machine takes may be more than it measured
        assert cost.cpu > 0
        assert (cost.times is None) == (cost.pack == "gsc12")


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--steps", "1"], ["--core", "4096"]])
def test_what_cannot_be_measured_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(wrong)
