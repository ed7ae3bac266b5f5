"""Codes of refusals: a fixed vocabulary, so that no device can make up another."""

from __future__ import annotations

CODES = frozenset(
    (
        "frame",
        "schema",
        "signature",
        "upgrade_required",
        "body",
        "identity",
        "unregistered",
        "standing",
        "codec",
        "shape",
        "samples",
        "loss",
        "part",
        "memory",
        "hash",
        "values",
        "norm",
        "rate",
        "type",
        "round",
        "base",
        "not invited",
        "hearing",
        "pending",
        "quarantined",
        "revoked",
    )
)
OTHER = "other"


def refusal_code(reason: str) -> str:
    """The code that a reason begins with, up to its colon; `other` where that is not one."""
    code = reason.partition(":")[0]
    return code if code in CODES else OTHER
