"""Tables of releases and rollouts."""

from __future__ import annotations

import sqlalchemy as sa

from auricle_cloud.storage.schema.rounds import metadata

releases = sa.Table(
    "releases",
    metadata,
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("board", sa.Text, nullable=False),
    sa.Column("os", sa.Text, nullable=False),
    sa.Column("fleet", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("added", sa.Float, nullable=False),
)
"""What the signed metadata of updates offers; that metadata is the truth, and this its mirror."""

installations = sa.Table(
    "installations",
    metadata,
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("board", sa.Text, nullable=False),
    sa.Column("os", sa.Text, nullable=False),
    sa.Column("bundle", sa.Text),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("pack", sa.Text, nullable=False),
    sa.Column("confirmed", sa.Boolean, nullable=False),
    sa.Column("rollout", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
)
"""What each device said last of what it runs; it signed that."""

rollouts = sa.Table(
    "rollouts",
    metadata,
    sa.Column("rollout", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False, unique=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("label", sa.Text),
    sa.Column("stages", sa.JSON, nullable=False),
    sa.Column("stage", sa.Integer, nullable=False),
    sa.Column("errors", sa.Float, nullable=False),
    sa.Column("minimum", sa.Integer, nullable=False),
    sa.Column("soak", sa.Float, nullable=False),
    sa.Column("deadline", sa.Float, nullable=False),
    sa.Column("hearing_hours", sa.Float),
    sa.Column("hearing_passed", sa.Integer, nullable=False, server_default="-1"),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("started", sa.Float, nullable=False),
    sa.Column("settled", sa.Float),
    sa.Column("ended", sa.Float),
)
"""`stage`: index of the open one; `settled`: since when all of it is decided.

`hearing_hours`: of reports of hearing that a stage waits for; `hearing_passed`: the last stage that an operator let
pass whatever was reported.
"""

rollout_targets = sa.Table(
    "rollout_targets",
    metadata,
    sa.Column("rollout", sa.Text, primary_key=True),
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("board", sa.Text, nullable=False),
    sa.Column("os", sa.Text, nullable=False),
    sa.Column("fleet", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
)
"""What a rollout installs: one bundle for each board and system, or one pack."""

rollout_devices = sa.Table(
    "rollout_devices",
    metadata,
    sa.Column("rollout", sa.Text, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("stage", sa.Integer, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("step", sa.Text, nullable=False, server_default=""),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
    sa.Column("forgiven", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("entered", sa.Float, nullable=False),
    sa.Column("heard", sa.Float),
    sa.Column("decided", sa.Float),
    sa.Index(None, "device"),
)
"""Devices of the stages that were opened. `heard`: when the device was asked, or last came a step further."""
