"""The vectors that travel in a round, as its plan declares them, and whether a device's owner lets them leave."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from auricle.packs.graph_interface import maps_sent
from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import gradients_size, require_gradients
from auricle.wire.tensors import Flat
from auricle.wire.vectors import Declared
from auricle_learning.aggregation import extras
from auricle_learning.methods.method import Method, Vector

if TYPE_CHECKING:
    from auricle.packs.pack import Pack


def _maps(pack: Pack, plan: Plan) -> int:
    return maps_sent(plan, pack.manifest.plugin, pack.manifest.graphs)


def _gradients(pack: Pack, plan: Plan) -> int:
    return gradients_size(*pack.plugin_table.specs[-2].shape)


def _gradients_fit(pack: Pack, vector: Flat, largest: float) -> None:
    require_gradients(vector, len(pack.labels), largest)


MAPS = Vector(extras.MAPS, _maps, allowed_by="maps")
"""The plug-in's last activation maps (MuPFL, eq. 6), where the plan asks for them."""
GRADIENTS = Vector(extras.GRADIENTS, _gradients, required=False, allowed_by="gradients", check=_gradients_fit)
"""The classifier's gradients by class (MuPFL, eq. 16), where the round lends what they are for."""


def method_of(plan: Plan) -> Method | None:
    """The method whose half devices run in a round of this plan; None where they do what the plan says and no more.

    Raises
    ------
    SettingsError
        This version does not have it, or an option of it is not allowed.
    """
    from auricle_learning.methods.registry import get_method  # with all rules: a device needs them in a round

    return get_method(plan.method, **plan.options) if plan.method else None


def travelling(plan: Plan, *, gradients: bool) -> tuple[Vector, ...]:
    """The vectors that may come with the updates of a round.

    Parameters
    ----------
    gradients
        Whether the round lends what classifiers are tuned by.
    """
    method = method_of(plan)
    own = () if method is None else method.needs.up
    return (*own, *((MAPS,) if plan.bavd and plan.bavd.maps else ()), *((GRADIENTS,) if gradients else ()))


def declared(plan: Plan, pack: Pack, *, gradients: bool) -> tuple[Declared, ...]:
    """What updates of a round are held against; none in a round with noise or a secure sum, which cover weights alone.

    Raises
    ------
    SettingsError
        As of `method_of`.
    """
    if plan.noise or plan.secure_sum:
        return ()
    each = (vector.declared(pack, plan) for vector in travelling(plan, gradients=gradients))
    return tuple(vector for vector in each if vector.size)


def lent_sizes(plan: Plan, pack: Pack) -> dict[str, int]:
    """Numbers of the vectors that a plan's method has go out with the model, by name.

    Raises
    ------
    SettingsError
        As of `method_of`.
    """
    method = method_of(plan)
    return {} if method is None else {vector.name: vector.numbers(pack, plan) for vector in method.needs.down}


def private_vectors(method: Method) -> tuple[str, ...]:
    """Names under which an owner has to let the vectors of a method leave, for all of them to do so."""
    return tuple(vector.allowed_by for vector in method.needs.up if vector.allowed_by is not None)


def withheld(plan: Plan, allowed: Collection[str]) -> str | None:
    """The name of the first vector that a round requires and its owner does not let leave the device; None without one.

    Parameters
    ----------
    allowed
        Names that the owner has allowed.
    """
    required = (vector for vector in travelling(plan, gradients=False) if vector.required)
    return next((v.allowed_by for v in required if v.allowed_by is not None and v.allowed_by not in allowed), None)
