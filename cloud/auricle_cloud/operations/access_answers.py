"""What operators are told about tokens."""

from __future__ import annotations

from auricle.process.times import Time
from auricle_cloud.operations.answer import Answer
from auricle_cloud.storage.access_rows import Role


class TokenRow(Answer, frozen=True, kw_only=True):
    """Who may use the API."""

    name: str
    role: Role
    created: Time
    expires: Time | None


class TokenList(Answer, frozen=True, kw_only=True):
    """All tokens; what they are is known to their holders only."""

    tokens: list[TokenRow]


class TokenMade(Answer, frozen=True, kw_only=True):
    """A new token: it is never shown again."""

    name: str
    role: Role
    token: str


class Me(Answer, frozen=True, kw_only=True):
    """Whose token this is."""

    name: str
    role: Role
