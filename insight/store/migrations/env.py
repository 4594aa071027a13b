"""Alembic runs this file to apply migrations, in the transaction of insight.store.database."""

from alembic import context

from insight.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
