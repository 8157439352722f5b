"""A migration is made and recorded in one transaction, so that a killed process leaves both or neither.

Django records one with deferred statements, such as those of foreign keys, after its transaction. A process that is
killed in between leaves tables that the next start makes again, and fails.
"""

from __future__ import annotations

from contextlib import nullcontext

from django.core.management.commands import migrate
from django.db import transaction
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ProjectState


class _Executor(MigrationExecutor):
    def apply_migration(
        self, state: ProjectState, migration: Migration, fake: bool = False, fake_initial: bool = False
    ) -> ProjectState:
        with transaction.atomic(self.connection.alias) if migration.atomic else nullcontext():
            return super().apply_migration(state, migration, fake, fake_initial)


def use() -> None:
    """Has the command ``migrate`` of this process do so."""
    migrate.MigrationExecutor = _Executor  # type: ignore[attr-defined]
