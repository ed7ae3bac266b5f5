"""What all tables belong to, by which they are made, migrated and saved."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"})
