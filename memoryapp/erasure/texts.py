"""What a memory contains as text that people and agents wrote, and what is rightly elsewhere.

Texts are looked for by runs of words. Names, usernames and other short texts have only a few words, which others may
have as well: of these, what remains anywhere in the database or belongs to the program itself is left out.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

from memoryapp.engine.beside import table_beside
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.text.lexical import fold
from memoryapp.engine.text.scripts import is_spaced
from memoryapp.erasure.conversations import texts_of
from memoryapp.erasure.marks import without_shared, words
from memoryapp.models import (
    Artifact,
    ChatUser,
    Erasure,
    Evaluation,
    Fact,
    KnowledgeEdit,
    Message,
    Person,
    Run,
    StoredItem,
    Topic,
    TopicEdit,
    UnmaskedText,
)
from memoryapp.models.user import Owned
from memoryapp.platform import cells
from memoryapp.platform.embedded import paths
from memoryapp.platform.statements import fetched

_PACKAGES, _TEMPLATES = paths.CHECKOUT, paths.files_of_pages("templates")
_TEXTS: Mapping[type[Owned], tuple[str, ...]] = {
    Message: ("text", "metadata"),
    UnmaskedText: ("text", "metadata"),
    Topic: ("summary",),
    Fact: ("content", "relation", "category"),
    Person: ("bio",),
    Artifact: ("text", "summary", "rag_hints"),
    KnowledgeEdit: ("before", "after", "reason"),
    TopicEdit: ("reason",),
    StoredItem: ("value", "text"),
    Run: ("query", "messages"),
}
_NAMES: Mapping[type[Owned], tuple[str, ...]] = {
    Message: ("author", "forwarded_from"),
    Person: ("display_name", "aliases", "username"),
}
# What files are about is often an ordinary word.
_LABELS = ("name", "keywords", "entities")
# An erasure redacts these, so what they contain is not held rightly.
_REDACTED = (Erasure, Evaluation, LogEntry)
_AT_ONCE = 1_000
_RUNS_AT_ONCE = 50
_NEAR = table_beside(__file__)["near"]
_LOWER = re.compile(r"\b[a-z]+\b")


def texts(owner: ChatUser) -> Iterator[str]:
    """The texts of a memory, apart from its names."""
    yield owner.profile
    for model, columns in _TEXTS.items():
        yield from _values(model._base_manager.filter(owner=owner), columns)


def names(owner: ChatUser) -> Iterator[str]:
    """The names in a memory: its own, those of people, usernames and authors."""
    yield from (owner.name, owner.display_name)
    for model, columns in _NAMES.items():
        yield from _values(model._base_manager.filter(owner=owner), columns)


def labels(owner: ChatUser) -> Iterator[str]:
    """The names of files, and what files are about."""
    yield from _values(Artifact.objects.filter(owner=owner), _LABELS)


def remaining_texts() -> Iterator[str]:
    """The texts and names of all memories."""
    for model in _TEXTS:
        columns = (*_TEXTS[model], *_NAMES.get(model, ()), *(_LABELS if model is Artifact else ()))
        yield from _values_of_all(model, columns)
    yield from _values(ChatUser.objects.all(), ("name", "display_name", "profile"))


def unshared(owner: ChatUser, runs: set[str]) -> set[str]:
    """Returns the runs of words that no message, summary or fact of another memory contains. The index of words names
    the few rows that have all words of a run, so that no other row of others is read."""
    left: set[str] = set()
    ordered = sorted(runs)
    for first in range(0, len(ordered), _RUNS_AT_ONCE):
        batch = ordered[first : first + _RUNS_AT_ONCE]
        texts = [run if all(map(is_spaced, run.split(" "))) else run.replace(" ", "") for run in batch]
        values = {"texts": [fold(text) for text in texts], "owner": owner.pk}
        near = [text for _cell in cells.each() for (text,) in fetched(_NEAR, values)]
        left |= without_shared(set(batch), near)
    return left


def everything_remaining() -> Iterator[str]:
    """Every text in the database, with the names of JSON's fields; and the words of the program that are in its logs,
    in runs, and in the files of the data folder."""
    yield from _own_words()
    for model in apps.get_models():
        if not issubclass(model, AbstractBaseSession) and model not in _REDACTED:
            yield from _values_of_all(model, tuple(texts_of(model)), with_fields=True)


def _values_of_all(model: type[models.Model], columns: tuple[str, ...], *, with_fields: bool = False) -> Iterator[str]:
    """Of memories in whatever cell. Between two texts a cell is entered, so nothing else may be asked meanwhile."""
    for _cell in cells.each() if getattr(model, "in_cell", False) else (0,):
        yield from _values(model._base_manager.all(), columns, with_fields=with_fields)


def _values(rows: models.QuerySet[Any], columns: tuple[str, ...], *, with_fields: bool = False) -> Iterator[str]:
    if columns:
        for row in rows.order_by().values_list(*columns).iterator(_AT_ONCE):
            yield from strings(row, with_fields=with_fields)


def strings(value: Any, *, with_fields: bool = False) -> Iterator[str]:
    """Every text in a JSON value; the names of its fields only if asked for."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value if with_fields else ()
        yield from strings(list(value.values()), with_fields=with_fields)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item, with_fields=with_fields)


@cache
def _own_words() -> tuple[str, ...]:
    tables = (
        f"{model._meta.db_table} {column.column}"
        for model in apps.get_models()
        for column in model._meta.concrete_fields
    )
    identifiers = (*tables, *logging.getLevelNamesMapping(), *logging.root.manager.loggerDict, str(settings.DATA_DIR))
    prompts = (part for text in built_in().values() for part in (text.system, text.user))
    return _words_of((*identifiers, *_content(paths.files_of_pages("static")), *prompts))


@cache
def ordinary_words() -> tuple[str, ...]:
    """The words that this program's code writes in lower case."""
    found = (*_content(_PACKAGES / "memoryapp"), *_content(_PACKAGES / "rerankui"), *_content(_TEMPLATES))
    return _words_of(" ".join(_LOWER.findall(text)) for text in found)


def _content(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".js", ".css", ".py", ".html"):
            yield path.read_text(encoding="utf-8", errors="replace")


def _words_of(found: Iterable[str]) -> tuple[str, ...]:
    """The words of the texts, and the parts of their identifiers."""
    whole = {word for text in found for word in words(text)}
    return tuple(sorted(whole | {part for word in whole for part in word.split("_") if part}))
