"""How many samples of an update had no label."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("updates", schema=None) as batch_op:
        batch_op.add_column(sa.Column("unsupervised", sa.BigInteger()))
