"""Losses and the gradients of their logits, as ONNX operators with any number of labels."""

from __future__ import annotations

from dataclasses import dataclass

from auricle_export.compiler.builder import GraphBuilder

TINY = 1e-12


@dataclass(frozen=True)
class Loss:
    """A scalar, and its gradient with respect to the student's logits (B, labels)."""

    value: str
    gradient: str


def shares(b: GraphBuilder, weight: str) -> str:
    """Each sample's share of the batch (B, 1): weight / sum of weights; a batch without weight has shares 0."""
    total = b("Max", b("ReduceSum", weight, keepdims=0), TINY)
    return b("Unsqueeze", b("Div", weight, total), b.constant([1]))


def cross_entropy(b: GraphBuilder, logits: str, target: str, share: str) -> Loss:
    """sum_b share_b CE(z_b, y_b); gradient share (softmax z - y)."""
    log_p = b("LogSoftmax", logits, axis=1)
    value = b("Neg", b("ReduceSum", b("Mul", share, b("Mul", target, log_p)), keepdims=0))
    return Loss(value, b("Mul", share, b("Sub", b("Exp", log_p), target)))


def brier_score(b: GraphBuilder, logits: str, target: str, share: str) -> Loss:
    """sum_b share_b Σ_c d_bc² with d = p - y, p = softmax z; gradient share 2 p (d - Σ_c p_c d_c)."""
    p = b("Softmax", logits, axis=1)
    away = b("Sub", p, target)
    value = b("ReduceSum", b("Mul", share, b("Mul", away, away)), keepdims=0)
    mean = b("ReduceSum", b("Mul", p, away), b.constant([1]), keepdims=1)
    return Loss(value, b("Mul", share, b("Mul", b("Mul", p, 2.0), b("Sub", away, mean))))


def divergence(b: GraphBuilder, logits: str, teacher: str, share: str, temperature: str) -> Loss:
    """sum_b share_b KL(softmax(t_b / T) || softmax(z_b / T)); gradient share (p_z - p_t) / T, none to the teacher.

    FedMLAC eq. 5-8, first argument the teacher; no factor T squared (ALGORITHMS A4).
    """
    log_p, log_q = (b("LogSoftmax", b("Div", z, temperature), axis=1) for z in (logits, teacher))
    p, q = b("Exp", log_p), b("Exp", log_q)
    value = b("ReduceSum", b("Mul", share, b("Mul", q, b("Sub", log_q, log_p))), keepdims=0)
    return Loss(value, b("Mul", share, b("Div", b("Sub", p, q), temperature)))


def weigh(b: GraphBuilder, parts: list[tuple[str, Loss]]) -> Loss:
    """The sum of losses, each times a scalar."""
    value = b.total([b("Mul", factor, loss.value) for factor, loss in parts])
    return Loss(value, b.total([b("Mul", factor, loss.gradient) for factor, loss in parts]))


@dataclass(frozen=True)
class PseudoLoss:
    """FixMatch's loss on unlabelled samples."""

    loss: Loss
    confident: str
    """Share of the batch that was at least `threshold` sure."""


def pseudo_labels(b: GraphBuilder, strong: str, teacher: str, share: str, threshold: str) -> PseudoLoss:
    """sum_b share_b 1[max q_b >= threshold] CE(argmax q_b, p_b), q = softmax of the teacher (FedRPO, A35, A36).

    The mean is over the whole batch; `>=` is inclusive and argmax takes the lowest index.
    """
    q = b("Softmax", teacher, axis=1)
    sure = b("Cast", b("GreaterOrEqual", b("ReduceMax", q, b.constant([1]), keepdims=1), threshold), to=1)
    labels = b("Gather", b("Shape", q), b.constant([1]), axis=0)
    values = b.constant_floats([0.0, 1.0])
    target = b("OneHot", b("ArgMax", q, axis=1, keepdims=0), labels, values, axis=1)
    counted = b("Mul", share, sure)
    return PseudoLoss(cross_entropy(b, strong, target, counted), b("ReduceSum", counted, keepdims=0))


@dataclass(frozen=True)
class MeansLoss:
    """FedKAD's pull of features towards their class means."""

    value: str
    gradient: str
    """With respect to the features (B, H)."""


def class_means(
    b: GraphBuilder, features: str, width: int, target: str, share: str, means: str, valid: str
) -> MeansLoss:
    """sum_b share_b valid[y_b] mean_d (f_b - F[y_b])^2 (FedKAD as in ALGORITHMS 3.3)."""
    own = b("MatMul", target, means)
    known = b("MatMul", target, b("Unsqueeze", valid, b.constant([1])))
    away, counted = b("Sub", features, own), b("Mul", share, known)
    pull = b("Mul", counted, b("Mul", away, 2.0 / width))
    value = b("ReduceSum", b("Mul", counted, b("Mul", b("Mul", away, away), 1.0 / width)), keepdims=0)
    return MeansLoss(value, pull)
