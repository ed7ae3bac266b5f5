"""Rollouts that are held on hearing."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("rollouts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("hearing_hours", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("hearing_passed", sa.Integer(), server_default="-1", nullable=False))
