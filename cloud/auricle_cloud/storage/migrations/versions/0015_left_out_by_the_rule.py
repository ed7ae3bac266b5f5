"""Updates that the rule left out of every layer, and rounds running in which it did so."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("updates", schema=None) as batch_op:
        batch_op.add_column(sa.Column("left_out", sa.Boolean(), server_default=sa.false(), nullable=False))
    with op.batch_alter_table("devices", schema=None) as batch_op:
        batch_op.add_column(sa.Column("left_out_rounds", sa.Integer(), server_default="0", nullable=False))
