"""The foreign keys as the database has them, made from the models: Django itself can declare neither an owner in a key
nor what a delete does.

Between two rows of memories the key is ``(parent, owner)``, so a row of one memory cannot refer to a row of another.
Every key does itself what the model's ``on_delete`` says, so a row that is written while its parent is deleted goes
with the parent. Keys to the chat user are left as they are: the chat user is deleted last, and only when the erasure has
counted and deleted every row.
"""

from __future__ import annotations

from typing import Any

from django.apps.registry import Apps
from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from memoryapp.engine.cells import cell

Key = models.ForeignKey[Any, Any]
# Checked when the transaction ends, as Django's are: edits, restored memories and undone changes write rows in an order
# of their own.
_KEY = """ALTER TABLE {table} {dropped} ADD CONSTRAINT {name} FOREIGN KEY ({own}) REFERENCES {parent} ({theirs})
ON DELETE {action} DEFERRABLE INITIALLY DEFERRED"""


def make_keys(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Replaces each foreign key that Django made by one of these; keys that were replaced before stay."""
    if cell():
        # The keys of a cell are made like these (``platform.cells``).
        return
    editor: Any = schema_editor
    # Keys of tables and columns of the same migration would otherwise be made after this.
    while editor.deferred_sql:
        editor.execute(editor.deferred_sql.pop(0))
    for model in apps.get_app_config("memoryapp").get_models(include_auto_created=True):
        known = editor._constraint_names(model, foreign_key=True)
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey) and field.name != "owner" and _name(field) not in known:
                _make(editor, field)


def make_plain_keys(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Replaces these foreign keys by those that Django makes, on the way back to an earlier release."""
    editor: Any = schema_editor
    for model in apps.get_app_config("memoryapp").get_models(include_auto_created=True):
        known = editor._constraint_names(model, foreign_key=True)
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey) and field.name != "owner" and _name(field) in known:
                editor.execute(f'ALTER TABLE {model._meta.db_table} DROP CONSTRAINT "{_name(field)}"')
                editor.execute(editor._create_fk_sql(model, field, "_fk_%(to_table)s_%(to_column)s"))


def action(field: Key) -> str:
    """What the database does with the row when its parent is deleted."""
    deletes = {models.CASCADE: "CASCADE", models.SET_NULL: f'SET NULL ("{field.column}")'}
    return deletes.get(field.remote_field.on_delete, "NO ACTION")


def columns(field: Key) -> dict[str, str]:
    """The columns of the key, with those that they refer to."""
    both = {"owner_id": "owner_id"} if _is_owned(field.model) and _is_owned(field.related_model) else {}
    return {field.column: field.target_field.column, **both}


def _is_owned(model: type[models.Model]) -> bool:
    return any(field.name == "owner" and not field.null for field in model._meta.local_fields)


def _name(field: Key) -> str:
    return f"{field.model._meta.db_table}_{field.column}_fk"


def _make(editor: Any, field: Key) -> None:
    parent = field.related_model._meta
    own = columns(field)
    declared = {frozenset(each.fields) for each in parent.constraints if isinstance(each, models.UniqueConstraint)}
    if len(own) > 1 and {"owner", parent.pk.name} not in declared:
        editor.execute(
            f"CREATE UNIQUE INDEX IF NOT EXISTS {parent.db_table}_of_owner"
            f" ON {parent.db_table} (owner_id, {parent.pk.column})"
        )
    djangos = editor._constraint_names(field.model, [field.column], foreign_key=True)
    editor.execute(
        _KEY.format(
            table=field.model._meta.db_table,
            dropped="".join(f'DROP CONSTRAINT "{name}",' for name in djangos),
            name=_name(field),
            own=", ".join(own),
            parent=parent.db_table,
            theirs=", ".join(own.values()),
            action=action(field),
        )
    )
