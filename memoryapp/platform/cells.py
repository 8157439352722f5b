"""The cells of this installation: how they are made, how a connection finds the tables of one, and how all are asked.

``CELLS`` says how many there are beside cell 0; 1, the usual, means that cell 0 is the only one. A new memory goes to
the next of them in turn. A connection finds the tables of the cell at hand before those that all memories share
(``engine.cells``, ``platform.sights``). Where there are several, no statement about memories is sent before one is
chosen: rows of one cell must not pass for those of all.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial, reduce, wraps
from itertools import groupby
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from uuid import UUID

import psycopg
from django.apps import AppConfig, apps
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import CASCADE, SET_NULL, Model, ProtectedError, QuerySet
from django.db.models.fields.reverse_related import ManyToOneRel
from django.db.models.signals import post_migrate, pre_delete
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.engine.cells import NUMBERS, cell, enter, made_in, within
from memoryapp.migrations._sights import sights
from memoryapp.models import ChatUser, Talk
from memoryapp.platform.database import WholeExecutor, database_outage, is_outage_of_cell
from memoryapp.platform.sights import schema, seen_schema, tables
from memoryapp.platform.statements import execute, fetched

Given = ParamSpec("Given")
Found = TypeVar("Found")
Row = TypeVar("Row", bound=Model)


# Of the shared tables those that statements of a cell read: on Citus each machine has them. In an order of their keys.
READ_BESIDE = ("chatuser", "embeddingprofile", "prompt", "erasure")
_SQL = table_beside(__file__)
_LIKE = ("options", "constraints", "indexes", "keys", "functions", "triggers")
_unreached: ContextVar[dict[int, Exception]] = ContextVar("unreached", default={})  # noqa: B039 nobody changes it


class NotMoved(Exception):
    """The memory stays where it is; the text is a sentence for people."""


def numbers() -> range:
    """The numbers of all cells."""
    return range(settings.CELLS + 1) if settings.CELLS > 1 else range(1)


def each(asked: Iterable[int] | None = None) -> Iterator[int]:
    """Enters one cell after another, for a loop; afterwards the cell is again what it was."""
    before = cell()
    try:
        for number in numbers() if asked is None else asked:
            enter(number)
            yield number
    finally:
        enter(before)


def asked(read: Callable[[], Found]) -> list[Found]:
    """What ``read`` finds in each cell. One that cannot be reached is left out and noted (``unreached``), unless none
    answers."""
    found = [rows for _cell in each() for rows in tried(read)]
    if not found:
        raise next(reversed(unreached().values()))
    return found


def tried(read: Callable[[], Found]) -> list[Found]:
    """What ``read`` finds in the cell at hand; nothing if that cannot be reached, which is noted."""
    try:
        return [read()]
    except (DatabaseError, psycopg.Error) as error:
        if settings.CELLS == 1 or not is_outage_of_cell(error):
            raise
        database_outage.report(error)
        _unreached.set({**unreached(), cell() or 0: error})
        return []


def unreached() -> dict[int, Exception]:
    """The cells that could not be asked for this answer, and why."""
    return _unreached.get()


def begin_answer() -> None:
    """For what follows no cell was out of reach yet."""
    _unreached.set({})


def everywhere(
    *, order: Callable[[Any], Any] | None = None, most: int | None = None, join: Callable[[Any, Any], Any] | None = None
) -> Callable[[Callable[Given, Found]], Callable[Given, Found]]:
    """Has a function that reads of any memories ask each cell where none is chosen, and adds up what it finds: numbers,
    also those of mappings, and rows, the ``most`` of them by falling ``order``; or joins it two by two."""

    def asking(read: Callable[Given, Found]) -> Callable[Given, Found]:
        @wraps(read)
        def reading(*args: Given.args, **named: Given.kwargs) -> Found:
            if settings.CELLS == 1 or cell() is not None:
                return read(*args, **named)
            found: Any = reduce(join or added, asked(lambda: read(*args, **named)))
            joined: Any = sorted(found, key=order, reverse=True)[:most] if order else found
            return cast(Found, joined)

        return reading

    return asking


def added(one: Any, other: Any) -> Any:
    """The sum of two numbers, of two lists, or of two mappings by key."""
    if isinstance(one, Mapping):
        both = {key: added(one[key], other[key]) for key in one.keys() & other.keys()}
        return {**one, **other, **both}
    return one + (list(other) if isinstance(one, list) else other)


def by_owner(read: Callable[[list[ChatUser]], Mapping[int, Found]], owners: Iterable[ChatUser]) -> dict[int, Found]:
    """What ``read`` finds for chat users of one cell, by their number, for those of all that can be reached."""
    found = sorted(owners, key=lambda owner: owner.cell)
    groups = [list(those) for _number, those in groupby(found, lambda owner: owner.cell)]
    cells = each([those[0].cell for those in groups])
    return {
        pk: each_found
        for those, _number in zip(groups, cells, strict=True)
        for of_cell in tried(partial(read, those))
        for pk, each_found in of_cell.items()
    }


def of_owner(work: Callable[Concatenate[ChatUser, Given], Found]) -> Callable[Concatenate[ChatUser, Given], Found]:
    """Has a function whose first argument is a chat user work in the cell of that memory."""

    @wraps(work)
    def working(owner: ChatUser, /, *args: Given.args, **named: Given.kwargs) -> Found:
        with within(owner.cell):
            return work(owner, *args, **named)

    return working


def first(rows: QuerySet[Row], address: object) -> Row | None:
    """The first of the rows in whichever cell has one, which is entered: where its ``address`` was made, or another."""
    before, made = cell(), made_in(address) if isinstance(address, int | UUID) else 0
    for number in sorted(numbers(), key=lambda number: number != made):
        enter(number)
        if (found := rows.all().first()) is not None:
            return found
    enter(before)
    return None


@transaction.atomic
def move(owner: ChatUser, number: int) -> None:
    """Moves a memory to another cell: at any moment it is whole in one of both. Who writes meanwhile is refused by the
    key to its row of talk, as by the end of the memory. Raises NotMoved."""
    if number not in numbers() or number == owner.cell:
        raise NotMoved(_("Name another of the cells %(first)s to %(last)s.") % {"first": 0, "last": numbers()[-1]})
    rows, old, new = ChatUser.objects.filter(pk=owner.pk), schema(owner.cell), schema(number)
    with within(owner.cell):
        # Waits for those who write just now.
        list(Talk.objects.select_for_update().filter(owner=owner))
        if not rows.filter(cell=owner.cell).exists():
            raise NotMoved(_("This memory is being erased, or was moved meanwhile."))
        for table in tables():
            columns = fetched(_SQL["columns"], [f"{old}.{table}"])[0][0]
            execute(
                f"INSERT INTO {new}.{table} ({columns}) SELECT {columns} FROM {old}.{table} WHERE owner_id = %s",
                [owner.pk],
            )
        rows.update(cell=number)
        for table in tables():
            execute(f"DELETE FROM {old}.{table} WHERE owner_id = %s", [owner.pk])
    owner.cell = number


def bring_up_to_date(**_signal: Any) -> None:
    """Makes the cells that the settings say and the database lacks, each whole or not at all, and has the tables of the
    others follow those of cell 0. Called when migrations have run."""
    for number in numbers()[1:]:
        if fetched("SELECT to_regnamespace(%s)", [schema(number)])[0][0]:
            with within(number):
                _migrate()
        else:
            with within(0), transaction.atomic():
                _make(number)


def _migrate() -> None:
    executor = WholeExecutor(connection)
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "memoryapp"]
    if not executor.migration_plan(targets):
        return
    # Keys are made like those of cell 0.
    keyless = {"supports_foreign_keys": False}
    before = {name: getattr(connection.features, name) for name in keyless}
    vars(connection.features).update(keyless)
    try:
        executor.migrate(targets)
    finally:
        vars(connection.features).update(before)
    there = fetched(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    )
    values = _values(cell() or 0, [name for (name,) in there if name != "django_migrations"])
    with within(0):
        written = [row[0] for part in ("keys", "numbers") for row in fetched(_SQL[part], values)]
    for statement in written:
        execute(statement)


def watch(config: AppConfig) -> None:
    """Has the cells follow migrations, and deletions of rows that all memories share."""
    post_migrate.connect(bring_up_to_date, sender=config)
    for model in apps.get_models():
        if not getattr(model, "in_cell", False) and any(_referring(model)):
            pre_delete.connect(_let_go, sender=model)


def _referring(model: type[Model]) -> Iterator[ManyToOneRel]:
    """The keys of rows in cells to this model, but for those to their chat user."""
    for relation in model._meta.get_fields(include_hidden=True):
        in_cell = getattr(relation.related_model, "in_cell", False)
        if in_cell and isinstance(relation, ManyToOneRel) and relation.field.name != "owner":
            yield relation


def _let_go(sender: type[Model], instance: Model, **_signal: Any) -> None:
    """Does in the other cells what the deletion of a row that all memories share does with those that refer to it: no
    key says it there."""
    for relation in _referring(sender) if settings.CELLS > 1 else ():
        for _cell in each():
            rows = cast(Any, relation.related_model)._base_manager.filter(**{relation.field.name: instance})
            if relation.on_delete is CASCADE:
                rows.delete()
            elif relation.on_delete is SET_NULL:
                rows.update(**{relation.field.name: None})
            elif rows.exists():
                raise ProtectedError(str(instance), {*rows[:1]})


class CellRouter:
    """Migrates in a cell the tables of memories alone."""

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        if not cell():
            return None
        if app_label != "memoryapp" or model_name is None:
            return app_label == "memoryapp"
        known = apps.all_models["memoryapp"].get(model_name)
        return bool(getattr(known, "in_cell", False)) if known else "owner" in _fields(hints.get("model"))


def _fields(model: type[Model] | None) -> set[str]:
    return {field.name for field in model._meta.local_fields} if model else set()


def _values(number: int, tables: Collection[str]) -> dict[str, Any]:
    return {"cell": schema(number), "tables": list(tables), "first": number * NUMBERS}


def _make(number: int) -> None:
    name, values = schema(number), _values(number, tables())
    execute(f"CREATE SCHEMA {name}")
    execute(f"CREATE TABLE {name}.django_migrations (LIKE django_migrations INCLUDING ALL)")
    recorded = "(app, name, applied) SELECT app, name, applied FROM django_migrations"
    execute(f"INSERT INTO {name}.django_migrations {recorded}")
    for table in tables():
        execute(f"CREATE TABLE {name}.{table} (LIKE {table} INCLUDING ALL EXCLUDING INDEXES)")
    written = {part: [row[0] for row in fetched(_SQL[part], values)] for part in _LIKE}
    execute("SELECT set_config('search_path', %s || ',' || current_setting('search_path'), true)", [name])
    for statement in (
        *(each for part in written.values() for each in part),
        *sights(apps, tables(), seen_schema(number)),
    ):
        execute(statement)
    if fetched("SELECT FROM pg_extension WHERE extname = 'citus'"):
        _distribute(name)
    for (statement,) in fetched(_SQL["numbers"], values):
        execute(statement)


def _distribute(name: str) -> None:
    """Has Citus lay the schema on one of its machines, and the shared tables that its statements read on all."""
    execute("SET LOCAL citus.enable_unsafe_triggers = on")
    # The laws read tables of the cell alone, beside which they run.
    for (law,) in fetched(_SQL["laws"], [[name, schema(0)]]):
        execute(f"ALTER FUNCTION {law} SET citus.allow_nested_distributed_execution = on")
    for table in READ_BESIDE:
        if not fetched("SELECT FROM pg_dist_partition WHERE logicalrelid = %s::regclass", [f"memoryapp_{table}"]):
            execute("SELECT create_reference_table(%s)", [f"memoryapp_{table}"])
    execute("SELECT citus_schema_distribute(%s)", [name])
