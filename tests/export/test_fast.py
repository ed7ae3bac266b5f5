"""The fast form of the CRNN and of the losses: the plain module's numbers in float64, and numbers worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="the export part needs PyTorch")

from auricle_export import fast
from auricle_export.models import ARCHITECTURES, LOCALS, PLUGIN, Crnn, CrnnShape, init_bound, layer_of
from auricle_export.stepgraph import SoftLoss, _adamw, _clipped, _sgd, body_tensors, unpack_parts


def _t(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("shape", [*ARCHITECTURES.values(), CrnnShape((8,), 5, layers=3, bidirectional=True)], ids=str)
@pytest.mark.parametrize("frames", [100, 50, 27])
def test_the_fast_form_is_the_module_and_so_are_its_gradients(shape: CrnnShape, frames: int) -> None:
    torch.manual_seed(0)
    module = Crnn(shape, 5).double()
    x, direction = torch.randn(3, frames, 40, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    plain = module(x)
    (plain * direction).sum().backward()

    named = {name: p.detach().clone().requires_grad_() for name, p in module.named_parameters()}
    ours = fast.logits(shape, named, x)
    (ours * direction).sum().backward()

    assert torch.allclose(ours, plain, rtol=1e-10, atol=1e-12)
    for name, parameter in module.named_parameters():
        assert torch.allclose(named[name].grad, parameter.grad, rtol=1e-8, atol=1e-11), name


def test_the_loss_of_numbers_worked_out_by_hand() -> None:
    """Student (1/4, 3/4), teacher (1/2, 1/2), label 1: CE = ln 4/3, KL = 1/2 ln 2 + 1/2 ln 2/3."""
    student = _t([0.0, math.log(3)]).requires_grad_()

    loss, _ = SoftLoss.apply(student, _t([0.0, 1.0]), _t([5.0, 5.0]), _t(2.0), torch.tensor(0.5), torch.tensor(2.0))
    loss.backward()

    assert loss.item() == pytest.approx(0.5 * math.log(4 / 3) + math.log(2) + math.log(2 / 3), abs=1e-12)
    assert student.grad[0].tolist() == pytest.approx([0.5 * 0.25 - 2 * 0.25, 0.5 * -0.25 + 2 * 0.25], abs=1e-12)


def test_a_sample_weighs_by_its_share() -> None:
    """Weights 3 and 1 make the mean (3 L1 + L2)/4, and 0 makes a sample absent."""
    student, target = _t([0.0, 0.0], [0.0, math.log(3)], [9.0, 1.0]), _t([1.0, 0.0], [1.0, 0.0], [0.0, 1.0])

    loss, grad = SoftLoss.apply(student, target, student, _t(3.0, 1.0, 0.0), torch.tensor(1.0), torch.tensor(0.0))

    assert loss.item() == pytest.approx((3 * math.log(2) + math.log(4)) / 4, abs=1e-12)
    assert grad[2].tolist() == [0, 0]


def test_large_logits_do_not_overflow() -> None:
    student = torch.tensor([[1e4, -1e4]])

    loss, grad = SoftLoss.apply(
        student, torch.tensor([[0.0, 1.0]]), -student, torch.ones(1), torch.tensor(1.0), torch.tensor(1.0)
    )

    assert loss.item() == pytest.approx(4e4)
    assert torch.isfinite(grad).all()


def test_a_tie_in_the_pool_gives_its_gradient_to_the_earlier_frame() -> None:
    x = _t([[1.0]], [[1.0]], [[2.0]], [[3.0]]).requires_grad_()

    pooled, _ = fast.HalveTime.apply(x)
    pooled.sum().backward()

    assert pooled.flatten().tolist() == [1, 3]
    assert x.grad.flatten().tolist() == [1, 0, 0, 1]


def test_sgd_by_hand() -> None:
    """m = 0.9 * 2 + 3 + 0.1 * 10 = 5.8; w = 10 - 0.5 * 5.8 = 7.1."""
    one = (_t(10.0), _t(10.0), _t(10.0))
    hyper = {"rate": 0.5, "momentum": 0.9, "decay": 0.1}

    new, (moved,) = _sgd(one, (_t(3.0),) * 3, [(_t(2.0),) * 3], {k: torch.tensor(v) for k, v in hyper.items()})

    assert moved[1].item() == pytest.approx(5.8, abs=1e-6)
    assert new[2].item() == pytest.approx(7.1, abs=1e-6)


def test_adamw_by_hand() -> None:
    """From zero, step 1, g = 2: the corrected moments are g and g², w = (1 - 0.1 * 0.5) * 10 - 0.1 * 2/(2 + 0.5)."""
    hyper = {"rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 0.5, "step": 1.0, "decay": 0.5}
    zero = (_t(0.0),) * 3

    new, (first, second) = _adamw(
        (_t(10.0),) * 3,
        (_t(2.0),) * 3,
        [zero, zero],
        {k: torch.tensor(v, dtype=torch.float64) for k, v in hyper.items()},
    )

    assert new[0].item() == pytest.approx(9.5 - 0.08, abs=1e-12)
    assert (first[0].item(), second[0].item()) == pytest.approx((0.2, 0.04))


@pytest.mark.parametrize(("clip", "factor"), [(math.inf, 1.0), (13.0, 1.0), (6.5, 0.5), (0.13, 0.01)])
def test_the_norm_of_all_three_parts_together_is_clipped(clip: float, factor: float) -> None:
    """|(3, 4, 12)| = 13."""
    parts = _clipped((_t(3.0), _t(4.0), _t(12.0)), torch.tensor(clip))

    assert [p.item() for p in parts] == pytest.approx([3 * factor, 4 * factor, 12 * factor])


def test_no_gradient_is_not_divided_by_its_norm() -> None:
    assert [p.item() for p in _clipped((_t(0.0),) * 3, torch.tensor(1.0))] == [0, 0, 0]


def test_the_body_is_every_tensor_but_the_classifiers_in_order_of_name() -> None:
    shape = ARCHITECTURES[PLUGIN]
    names = [name for name, _ in body_tensors(shape)]
    flat = torch.arange(sum(math.prod(dims) for _, dims in body_tensors(shape)), dtype=torch.float64)

    named = unpack_parts(shape, (flat, _t(1.0), _t(2.0)))

    assert names == sorted(names)
    assert set(named) == {name for name, _ in Crnn(shape, 2).named_parameters()}
    assert torch.cat([named[name].flatten() for name in names]).tolist() == flat.tolist()


@pytest.mark.parametrize("name", LOCALS)
def test_initial_bounds_are_pytorchs(name: str) -> None:
    """The largest of many draws comes close to the bound and not beyond it."""
    torch.manual_seed(0)
    shape = ARCHITECTURES[name]
    for tensor, parameter in Crnn(shape, 35).named_parameters():
        bound = init_bound(shape, tensor, tuple(parameter.shape))
        largest = parameter.abs().max().item()
        assert largest <= bound * (1 + 1e-6), tensor
        assert largest > bound * (0.99 if parameter.numel() > 1000 else 0.7), tensor


def test_the_plug_in_has_about_28_000_weights_for_35_labels() -> None:
    assert sum(p.numel() for p in Crnn(ARCHITECTURES[PLUGIN], 35).parameters()) == 28_067


def test_a_layer_is_a_module() -> None:
    names = ("conv.0.weight", "conv.0.bias", "gru.weight_ih_l0_reverse", "head.bias")

    assert [layer_of(name) for name in names] == ["conv.0", "conv.0", "gru", "head"]
    assert np.isclose(init_bound(ARCHITECTURES[PLUGIN], "conv.0.weight", (32, 40, 3)), 120**-0.5)
