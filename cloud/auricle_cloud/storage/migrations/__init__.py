"""Migrations of the coordinator's database, applied at every start."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

FIRST = "0001"
"""The revision of databases that were made before there were migrations."""


def config() -> Config:
    """Where the migrations lie."""
    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    return settings


def upgrade(engine: sa.Engine) -> None:
    """Bring a database to the newest schema; does nothing when it is there."""
    settings = config()
    newest = ScriptDirectory.from_config(settings).get_current_head()
    with engine.connect() as connection:
        if MigrationContext.configure(connection).get_current_revision() == newest:
            return
    with engine.connect().execution_options(auricle_writes=True) as connection, connection.begin():
        settings.attributes["connection"] = connection
        known = sa.inspect(connection).get_table_names()
        if "devices" in known and "alembic_version" not in known:
            command.stamp(settings, FIRST)
        command.upgrade(settings, "head")
