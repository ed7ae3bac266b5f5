"""Releases and rollouts."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "installations",
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("os", sa.Text(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=True),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("pack", sa.Text(), nullable=False),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_installations")),
    )
    op.create_table(
        "releases",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("os", sa.Text(), nullable=False),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("added", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("path", name=op.f("pk_releases")),
    )
    op.create_table(
        "rollout_devices",
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), server_default="", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("forgiven", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("entered", sa.Float(), nullable=False),
        sa.Column("heard", sa.Float(), nullable=True),
        sa.Column("decided", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("rollout", "device", name=op.f("pk_rollout_devices")),
    )
    with op.batch_alter_table("rollout_devices", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rollout_devices_device"), ["device"], unique=False)

    op.create_table(
        "rollout_targets",
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("os", sa.Text(), nullable=False),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rollout", "path", name=op.f("pk_rollout_targets")),
    )
    op.create_table(
        "rollouts",
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("stages", sa.JSON(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Float(), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False),
        sa.Column("soak", sa.Float(), nullable=False),
        sa.Column("deadline", sa.Float(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("settled", sa.Float(), nullable=True),
        sa.Column("ended", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("rollout", name=op.f("pk_rollouts")),
        sa.UniqueConstraint("number"),
    )
