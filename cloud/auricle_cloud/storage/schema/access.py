"""Tables of who may do what: operators' tokens, claims, certificates."""

from __future__ import annotations

import sqlalchemy as sa

from auricle_cloud.storage.schema.base import metadata

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
