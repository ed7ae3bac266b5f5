"""The five nets of FedMLAC's table 3: their sizes, and a training step of each in both runtimes beside PyTorch."""

from __future__ import annotations

from functools import partial

import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="the reference is PyTorch in float64")
pytest.importorskip("onnxscript", reason="step graphs are made with onnxscript")

from bench.parity_cases import Case, batches, job
from bench.parity_distances import gradients
from bench.parity_reference import PRINTED
from tests.export.pretrain_toy import crnn_pack
from tests.nightly import nightly_but

from auricle.packs.pack import load_pack
from auricle.speech.words import WORD_SETS
from auricle_export.compiler.intercept import CompileError
from auricle_export.packs.author import Maker
from auricle_export.packs.build import RECIPES, assemble, build_author_pack, sources_of, trace_models
from auricle_export.packs.models import FEDMLAC, PLUGIN, make_module
from auricle_export.pretrain.modules import module_for
from auricle_learning.native.library import compiler
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import StepRuntime

TOLERANCE = 1e-5
WEIGHTS = (7_891, 28_067, 31_171, 178_083, 270_403)
KINDS = {"supervised": "supervised", "mutual, T = 1": "mutual"}


def test_they_are_as_large_as_the_page_says() -> None:
    found = (sum(tensor.numel() for tensor in make_module(name, 35).parameters()) for name in FEDMLAC)
    assert tuple(found) == WEIGHTS
    assert sources_of("fedmlac, my.py:Net") == (*FEDMLAC, "my.py:Net")


def test_a_net_that_is_mistyped_is_named() -> None:
    with pytest.raises(CompileError, match='no built-in model "crnn-tini": did you mean "crnn-tiny"'):
        build_author_pack("crnn-lite,crnn-tini", ("yes", "no"), "nets")


@pytest.mark.parametrize("name", ["crnn-base", "crnn-deep"])
def test_a_packs_tensors_say_which_net_a_name_is(name: str) -> None:
    """The wheel's packs have others under these names, and their own ones under new names elsewhere."""
    earlier, now, again = load_pack("gsc12"), crnn_pack(models=(PLUGIN, name)), crnn_pack(models=(PLUGIN, "crnn-bi64"))
    assert module_for(name, earlier, {}).get_submodule("gru").hidden_size == 64
    assert module_for(name, now, {}).get_submodule("gru").hidden_size == 128
    assert module_for("crnn-bi64", again, {}).get_submodule("gru").hidden_size == 64


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", nightly_but(FEDMLAC, ["crnn-tiny"]))
def test_both_runtimes_compute_pytorchs_gradients(name: str) -> None:
    """Of labels, and of labels and what the plug-in says."""
    words = WORD_SETS["gsc12"]
    makers: dict[str, Maker | None] = {model: partial(make_module, model) for model in (name, PLUGIN)}
    recipes = [each for each in RECIPES if each.kind in KINDS.values() and each.optimizer == "sgd" and not each.terms]
    pack = assemble("nets", words, trace_models(makers, len(words)), recipes=recipes)
    step = StepRuntime(pack)
    native = [NativeRuntime(pack)] if compiler() is not None else []
    for loss in KINDS:
        given = job(Case(name, loss, "sgd"), pack, bare=True)
        found = gradients(given, batches(pack, given.kind)[1], step, PRINTED, native)
        assert max((found.ours, *found.others)) <= TOLERANCE
    assert all(not runtime.reasons for runtime in native)
