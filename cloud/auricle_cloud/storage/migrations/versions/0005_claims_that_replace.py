"""Claims that replace a board."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("claims", schema=None) as batch_op:
        batch_op.add_column(sa.Column("replaces", sa.Boolean(), server_default=sa.false(), nullable=False))
