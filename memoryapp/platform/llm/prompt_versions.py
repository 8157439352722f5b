"""Versions of prompts as people edit them; at most one for each name and language is in force.

The engine's own texts are version 0 and always available. A stored text never changes, so the label of a run
(``rerank-en-3``) always names what was sent to its model. A run reads the version in force when it begins, so a change
applies from the next run on, in every process."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from memoryapp.engine.beside import table_beside
from memoryapp.engine.events import Event
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompt_registry import built_in, prompts
from memoryapp.engine.prompts.prompt import INSTRUCTION_LANGUAGES, Language, PromptBook, PromptFault, PromptText, faults
from memoryapp.models import AgentCall, ChatUser, Prompt, Run, RunEvent
from memoryapp.platform import cells, database

LOOKED_AT = 500
# The texts in force of the ``prompts`` with these names.
_SQL = table_beside(__file__)
IN_FORCE: str = _SQL["in_force"]

Key = tuple[str, str]

logger = logging.getLogger(__name__)


class PromptError(Exception):
    """A text that was not saved, or not put in force."""


class Faulty(PromptError):
    """This text cannot be sent to a model; ``faults`` says why."""

    def __init__(self, found: Sequence[PromptFault]) -> None:
        super().__init__("; ".join(map(str, found)))
        self.faults = tuple(found)


class StaleVersion(PromptError):
    """Somebody saved ``newest`` while the text was being edited."""

    def __init__(self, newest: Prompt) -> None:
        super().__init__(str(newest))
        self.newest = newest


class Duplicate(PromptError):
    """The text is already saved, word for word, as ``version``."""

    def __init__(self, version: int) -> None:
        super().__init__(str(version))
        self.version = version


@dataclass(frozen=True, slots=True)
class Since:
    """When ``version`` was put in force, and by whom; 0 means the return to the built-in text."""

    version: int
    at: datetime
    by: str


def text_of(prompt: Prompt) -> PromptText:
    """Returns the row as a prompt of the engine."""
    return _text(prompt.name, prompt.language, prompt.version, prompt.system, prompt.user)


def _text(name: str, language: str, version: int, system: str, user: str) -> PromptText:
    """From a row of a registered prompt."""
    return PromptText(prompts()[name], cast("Language", language), version, system, user)


def book_with(base: PromptBook, prompt: Prompt) -> PromptBook:
    """``base`` with ``prompt`` in place of the one with its name and language, whether it is in force or not."""
    return {**base, (prompt.name, prompt.language): text_of(prompt)}


def book(found: Iterable[Mapping[str, Any]] | None) -> PromptBook:
    """Returns the prompts that runs use now, made of the rows of ``IN_FORCE``. A stored text that this version of the
    program cannot fill would end every run, so it is left out."""
    return _book([_text(**row) for row in found or ()])


def in_force_now() -> PromptBook:
    """``book`` for code that uses the ORM."""
    return _book([text_of(prompt) for prompt in Prompt.objects.filter(in_force=True, name__in=list(prompts()))])


def _book(texts: Sequence[PromptText]) -> PromptBook:
    usable: dict[Key, PromptText] = {(text.name, text.language): text for text in texts if not _is_unusable(text)}
    return {**built_in(), **usable}


def _is_unusable(text: PromptText) -> bool:
    found = faults(text)
    if found:
        logger.warning(
            "%s is in force but cannot be used; the built-in text is used: %s", text.label, "; ".join(map(str, found))
        )
    return bool(found)


def history(key: Key) -> QuerySet[Prompt]:
    """Returns the versions that people saved, newest first."""
    name, language = key
    return Prompt.objects.filter(name=name, language=language).order_by("-version")


def newest_versions() -> QuerySet[Prompt]:
    """Returns the newest version for each name and language that people edited."""
    return Prompt.objects.order_by("name", "language", "-version").distinct("name", "language")


def text_at(key: Key, version: int) -> PromptText | None:
    """Returns the text of a version (0 is the built-in one); None when there is no such version."""
    if not version:
        return built_in().get(key)
    prompt = history(key).filter(version=version).first()
    return text_of(prompt) if prompt else None


def save(text: PromptText, *, by: str, note: str = "", seen: int) -> Prompt:
    """Saves ``text`` as the next version, not in force. ``text.version`` is ignored. ``seen`` is the newest version
    that the author knew of. Raises Faulty; StaleVersion when there is a newer one; Duplicate when the text is one of
    the versions. In these cases nothing is written."""
    if found := faults(text):
        raise Faulty(found)
    with transaction.atomic():
        newest = _last((text.name, text.language))
        if newest and newest.version > seen:
            raise StaleVersion(newest)
        same = _same(text)
        if same is not None:
            raise Duplicate(same.version)
        return _add(text, by, note)


def draft(text: PromptText, *, by: str, note: str = "") -> Prompt:
    """Returns a version with this text to try on a run: an existing one, or a new one. Raises Faulty."""
    if found := faults(text):
        raise Faulty(found)
    with transaction.atomic():
        _last((text.name, text.language))
        same = history((text.name, text.language)).filter(system=text.system, user=text.user).first()
        return same or _add(text, by, note)


def put_in_force(key: Key, version: int, *, by: str) -> None:
    """Puts this version in force from the next run on; 0 returns to the built-in text. Does nothing when it is in force
    already. Raises Faulty for a text that cannot be used, and Prompt.DoesNotExist for an unknown version."""
    with transaction.atomic():
        _last(key)
        if version and (found := faults(text_of(history(key).get(version=version)))):
            raise Faulty(found)
        now, others = timezone.now(), history(key).filter(in_force=True).exclude(version=version)
        others.update(in_force=False, replaced_at=now, replaced_by=by)
        history(key).filter(version=version, in_force=False).update(
            in_force=True, forced_at=now, forced_by=by, replaced_at=None, replaced_by=""
        )
    logger.info("%s-%s-%d is in force now, by %s", *key, version, by)


def in_force_since() -> Mapping[Key, Since]:
    """Since when each text is in force, and by whom, if a person put it there; one query."""
    rows = Prompt.objects.filter(Q(in_force=True) | Q(replaced_at__isnull=False)).defer("system", "user")
    last = rows.order_by("name", "language", "-in_force", "-replaced_at").distinct("name", "language")
    return {(row.name, row.language): since for row in last if (since := _since(row))}


def _since(row: Prompt) -> Since | None:
    """None when it was put in force before that was recorded."""
    if row.in_force:
        return Since(row.version, row.forced_at, row.forced_by) if row.forced_at else None
    return Since(0, row.replaced_at, row.replaced_by) if row.replaced_at else None


def _last(key: Key) -> Prompt | None:
    """Returns the newest version; until this transaction ends, no other one can add a version."""
    database.acquire_until_commit("prompt {}-{}".format(*key), 0)
    return history(key).first()


def _same(text: PromptText) -> PromptText | None:
    original = text.prompt.built_in(text.language)
    if replace(text, version=0) == original:
        return original
    saved = history((text.name, text.language)).filter(system=text.system, user=text.user).first()
    return text_of(saved) if saved else None


def _add(text: PromptText, by: str, note: str) -> Prompt:
    newest = history((text.name, text.language)).first()
    return Prompt.objects.create(
        name=text.name,
        language=text.language,
        version=newest.version + 1 if newest else 1,
        system=text.system,
        user=text.user,
        note=note,
        made_by=by,
    )


@cells.everywhere()
def used_lately(owners: QuerySet[ChatUser]) -> Mapping[str, int]:
    """How many of the last ``LOOKED_AT`` runs, or agents' calls, of these chat users used each text, by label."""
    recent = Run.objects.filter(owner__in=owners).order_by("-created_at", "-id")[:LOOKED_AT]
    used = dict(recent.values_list("pk", "prompt_version"))
    enriched = RunEvent.objects.filter(run__in=used, kind="query_enriched")
    labels = enriched.values_list(KeyTextTransform("prompt_version", "payload"), flat=True)
    asked = AgentCall.objects.filter(owner__in=owners).order_by("-at")[:LOOKED_AT]
    by_agents = asked.values_list("prompt_version", flat=True)
    return Counter(label for label in (*used.values(), *labels, *by_agents) if label)


@dataclass(frozen=True, slots=True)
class UsedPrompt:
    """A prompt that a past run sent to a model, with the variables that filled it. ``messages`` are the rendered texts
    by role; empty when the run did not store them."""

    key: Key
    version: int
    variables: Mapping[str, str]
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``rerank-en-3``."""
        return "{}-{}-{}".format(*self.key, self.version)


def prompts_used(events: Sequence[Event]) -> dict[str, UsedPrompt]:
    """The prompts, by name, whose text can be replaced in a fork of the run with these events. Empty while the run goes
    on. A prompt is left out when its variables are unknown: the model was not asked, or the run is older than the
    versions of prompts."""
    outline = Outline.of(events)
    if outline.finished is None:
        return {}
    query, turn = outline.enriched, outline.turn
    used = []
    if turn and outline.found:
        messages = {message.role: message.content for message in turn.prompt}
        used.append(_used(turn.prompt_version, turn.variables, messages))
    if query:
        used.append(_used(query.prompt_version, query.variables, {}))
    return {each.key[0]: each for each in used if each}


def _used(label: str, variables: Mapping[str, str], messages: Mapping[str, str]) -> UsedPrompt | None:
    """None for a label that names no prompt that can be tried, and when the variables are not known."""
    name, _dash, rest = label.partition("-")
    language, _dash, version = rest.partition("-")
    if name not in prompts() or not prompts()[name].trial or language not in INSTRUCTION_LANGUAGES:
        return None
    if not version.isdecimal() or not variables:
        return None
    return UsedPrompt((name, language), int(version), variables, messages)
