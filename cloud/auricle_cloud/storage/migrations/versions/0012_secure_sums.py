"""Devices in the secure sum of a round that is under way."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "sums",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("boxes", sa.LargeBinary(), nullable=False),
        sa.Column("masks", sa.LargeBinary(), nullable=False),
        sa.Column("seat", sa.Integer(), nullable=True),
        sa.Column("near", sa.JSON(), nullable=True),
        sa.Column("shares", sa.LargeBinary(), nullable=True),
        sa.Column("part", sa.Boolean(), nullable=False),
        sa.Column("own", sa.LargeBinary(), nullable=True),
        sa.Column("lost", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("task", "round", "device", name=op.f("pk_sums")),
    )
