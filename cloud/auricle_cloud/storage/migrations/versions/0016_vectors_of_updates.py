"""What follows the weights in the body of an update."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("updates", schema=None) as batch_op:
        batch_op.add_column(sa.Column("vectors", sa.JSON(none_as_null=True)))
