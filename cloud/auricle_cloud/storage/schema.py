"""The coordinator's tables.

A change here needs a migration: `python -m auricle_cloud.storage.migrations NAME` writes it.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"})

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text),
)
"""`epoch`: how often a coordinator has started."""

tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("pack", sa.Text, nullable=False),
    sa.Column("current", sa.Integer, nullable=False),
)
"""What is trained, and which version of its model is current."""

devices = sa.Table(
    "devices",
    metadata,
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("public_key", sa.LargeBinary, nullable=False),
    sa.Column("boot", sa.Text, nullable=False),
    sa.Column("online", sa.Boolean, nullable=False),
    sa.Column("pack", sa.Text, nullable=False),
    sa.Column("architecture", sa.Text, nullable=False),
    sa.Column("samples", sa.BigInteger, nullable=False),
    sa.Column("first_seen", sa.Float, nullable=False),
    sa.Column("last_seen", sa.Float, nullable=False),
    sa.Column("agent", sa.Text, nullable=False, server_default=""),
    sa.Column("standing", sa.Text, nullable=False, server_default="approved"),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("label", sa.Text, nullable=False, server_default=""),
    sa.Column("gate", sa.Text, nullable=False, server_default="train"),
    sa.Column("gate_reason", sa.Text, nullable=False, server_default=""),
    sa.Column("selected", sa.Integer, nullable=False, server_default="0"),
    sa.Column("harmful_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("sensitivity", sa.Integer, nullable=False, server_default="0"),
    sa.Column("sensitivity_now", sa.Integer),
    sa.Column("offline_since", sa.Float),
)
"""`standing`: pending, approved, quarantined or revoked. `harmful_count`: how often detection named it harmful.

`last_seen`: its last message. `offline_since` is NULL while it is online, and while nobody knows: a coordinator that
starts believes nobody to be here until it is heard.

`sensitivity`: what operators want; `sensitivity_now`: what the device says is in effect, NULL where it takes none.
"""

rounds = sa.Table(
    "rounds",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False, server_default="sync"),
    sa.Column("asked_by", sa.Text, nullable=False, server_default=""),
    sa.Column("planned", sa.Float, nullable=False, server_default="0"),
    sa.Column("opened", sa.Float),
    sa.Column("closed", sa.Float),
    sa.Column("base_version", sa.Integer),
    sa.Column("base", sa.Text),
    sa.Column("plan", sa.LargeBinary),
    sa.Column("detection", sa.JSON),
    sa.Column("report", sa.JSON),
    sa.Column("request", sa.Text),
)
"""One row a round; `request` is what an operator asked of a round under way."""

invitations = sa.Table(
    "invitations",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text),
    sa.Column("state", sa.Text, nullable=False, server_default="invited"),
    sa.Column("invited", sa.Float, nullable=False),
    sa.Index(None, "device"),
)
"""A round's cohort; `state`: invited, failed or declined, with the device's reason."""

losses = sa.Table(
    "losses",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("base", sa.Text, nullable=False),
    sa.Column("loss", sa.Float),
    sa.Column("samples", sa.BigInteger, nullable=False),
    sa.Column("received", sa.Float, nullable=False),
)
"""Inference losses of the two-phase FedVSA round, before training."""

updates = sa.Table(
    "updates",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("counted_in", sa.Integer, nullable=False, server_default="0"),
    sa.Column("staleness", sa.Integer, nullable=False, server_default="0"),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("codec", sa.Text, nullable=False),
    sa.Column("samples", sa.BigInteger, nullable=False),
    sa.Column("loss", sa.Float),
    sa.Column("steps", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("personal_accuracy", sa.Float),
    sa.Column("plugin_accuracy", sa.Float),
    sa.Column("held_out", sa.BigInteger, nullable=False),
    sa.Column("received", sa.Float, nullable=False),
    sa.Index(None, "task", "counted_in"),
)
"""Counted updates. `round` is the one the device was invited to, `counted_in` the one whose model it went into."""

models = sa.Table(
    "models",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("blob", sa.Text, nullable=False),
    sa.Column("optimizer", sa.Text),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("parent", sa.Integer),
    sa.Column("origin", sa.Text, nullable=False, server_default="round"),
    sa.Column("round", sa.Integer),
    sa.Column("accuracy", sa.Float),
    sa.Column("loss", sa.Float),
)
"""`origin`: first, round, or repair; `accuracy` and `loss` on the operator's validation set where there is one."""

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
