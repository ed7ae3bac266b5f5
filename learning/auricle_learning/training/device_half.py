"""A device's half of a round's method: what it changes in the training, what it sends beside the weights and keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from auricle.errors import AuricleError
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import NO_CHANGES, JobChanges, Received, Trained
from auricle_learning.methods.vectors import method_of

NO_HISTOGRAM = np.zeros(0, np.float32)


class DeviceHalf:
    """Of one round on one device.

    Parameters
    ----------
    plan
        The round's; one without a method changes, sends and keeps nothing.
    plugin
        (P,) the plug-in as it was received.
    vectors
        What came with it, by name.
    kept
        What the device has kept of methods, by `method.name`.
    allowed
        Names under which its owner lets vectors leave.
    samples
        Clips that it trains on.
    histogram
        (C,) of those with a label, how many have each word of the pack.

    Raises
    ------
    SettingsError
        This version does not have the method, or an option of it is not allowed.
    """

    def __init__(
        self,
        plan: Plan,
        plugin: Flat,
        vectors: Mapping[str, Flat],
        kept: Mapping[str, Flat],
        allowed: Collection[str] = (),
        samples: int = 0,
        histogram: Flat = NO_HISTOGRAM,
    ) -> None:
        self._method, self._allowed = method_of(plan), allowed
        self._received = Received(plan, plugin, vectors, samples, histogram)
        self._within = f"{plan.method}."
        mine = {name: vector for name, vector in kept.items() if name.startswith(self._within)}
        self._kept = {name.removeprefix(self._within): vector for name, vector in mine.items()}

    def before(self) -> JobChanges:
        """What changes in the training."""
        return NO_CHANGES if self._method is None else self._method.before(self._received, self._kept)

    def after(self, trained: Flat, steps: int) -> tuple[dict[str, Flat], dict[str, Flat]]:
        """What travels by name, as far as the owner allows it, and what stays by `method.name`.

        Parameters
        ----------
        trained
            (P,) the plug-in as it leaves the training.
        steps
            Local steps that it took.

        Raises
        ------
        AuricleError
            A number is not finite, or a vector is not one that the method declares: nothing of the round is kept.
        """
        if self._method is None:
            return {}, {}
        sent, kept = self._method.after(Trained(self._received, trained, steps), self._kept)
        if not all(np.isfinite(vector).all() for vector in (*sent.values(), *kept.values())):
            raise AuricleError(
                f"The method {self._method.name} gave numbers that are not finite: it needs a smaller learning rate."
            )
        declared = {vector.name: vector.allowed_by for vector in self._method.needs.up}
        if strange := sorted(set(sent) - set(declared)):
            raise AuricleError(
                f"The method {self._method.name} gave the vector {strange[0]}, which it does not declare: update it."
            )
        leaves = {name: sent[name] for name in sent if declared[name] is None or declared[name] in self._allowed}
        return leaves, {f"{self._within}{name}": vector for name, vector in kept.items()}
