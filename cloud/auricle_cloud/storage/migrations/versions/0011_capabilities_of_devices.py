"""What of a plan a device can do beyond the first version."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("devices", schema=None) as batch_op:
        batch_op.add_column(sa.Column("capabilities", sa.Text(), server_default="", nullable=False))
