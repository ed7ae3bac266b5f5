"""What is lent to tune a classifier by, as bytes that anybody may have made; and gradients that no classifier has."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import numpy as np
import pytest

from auricle.errors import WireError
from auricle.wire.messages import Invite
from auricle.wire.plan import LARGEST_BLOB, Lent, Plan
from auricle.wire.prior_knowledge import (
    PriorKnowledge,
    Tuning,
    class_gradient,
    gradients_size,
    require_gradients,
    split_classifier,
)

TUNING = Tuning(features=4, epochs=3, rate=0.5)
KNOWN = PriorKnowledge(np.arange(9, dtype=np.float32), (0, 2), np.arange(16, dtype=np.float32).reshape(2, 4, 2), TUNING)
INVITE: dict[str, Any] = {"fleet": "home", "device": "kitchen", "boot": "b", "task": "keywords", "round": 1, "epoch": 1}
INVITE |= {"base": "a" * 64, "ttl": 60.0, "plan": Plan(), "length": 36, "codec": "float32", "chunks": 1}


def sent(**changes: Any) -> bytes:
    """What is lent, with parts of it changed."""
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(KNOWN.to_bytes()), **changes})


def test_it_is_read_as_it_was_written() -> None:
    found = PriorKnowledge.from_bytes(KNOWN.to_bytes(), 3, 2)
    assert (found.labels, found.tuning, found.classes) == ((0, 2), TUNING, 3)
    assert np.array_equal(found.classifier, KNOWN.classifier) and np.array_equal(found.features, KNOWN.features)
    weight, bias = split_classifier(found.classifier, 3)
    assert (weight.tolist(), bias.tolist()) == ([[0, 1], [2, 3], [4, 5]], [6, 7, 8])


def test_before_the_first_gradients_there_is_a_classifier_and_no_feature() -> None:
    nothing = PriorKnowledge(KNOWN.classifier, (), np.zeros((0, 4, 2), np.float32), TUNING)
    assert PriorKnowledge.from_bytes(nothing.to_bytes(), 3, 2).features.shape == (0, 4, 2)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", KNOWN.to_bytes()[:-1], b"\x91" * 5000, sent(more=1), sent(classes=2), sent(width=3)),
        *(sent(labels=labels) for labels in ([2, 0], [1, 1], [0, 3], [0, -1], [0])),
        *(sent(values=values) for values in (bytes(99), np.full(25, np.nan, "<f4").tobytes())),
        *(
            sent(tuning={"features": features, "epochs": epochs, "rate": rate})
            for features, epochs, rate in ((1 << 40, 3, 0.5), (4, 201, 0.5), (4, 3, 0.0))
        ),
    ],
)
def test_what_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        PriorKnowledge.from_bytes(data, 3, 2)


def test_more_labels_than_any_classifier_has_are_refused_before_they_are_read() -> None:
    many = sent(labels=[0] * (LARGEST_BLOB - 1000))
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="cannot be read"):
            PriorKnowledge.from_bytes(many, 3, 2)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_gradients_of_a_classifier_pass_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 2)), rng.normal(size=3)
    real = np.stack([class_gradient(rng.normal(size=(5, 2)) * 9, label, weight, bias) for label in range(3)])
    values = real.astype(np.float32).ravel()
    assert values.size == gradients_size(3, 2)

    require_gradients(values, 3, 100.0)
    for place, wrong in ((0, 101.0), (8, 1.01), (26, -1.01)):
        changed = values.copy()
        changed[place] = wrong
        with pytest.raises(WireError, match="larger than one of a classifier can be"):
            require_gradients(changed, 3, 100.0)


def test_an_older_device_reads_an_invitation_that_lends_something() -> None:
    """Of a struct without the field it is ignored, and without anything to lend the message is as it was."""
    older = msgspec.defstruct(
        "Older", [(f.name, f.type) for f in msgspec.structs.fields(Invite) if f.required], tag="invite"
    )
    lends = Invite(**INVITE, prior=Lent(blob="b" * 64, length=9, chunks=1))

    read = msgspec.msgpack.decode(msgspec.msgpack.encode(lends), type=older)
    assert (read.plan, read.base) == (Plan(), "a" * 64)
    assert "prior" not in msgspec.msgpack.decode(msgspec.msgpack.encode(Invite(**INVITE)))
    for wrong in ({"length": 0}, {"length": (16 << 20) + 1}, {"chunks": 4097}, {"blob": "b"}, {"more": 1}):
        lent = {"blob": "b" * 64, "length": 9, "chunks": 1, **wrong}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"type": "invite", **INVITE, "prior": lent}, Invite)
