"""A stage of background work as one value: its words, what waits, what failed, and what was done in each hour."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Aggregate, Count, QuerySet
from django.db.models.functions import TruncHour
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, npgettext_lazy, pgettext_lazy

from memoryapp.engine.beside import table_beside
from memoryapp.engine.embeddings import Profile
from memoryapp.models import AgentCall, ChatUser, EmbeddingProfile
from memoryapp.models.work import WorkKind
from memoryapp.platform.llm.clients import host_of

MOST = 10_000
MOST_FAULTS = 5
HOURS = 24


@dataclass(frozen=True, slots=True)
class Scope:
    """The chat users and the moment of the page; ``owner`` if it shows a single one. ``profile`` serves, and
    ``following`` is the row of the one that is to take over, if its vectors are being made."""

    owners: QuerySet[ChatUser]
    owner: ChatUser | None
    profile: Profile
    following: EmbeddingProfile | None
    now: datetime

    @property
    def seen(self) -> QuerySet[ChatUser]:
        return ChatUser.objects.filter(pk=self.owner.pk) if self.owner else self.owners

    @property
    def day_ago(self) -> datetime:
        return self.now - timedelta(days=1)

    def of(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(owner=self.owner) if self.owner else rows.filter(owner__in=self.owners)

    def by_hour(self, rows: QuerySet[Any], column: str, counted: Aggregate | None = None) -> list[int]:
        """The rows, or what ``counted`` adds up of them, in each of the last 24 hours, oldest first."""
        found = rows.annotate(hour=TruncHour(column, tzinfo=UTC)).order_by().values_list("hour")
        last = self.now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        counts = [0] * HOURS
        for hour, count in found.annotate(n=counted or Count("pk")):
            back = round((last - hour) / timedelta(hours=1))
            if 0 <= back < HOURS:
                counts[HOURS - 1 - back] += count or 0
        return counts

    def calls_by_hour(self, agent: str) -> list[int]:
        """The calls of an agent in each of the last hours."""
        return self.by_hour(self.of(AgentCall.objects.filter(at__gte=self.day_ago, agent=agent)), "at")


def up_to_most(rows: QuerySet[Any]) -> int:
    """Returns the number of ``rows``, up to ``MOST``."""
    return rows.order_by().values("pk")[:MOST].count()


@dataclass(frozen=True, slots=True)
class StageFault:
    """A failure of the last day: whose memory, when, why, in an English sentence and as a note.

    ``subject`` is the name of the file that it is about, ``count`` the number of equal failures. ``call`` is the call
    of an agent that shows it, ``topic`` a topic that could not be read, ``code`` the outcome if that is the reason,
    ``file`` a file whose import failed and that waits for a person, ``artifact`` a file that was not read. ``is_work``
    that is a row of ``Work``, which is not tried again by itself when it ``is_given_up``.
    """

    owner: ChatUser | None
    at: datetime | None
    subject: str = ""
    why: str = ""
    note: Mapping[str, Any] | None = None
    code: str = ""
    count: int = 1
    call: int | None = None
    topic: int | None = None
    file: int | None = None
    artifact: int | None = None
    is_work: bool = False
    is_given_up: bool = False


@dataclass(frozen=True, slots=True)
class StageWords:
    """A stage in words: its name, and ``icon``, the name of its picture.

    ``waits`` names what waits there, by its number ``n``; ``does`` what its hours count, empty where they count
    nothing. Where a chat model does the work, ``model`` is the setting that names it, ``with_model`` a sentence with
    ``model`` and ``host``, and ``without_model`` says what happens while none is connected.
    """

    name: str | Promise
    icon: str
    waits: str | Promise
    does: str | Promise = ""
    model: str = ""
    with_model: str | Promise = ""
    without_model: str | Promise = ""

    @property
    def chat_model(self) -> str:
        """Which chat model does the work, or that none does, as the settings are; empty where none ever does."""
        if not self.model:
            return ""
        if not settings.LLM_BASE_URL:
            return str(self.without_model)
        named = {"model": getattr(settings, self.model), "host": host_of(settings.LLM_BASE_URL)}
        return str(self.with_model % named)


def words_beside(module: str) -> StageWords:
    """What is in the TOML file with the name of this module, which says ``__file__``."""
    words: dict[str, Any] = table_beside(module)
    one, several = words["waits"]
    words |= {key: gettext_lazy(words[key]) for key in ("does", "with_model", "without_model") if key in words}
    words |= {"name": pgettext_lazy("stage", words["name"]), "waits": npgettext_lazy("waiting", one, several, "n")}
    return StageWords(**words)


@dataclass(frozen=True, slots=True)
class Stage:
    """A kind of background work as people watch and pause it, with the name that addresses and rows have.

    ``waiting`` counts what waits, up to ``most``. ``kind`` is the work that can be paused; None when nothing can.
    ``running`` counts what goes on without a row of ``Work``. ``hours`` are the amounts of the last 24 hours, oldest
    first, empty when the rows record none. ``faults`` are the latest failures that only this stage knows; failed rows
    of ``Work`` follow by themselves, except those whose owner and source are ``shown_already``, and so do failed calls
    of its agents, if ``shows_calls``. ``served_by`` is the model that does the work, by the profile that serves
    searches. ``more`` are further fields of ``PipelineStage``. A stage whose work names nobody is shown to those
    who see everybody, and paused for all alone.
    """

    name: str
    words: StageWords
    waiting: Callable[[Scope], int]
    kind: WorkKind | None = None
    hours: Callable[[Scope], Sequence[int]] = lambda scope: ()
    faults: Callable[[Scope], Sequence[StageFault]] = lambda scope: ()
    shown_already: Callable[[Scope], list[tuple[int, str]]] = lambda scope: []
    shows_calls: bool = True
    running: Callable[[Scope], int] = lambda scope: 0
    served_by: Callable[[Profile], str] | None = None
    more: Callable[[Scope], Mapping[str, Any]] = lambda scope: {}
    most: int = MOST
    names_nobody: bool = False
