"""Reports of hearing."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "hearing",
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("pack", sa.Text(), nullable=False),
        sa.Column("base", sa.Text(), nullable=True),
        sa.Column("span", sa.Integer(), nullable=False),
        sa.Column("heard", sa.Integer(), nullable=False),
        sa.Column("detections", sa.Integer(), nullable=False),
        sa.Column("denied", sa.Integer(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=True),
        sa.Column("noise", sa.Integer(), nullable=True),
        sa.Column("full_scale", sa.Text(), nullable=False),
        sa.Column("offset", sa.Text(), nullable=True),
        sa.Column("each", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("device", "period", name=op.f("pk_hearing")),
    )
    with op.batch_alter_table("hearing", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_hearing_at"), ["at"], unique=False)
