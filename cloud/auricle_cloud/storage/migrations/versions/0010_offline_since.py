"""Since when a device is offline; NULL while it is online, or was not heard since the coordinator started."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("devices", schema=None) as batch_op:
        batch_op.add_column(sa.Column("offline_since", sa.Float()))
