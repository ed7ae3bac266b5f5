"""What is declared of each term of the gradient: its inputs, which setting of a plan each is, and what fills them."""

from __future__ import annotations

from typing import get_args

from msgspec.structs import fields

from auricle.wire.gradient_terms import TERMS, Fill, Term
from auricle.wire.plan import Plan


def test_every_term_is_declared_by_its_name_in_the_order_in_which_it_is_applied() -> None:
    assert tuple(TERMS) == get_args(Term)


def test_a_scalar_is_a_setting_of_a_plan_that_asks_for_nothing_by_default() -> None:
    defaults = {field.name: field.default for field in fields(Plan)}
    assert {defaults[setting] for term in TERMS.values() for setting in term.scalars.values()} == {0.0}
    assert TERMS["drift"].scalars == {"mu": "mu"}
    assert TERMS["freeze"].scalars == {}


def test_a_vector_that_is_not_given_changes_nothing() -> None:
    """The pull is towards where training starts from, nothing is added, and nothing is held still."""
    assert {fill for term in TERMS.values() for fill in term.vectors.values()} <= set(get_args(Fill))
    assert TERMS["drift"].vectors == {"anchor": "received", "linear": "zeros"}
    assert TERMS["freeze"].vectors == {"keep": "ones"}
