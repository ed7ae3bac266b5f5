"""Models that devices begin their next round with, for rules that make one for each."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "personal_models",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("blob", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task", "version", "device", name=op.f("pk_personal_models")),
    )
    op.add_column("invitations", sa.Column("base", sa.Text(), nullable=True))
