"""Tables of what is trained: tasks, devices, rounds, their updates and models."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"})
"""What all tables belong to, by which they are made, migrated and saved."""

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
    sa.Column("capabilities", sa.Text, nullable=False, server_default=""),
    sa.Column("left_out_rounds", sa.Integer, nullable=False, server_default="0"),
)
"""`standing`: pending, approved, quarantined or revoked. `harmful_count`: how often detection named it harmful.
`left_out_rounds`: of the rounds that it took part in, how many of the last, running, the rule left it out of.

`last_seen`: its last message. `offline_since` is NULL while it is online, and while nobody knows: a coordinator that
starts believes nobody to be here until it is heard.

`capabilities`: what of a plan the device can do beyond the first version, with spaces between.

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
    sa.Column("base", sa.Text),
    sa.Index(None, "device"),
)
"""A round's cohort; `state`: invited, failed or declined, with the device's reason. `base`: the model that the device
was asked to begin with, where it is its own and not the round's."""

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

sums = sa.Table(
    "sums",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("boxes", sa.LargeBinary, nullable=False),
    sa.Column("masks", sa.LargeBinary, nullable=False),
    sa.Column("seat", sa.Integer),
    sa.Column("near", sa.JSON),
    sa.Column("shares", sa.LargeBinary),
    sa.Column("part", sa.Boolean, nullable=False),
    sa.Column("own", sa.LargeBinary),
    sa.Column("lost", sa.LargeBinary),
)
"""Devices in the secure sum of a round that is under way: public keys; seat and neighbours' seats once they are drawn;
sealed shares, 84 bytes a neighbour; whether others mask with it; shares that it revealed, 33 bytes each: of the seeds
of those that came, and of the mask keys of those that did not."""

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
    sa.Column("unsupervised", sa.BigInteger),
    sa.Column("left_out", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("vectors", sa.JSON(none_as_null=True)),
    sa.Index(None, "task", "counted_in"),
)
"""Counted updates. `round` is the one the device was invited to, `counted_in` the one whose model it went into.

`unsupervised`: of the samples, those without labels; NULL where the plan did not ask for any. `left_out`: whether the
round's rule gave it the weight 0 in every layer. `vectors`: headers of what follows the weights in the body, in this
order; NULL where nothing does.
"""

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

personal_models = sa.Table(
    "personal_models",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("cluster", sa.Integer, nullable=False),
    sa.Column("blob", sa.Text, nullable=False),
)
"""The model that each device begins with after this version of the task's model, for rules that make one for each:
made in `round`, in which the device was in the group `cluster`."""
