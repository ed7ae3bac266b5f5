"""What a round's model has to be in order to be published: no limit would refuse it if it came as an update.

Devices start from it, and what they send back is held against the limits: a model beyond them would end all learning.
"""

from __future__ import annotations

import numpy as np

from auricle.errors import AuricleError, WireError
from auricle.wire.tensors import Flat
from auricle_cloud.link.update_checks import require_weights
from auricle_cloud.settings import Limits
from auricle_learning.aggregation.cohort import Aggregate

LARGEST = float(np.finfo(np.float32).max)
STAYS = (
    "the model stays; one update is far from the others', which a rule such as lpa or median leaves out, or the "
    "server's rate is too large"
)


class UnsoundModelError(AuricleError):
    """A round made a model that must not be published; the sentence says why."""


def require_model(made: Aggregate, weights: Flat, start: Flat, limits: Limits) -> None:
    """Refuse what a round made where devices could not go on from it.

    Parameters
    ----------
    made
        What the rule made: models of single devices, what the round is judged by, and the rule's state.
    weights
        (P,) the next model.
    start
        (P,) the model before it.
    limits
        What an update may be.

    Raises
    ------
    UnsoundModelError
        A model is not finite or has a weight that no model learns, the next one is too far from the one before, or a
        number of the rule's state could not travel.
    """
    models = () if made.clusters is None or made.clusters.models is None else made.clusters.models
    try:
        require_weights(np.asarray(weights), start, limits)
        for model in (*models, *(() if made.evaluated is None else (made.evaluated,))):
            require_weights(np.asarray(model), None, limits)
    except WireError as error:
        raise UnsoundModelError(f"the round's model cannot be published, {error}: {STAYS}") from error
    for name, values in ({} if made.state is None else made.state.arrays).items():
        if not np.abs(values).max(initial=0.0) <= LARGEST:
            raise UnsoundModelError(
                f"the round's model cannot be published, {name} of the method is too large: {STAYS}"
            )
