"""One row a device: where an asynchronous buffer holds several updates of one, they count as one.

A rule speaks of clients, and each has a vote, a distance and a share. A device that answered late invitations together
would otherwise be as many clients as it has updates, and could fill a buffer alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle_cloud.aggregation.cohort import Cohort, Float64Array
from auricle_cloud.aggregation.rules.average import sample_share


def by_device(cohort: Cohort) -> Cohort:
    """The same round with one row for each device; the same cohort where no device has two.

    A device's row is the mean of its updates by samples, its samples are their sum, its loss is the mean by samples of
    those that are known, and what it registered counts once for each update.

    Parameters
    ----------
    cohort
        Its ids are device names, with `@` and the round where there are several of one, as `cohort_of` makes them.
    """
    names = [client.partition("@")[0] for client in cohort.ids]
    devices = sorted(set(names))
    if len(devices) == len(names):
        return cohort
    rows = [np.array([k for k, name in enumerate(names) if name == device]) for device in devices]
    weights = np.empty((len(devices), cohort.start.size), cohort.weights.dtype)
    for place, mine in enumerate(rows):
        share = sample_share(cohort.samples[mine], np.ones((mine.size, 1), np.bool_))[:, 0]
        weights[place] = share @ cohort.weights[mine].astype(np.float64)
    registered = cohort.registered
    return replace(
        cohort,
        ids=tuple(devices),
        weights=weights,
        samples=np.array([cohort.samples[mine].sum() for mine in rows]),
        losses=np.array([_loss(cohort, mine) for mine in rows]),
        registered=None if registered is None else np.array([registered[mine].sum() for mine in rows]),
    )


def _loss(cohort: Cohort, mine: NDArray[np.int_]) -> float:
    losses: Float64Array = cohort.losses[mine]
    known = ~np.isnan(losses)
    if not known.any():
        return float("nan")
    share = sample_share(cohort.samples[mine][known], np.ones((int(known.sum()), 1), np.bool_))[:, 0]
    return float(share @ losses[known])
