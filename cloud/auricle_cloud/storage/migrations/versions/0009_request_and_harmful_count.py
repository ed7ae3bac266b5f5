"""An operator's request, and how often a device was named harmful, by these names."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("rounds", schema=None) as batch_op:
        batch_op.alter_column("wish", new_column_name="request")
    with op.batch_alter_table("devices", schema=None) as batch_op:
        batch_op.alter_column("verdicts", new_column_name="harmful_count")
