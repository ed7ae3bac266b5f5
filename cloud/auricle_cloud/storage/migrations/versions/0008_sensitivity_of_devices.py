"""Sensitivity of devices."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("devices", schema=None) as batch_op:
        batch_op.add_column(sa.Column("sensitivity", sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("sensitivity_now", sa.Integer(), nullable=True))
