"""Standing, detection, outbox, events."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    cohorts = op.get_bind().execute(sa.text("SELECT task, round, cohort, opened FROM rounds")).all()
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), server_default="", nullable=False),
        sa.Column("task", sa.Text(), server_default="", nullable=False),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("who", sa.Text(), server_default="", nullable=False),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_events_device_id"), ["device", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_events_kind_id"), ["kind", "id"], unique=False)

    op.create_table(
        "invitations",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default="invited", nullable=False),
        sa.Column("invited", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("task", "round", "device", name=op.f("pk_invitations")),
    )
    with op.batch_alter_table("invitations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_invitations_device"), ["device"], unique=False)

    op.create_table(
        "losses",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("loss", sa.Float(), nullable=True),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("task", "round", "device", name=op.f("pk_losses")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_table(
        "refusals",
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.Float(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("device", "code", name=op.f("pk_refusals")),
    )
    op.create_table(
        "schedules",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("idle", sa.Integer(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("last", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_schedules")),
    )
    op.create_table(
        "tasks",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("pack", sa.Text(), nullable=False),
        sa.Column("current", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_tasks")),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("expires", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash"),
    )
    with op.batch_alter_table("devices", schema=None) as batch_op:
        batch_op.add_column(sa.Column("agent", sa.Text(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("standing", sa.Text(), server_default="approved", nullable=False))
        batch_op.add_column(sa.Column("reason", sa.Text(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("label", sa.Text(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("gate", sa.Text(), server_default="train", nullable=False))
        batch_op.add_column(sa.Column("gate_reason", sa.Text(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("selected", sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("verdicts", sa.Integer(), server_default="0", nullable=False))
        batch_op.alter_column("samples", existing_type=sa.INTEGER(), type_=sa.BigInteger(), existing_nullable=False)

    with op.batch_alter_table("models", schema=None) as batch_op:
        batch_op.add_column(sa.Column("parent", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("origin", sa.Text(), server_default="round", nullable=False))
        batch_op.add_column(sa.Column("round", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("accuracy", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("loss", sa.Float(), nullable=True))

    with op.batch_alter_table("rounds", schema=None) as batch_op:
        batch_op.add_column(sa.Column("mode", sa.Text(), server_default="sync", nullable=False))
        batch_op.add_column(sa.Column("asked_by", sa.Text(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("planned", sa.Float(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("base_version", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("detection", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("wish", sa.Text(), nullable=True))
        batch_op.alter_column("opened", existing_type=sa.FLOAT(), nullable=True)
        batch_op.alter_column("base", existing_type=sa.TEXT(), nullable=True)
        batch_op.alter_column("plan", existing_type=sa.BLOB(), nullable=True)
        batch_op.alter_column(
            "report", existing_type=sa.TEXT(), type_=sa.JSON(), existing_nullable=True, postgresql_using="report::json"
        )
        batch_op.drop_column("cohort")

    with op.batch_alter_table("updates", schema=None) as batch_op:
        batch_op.add_column(sa.Column("counted_in", sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("staleness", sa.Integer(), server_default="0", nullable=False))
        batch_op.alter_column("samples", existing_type=sa.INTEGER(), type_=sa.BigInteger(), existing_nullable=False)
        batch_op.alter_column("steps", existing_type=sa.INTEGER(), type_=sa.BigInteger(), existing_nullable=False)
        batch_op.alter_column("held_out", existing_type=sa.INTEGER(), type_=sa.BigInteger(), existing_nullable=False)
        batch_op.create_index(batch_op.f("ix_updates_task_counted_in"), ["task", "counted_in"], unique=False)

    invited = [
        {"task": task, "round": number, "device": device, "invited": opened}
        for task, number, cohort, opened in cohorts
        for device in json.loads(cohort)
    ]
    if invited:
        columns: list[sa.ColumnClause[object]] = [sa.column(name) for name in ("task", "round", "device", "invited")]
        op.bulk_insert(sa.table("invitations", *columns), invited)
    for statement in (
        "UPDATE updates SET counted_in = round",
        "UPDATE models SET round = version, parent = version - 1 WHERE version > 0",
        "UPDATE models SET origin = 'first' WHERE version = 0",
        "UPDATE rounds SET planned = opened",
    ):
        op.execute(statement)
