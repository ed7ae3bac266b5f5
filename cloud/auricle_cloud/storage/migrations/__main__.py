"""`python -m auricle_cloud.storage.migrations NAME` writes the migration from the newest revision to `schema.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from auricle_cloud.storage.migrations import config, upgrade


def main() -> None:
    """Compare a migrated database with the schema and write the difference as a revision."""
    settings = config()
    head = ScriptDirectory.from_config(settings).get_current_head()
    with tempfile.TemporaryDirectory() as folder:
        engine = sa.create_engine(f"sqlite:///{Path(folder) / 'empty.db'}")
        if head is not None:
            upgrade(engine)
        with engine.connect() as connection, connection.begin():
            settings.attributes["connection"] = connection
            command.revision(settings, sys.argv[1], autogenerate=True, rev_id=f"{int(head or 0) + 1:04}")


if __name__ == "__main__":
    main()
