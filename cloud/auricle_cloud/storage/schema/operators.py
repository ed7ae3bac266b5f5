"""Tables for operators: tokens, claims, certificates, events, refusals, hearing, and what is still to be published."""

from __future__ import annotations

import sqlalchemy as sa

from auricle_cloud.storage.schema.rounds import metadata

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("expires", sa.Float),
)
"""API tokens by their SHA-256; `role`: viewer, operator or admin."""

claims = sa.Table(
    "claims",
    metadata,
    sa.Column("hash", sa.LargeBinary, primary_key=True),
    sa.Column("device", sa.Text, nullable=False, unique=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
    sa.Column("used", sa.Float),
    sa.Column("key", sa.Text),
    sa.Column("replaces", sa.Boolean, nullable=False, server_default=sa.false()),
)
"""The last claim token of each device by its SHA-256; `key`: hash of the public key that used it.

`replaces`: whoever claims it takes the place of the board that has the name.
"""

certificates = sa.Table(
    "certificates",
    metadata,
    sa.Column("serial", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("chain", sa.Text, nullable=False),
    sa.Column("issued", sa.Float, nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
    sa.Column("renew_after", sa.Float, nullable=False),
    sa.Column("revoked", sa.Float),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Index(None, "name"),
)
"""Every certificate that was issued; `kind`: device, user or server."""
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("content", sa.JSON, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
)
"""What is still to be published; publishing again is harmless."""

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("device", sa.Text, nullable=False, server_default=""),
    sa.Column("task", sa.Text, nullable=False, server_default=""),
    sa.Column("round", sa.Integer),
    sa.Column("who", sa.Text, nullable=False, server_default=""),
    sa.Column("detail", sa.Text, nullable=False, server_default=""),
    sa.Index(None, "device", "id"),
    sa.Index(None, "kind", "id"),
)
"""What an operator may want to know later: standings, verdicts, alarms, promotions, security events."""

refusals = sa.Table(
    "refusals",
    metadata,
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("code", sa.Text, primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("last", sa.Float, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
)
"""Refused frames by device and reason: one row each, however many come."""

hearing = sa.Table(
    "hearing",
    metadata,
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("period", sa.Integer, primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("pack", sa.Text, nullable=False),
    sa.Column("base", sa.Text),
    sa.Column("span", sa.Integer, nullable=False),
    sa.Column("heard", sa.Integer, nullable=False),
    sa.Column("detections", sa.Integer, nullable=False),
    sa.Column("denied", sa.Integer, nullable=False),
    sa.Column("missed", sa.Integer, nullable=False),
    sa.Column("level", sa.Integer),
    sa.Column("noise", sa.Integer),
    sa.Column("full_scale", sa.Text, nullable=False),
    sa.Column("offset", sa.Text),
    sa.Column("each", sa.JSON, nullable=False),
    sa.Index(None, "at"),
)
"""What devices report of how well they hear, by their own numbers; `at`: when it came here."""

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("task", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("idle", sa.Integer, nullable=False),
    sa.Column("rounds", sa.Integer, nullable=False),
    sa.Column("last", sa.Float, nullable=False),
)
"""`at`: `HH:MM` every day, or `always`; a round starts when so many devices are idle."""
