"""What a round's model has to be in order to be published: it has no weight that an update may not have.

Devices start from it, and what they send back is held against the limits: a model beyond them would end all learning.
How far a model is from the one before is no matter: an update is measured from the model that it started from.
"""

from __future__ import annotations

import numpy as np

from auricle.errors import AuricleError, WireError
from auricle.wire.tensors import Flat
from auricle_cloud.link.update_checks import require_weights
from auricle_cloud.settings import Limits
from auricle_learning.aggregation.cohort import Aggregate

LARGEST = float(np.finfo(np.float32).max)
STAYS = "the model stays: see who the rule counted, quarantine a device whose update is far from the others'"


class UnsoundModelError(AuricleError):
    """A round made a model that must not be published; the sentence says why."""


def require_model(made: Aggregate, weights: Flat, limits: Limits) -> None:
    """Refuse what a round made where devices could not go on from it.

    Parameters
    ----------
    made
        What the rule made: models of single devices, what the round is judged by, and the rule's state.
    weights
        (P,) the next model.
    limits
        What an update may be.

    Raises
    ------
    UnsoundModelError
        A model is not finite or has a weight that no model learns, or a number of the rule's state could not travel.
    """
    models = () if made.clusters is None or made.clusters.models is None else made.clusters.models
    try:
        for model in (weights, *models, *(() if made.evaluated is None else (made.evaluated,))):
            require_weights(np.asarray(model), None, limits)
    except WireError as error:
        raise UnsoundModelError(f"the round's model cannot be published, {error}: {STAYS}") from error
    for name, values in ({} if made.state is None else made.state.arrays).items():
        if not np.abs(values).max(initial=0.0) <= LARGEST:
            raise UnsoundModelError(
                f"the round's model cannot be published, {name} of the method is too large: {STAYS}"
            )
