"""A device's half of a round's method: what it changes in the training, what it sends beside the weights and keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import NO_CHANGES, JobChanges, Received, Trained, no_features
from auricle_learning.methods.vectors import method_of
from auricle_learning.training.activation_dropping import ActivationDropping
from auricle_learning.training.fixmatch import Unlabelled
from auricle_learning.training.logit_adjustment import LogitAdjustment
from auricle_learning.training.mechanism import DeviceRound, Mechanism
from auricle_learning.training.prior_knowledge import ClassifierTuning

MECHANISMS = Unlabelled, LogitAdjustment, ActivationDropping, ClassifierTuning
"""What a plan has devices do besides its method, in the order in which they change a pass."""
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
    head, width
        Weights of the plug-in's classifier; features that the classifier of the device's own model sees.

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
        head: int = 0,
        width: int = 0,
    ) -> None:
        self._method, self._allowed = method_of(plan), allowed
        self._received = Received(plan, plugin, vectors, samples, histogram, head, width)
        self._within = f"{plan.method}."
        mine = {name: vector for name, vector in kept.items() if name.startswith(self._within)}
        self._kept = {name.removeprefix(self._within): vector for name, vector in mine.items()}

    def before(self) -> JobChanges:
        """What changes in the training.

        Raises
        ------
        AuricleError
            A vector that the method has go out with the model is not there.
        """
        lent = () if self._method is None else (vector.name for vector in self._method.needs.down)
        if missing := [name for name in lent if name not in self._received.vectors]:
            raise AuricleError(f"The method {self._within[:-1]} needs the vector {missing[0]}, which did not come.")
        return NO_CHANGES if self._method is None else self._method.before(self._received, self._kept)

    def after(
        self,
        plugin: Flat,
        steps: int,
        personal: Flat | None = None,
        features: Callable[[], tuple[NDArray[np.float32], NDArray[np.int64]]] = no_features,
    ) -> tuple[Flat, dict[str, Flat], dict[str, Flat]]:
        """The weights (P,) that travel, what goes with them by name, as far as the owner allows it, and what stays.

        Parameters
        ----------
        plugin, steps
            (P,) the plug-in as it leaves the training, and the local steps that it took.
        personal, features
            As in `Trained`.

        Returns
        -------
        array (P,), dict, dict
            What stays is named `method.name`.

        Raises
        ------
        AuricleError
            A number is not finite, or a vector is not one that the method declares: nothing of the round is kept.
        """
        if self._method is None:
            return plugin, {}, {}
        trained = Trained(self._received, plugin, steps, personal, features)
        sent, kept = self._method.after(trained, self._kept)
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
        stays = {f"{self._within}{name}": vector for name, vector in kept.items()}
        return self._method.travels(trained), leaves, stays


def mechanisms_of(of: DeviceRound) -> tuple[Mechanism, ...]:
    """All of a round's on a device."""
    return tuple(made(of) for made in MECHANISMS)
