"""What a round's model has to be in order to be published: finite, and nothing that no limit on updates would refuse.

Devices start from it, and what they send back is held against the limits: a model beyond them would end all learning.
Every path that makes a model, whatever rule or optimizer, asks here: live rounds (`Closing.enter`), repairs (`Judge`),
and the engines of `fleet` that have no links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError, WireError
from auricle.wire.tensors import Flat
from auricle_cloud.link.update_checks import require_weights
from auricle_cloud.settings import Limits
from auricle_learning.aggregation.next_model import NextModel
from auricle_learning.methods.plugins import RuleError

LARGEST = float(np.finfo(np.float32).max)
NOT_PUBLISHED = "the round's model cannot be published"
STAYS = (
    "the model stays; one update is far from the others', which a rule such as lpa or median leaves out, or the "
    "server's rate is too large"
)


class UnsoundModelError(AuricleError):
    """A round made a model that must not be published; the sentence says why."""


def make_model(make: Callable[[], NextModel], start: Flat, limits: Limits, method: str) -> NextModel:
    """Make a round's model, and refuse it where devices could not go on from it.

    Parameters
    ----------
    make
        Applies the rule, then the server's optimizer.
    start, limits, method
        As of `require_model`.

    Raises
    ------
    UnsoundModelError
        As of `require_model`, or the rule of another package failed, or its answer is none.
    """
    try:
        made = make()
    except RuleError as error:
        raise UnsoundModelError(f"{NOT_PUBLISHED}, {str(error).rstrip('.')}: the model stays") from error
    require_model(made, start, limits, method)
    return made


def require_model(made: NextModel, start: Flat, limits: Limits, method: str) -> None:
    """Refuse what a round made where devices could not go on from it.

    Parameters
    ----------
    made
        The next model (P,), what is kept with it, and what the rule made: models of single devices, what the round is
        judged by, and the rule's state.
    start
        (P,) the model before it.
    limits
        What an update may be.
    method
        Name of the method whose rule it was, for the sentence.

    Raises
    ------
    UnsoundModelError
        A number is not finite, a model has a weight that no model learns, the next one is too far from the one before,
        or a number of the rule's state could not travel.
    """
    aggregate, weights = made.aggregate, np.asarray(made.weights)
    own = () if aggregate.clusters is None or aggregate.clusters.models is None else aggregate.clusters.models
    others = [np.asarray(model) for model in (*own, *(() if aggregate.evaluated is None else (aggregate.evaluated,)))]
    for what, numbers in (("weights", weights), *(("weights", model) for model in others), *_state_numbers(made)):
        wrong = numbers.size - np.count_nonzero(np.isfinite(numbers))
        if wrong:
            raise UnsoundModelError(
                f'{NOT_PUBLISHED}, {wrong} of {numbers.size} {what} that the method "{method}" made are not finite: '
                "the model stays; choose another method, or correct this one"
            )
    try:
        require_weights(weights, start, limits)
        for model in others:
            require_weights(model, None, limits)
    except WireError as error:
        raise UnsoundModelError(f"{NOT_PUBLISHED}, {error}: {STAYS}") from error
    for name, values in ({} if aggregate.state is None else aggregate.state.arrays).items():
        if np.abs(values).max(initial=0.0) > LARGEST:
            raise UnsoundModelError(f"{NOT_PUBLISHED}, {name} of the method is too large: {STAYS}")


def _state_numbers(made: NextModel) -> Iterator[tuple[str, NDArray[Any]]]:
    """What is kept with a model for the next round: the server optimizer's numbers, and the rule's."""
    if made.optimizer is not None:
        yield "numbers of the server optimizer", np.concatenate([made.optimizer.m, made.optimizer.v])
    for name, values in ({} if made.aggregate.state is None else made.aggregate.state.arrays).items():
        yield f"numbers of {name}", np.asarray(values)
