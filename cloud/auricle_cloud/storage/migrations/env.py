"""How alembic runs the migrations: on the connection that the caller has open."""

from alembic import context

from auricle_cloud.storage.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
