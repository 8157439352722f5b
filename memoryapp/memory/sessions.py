"""The active sessions of a memory: messages that are in no topic yet, as searches and runs know them.

In: rows of messages. Out: ``cutting`` divides them into sessions, ``active`` reads sessions and gives each a number,
``passages`` keeps the passages by which search finds them. An active session is named after its first message:
``Session:17``; wherever topics have numbers, its number is -17 (``engine.memory.topic_id``). When it is archived, its
name leads to the topics that its messages are in. It imports the engine, the models, operations, reading and
chat_users."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.postgres.aggregates import ArrayAgg
from django.contrib.postgres.search import SearchVector
from django.db import DEFAULT_DB_ALIAS, models, transaction
from django.db.models.functions import Concat

from memoryapp.engine.beside import table_beside
from memoryapp.engine.cells import cell
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.lexical import count_terms, fold
from memoryapp.engine.text.lines import one_line, shortened
from memoryapp.engine.text.passages import PassageDraft, cut_passages
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, EditedTopic, Message, Passage, PassageMessage, TopicEdit
from memoryapp.platform import database
from memoryapp.platform.database import SqlStatement, array
from memoryapp.platform.statements import execute

# Cuts messages into sessions.
#
# A session is a limited number of messages of one label without a long pause. Each label is a separate stream,
# because simultaneous chats would otherwise interrupt each other. Between people, who answer when they find the time,
# a pause has to be longer than in a talk with an assistant. A session is closed, and may be archived, when no message
# can join it any more.

# How many messages a full session takes in so that it does not end with a question.
MOST_WAITED = 20
# Up to how many messages neighbouring topics between people are one; see docs/measurements.md.
PAUSE_WITHIN = 16


class Moment(NamedTuple):
    """The fields of a message that decide its session. ``label`` is its project with the label of its session: a topic
    is of one project."""

    id: int
    sent_at: datetime
    label: str
    is_question: bool = False
    role: str = ""

    @property
    def session(self) -> str:
        """The label of its session alone."""
        return self.label.partition("\n")[2]


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Where sessions and topics end.

    A session ends before a pause of ``interval``, between people before one of ``between_people``, and after ``most``
    messages, a topic before it has more than
    ``topic_chars`` characters. Topics of fewer than ``least`` messages are joined to others of their session. Those
    that a model made are joined if they have fewer than ``wished``, the number that a person chose for this memory.
    Those of the segmenter between people are joined while they have at most ``together`` messages."""

    interval: timedelta
    most: int
    topic_chars: int
    least: int = 1
    wished: int = 1
    between_people: timedelta = timedelta(hours=6)
    together: int = PAUSE_WITHIN


@dataclass(frozen=True, slots=True)
class Session:
    """Messages in order; ``closed`` if another session of the label follows. ``interval`` is the pause that ends it."""

    messages: tuple[Moment, ...]
    closed: bool
    interval: timedelta

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(message.id for message in self.messages)

    @property
    def due_at(self) -> datetime:
        """The time after which no message can join it; for a closed session, that of its last message."""
        return self.messages[-1].sent_at + (timedelta(0) if self.closed else self.interval)


def is_between_people(roles: Collection[str]) -> bool:
    """Whether these are the roles of a chat between people: somebody else than the user speaks, and no assistant."""
    return "peer" in roles and "assistant" not in roles


def cut_sessions(
    messages: Iterable[Moment], *, interval: timedelta, most: int, between_people: timedelta | None = None
) -> list[Session]:
    """Returns the sessions of messages that are ordered by label and time; the oldest session comes first. Streams
    between people are cut at pauses of ``between_people``, if it is given, others at those of ``interval``."""
    sessions: list[Session] = []
    for _label, stream in groupby(messages, key=lambda message: message.label):
        moments = list(stream)
        among_people = between_people and is_between_people({moment.role for moment in moments})
        sessions += _cut_stream(moments, between_people if among_people and between_people else interval, most)
    return sorted(sessions, key=lambda session: (session.messages[0].sent_at, session.messages[0].id))


def cut_within(messages: Iterable[Moment], limits: SessionLimits) -> list[Session]:
    """``cut_sessions`` with these limits."""
    return cut_sessions(messages, interval=limits.interval, most=limits.most, between_people=limits.between_people)


def _cut_stream(stream: Iterable[Moment], interval: timedelta, most: int) -> Iterator[Session]:
    open_: list[Moment] = []
    for message in stream:
        if open_ and (_is_full(open_, most) or message.sent_at - open_[-1].sent_at >= interval):
            yield Session(tuple(open_), closed=True, interval=interval)
            open_ = []
        open_.append(message)
    if open_:
        yield Session(tuple(open_), closed=_is_full(open_, most), interval=interval)


def _is_full(messages: Sequence[Moment], most: int) -> bool:
    """Whether the session ends because of its size. A question at its end waits for the answer, within limits."""
    return len(messages) >= most + MOST_WAITED or (len(messages) >= most and not messages[-1].is_question)


# Reads active sessions: of a search that reads a whole memory, and of an owner at any time.
#
# Which messages are a session is decided by their rows alone, so it is the same as when they are archived.

# Characters of the first message by which a session is recognised.
TITLE_CHARS = 160

_SQL = table_beside(__file__)
MESSAGES: str = _SQL["messages"]
BOUNDS = "SELECT silence_seconds, session_messages FROM memoryapp_chatuser WHERE id = %(owner)s"
# Passages are read from the messages, of which few are in no topic.
PASSAGES: str = _SQL["passages"]
TITLES = (
    "SELECT id, left(text, %(chars)s) FROM memoryapp_message WHERE owner_id = %(owner)s AND id = ANY(%(ids)s::bigint[])"
)


class ActiveMessage(NamedTuple):
    """A message that is in no topic, without its text; ``size`` is in characters."""

    id: int
    sent_at: datetime
    label: str
    is_question: bool
    role: str
    author: str
    size: int


@dataclass(frozen=True, slots=True)
class TalkSession:
    """A session that is not archived yet. ``number`` is that of its first message, negative."""

    number: int
    messages: tuple[int, ...]
    date: str
    size_chars: int


@dataclass(frozen=True, slots=True)
class ActiveTalk:
    """The active sessions of an owner by number, their messages, and the session of each message."""

    messages: tuple[ActiveMessage, ...] = ()
    sessions: Mapping[int, TalkSession] = field(default_factory=dict)
    session_of: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]], limits: SessionLimits) -> ActiveTalk:
        """Built from the rows of ``MESSAGES``."""
        messages = tuple(ActiveMessage(*row) for row in rows)
        known = {message.id: message for message in messages}
        cut = cut_within((Moment(*message[:5]) for message in messages), limits)
        sessions = [_session([known[moment.id] for moment in session.messages]) for session in cut]
        return cls(
            messages,
            {session.number: session for session in sessions},
            {number: session.number for session in sessions for number in session.messages},
        )

    def without(self, archived: Collection[int]) -> ActiveTalk:
        """The same without the sessions that were archived while the rows were read."""
        gone = {self.session_of[number] for number in archived if number in self.session_of}
        if not gone:
            return self
        return ActiveTalk(
            tuple(message for message in self.messages if self.session_of[message.id] not in gone),
            {number: session for number, session in self.sessions.items() if number not in gone},
            {message: session for message, session in self.session_of.items() if session not in gone},
        )


def _session(messages: Sequence[ActiveMessage]) -> TalkSession:
    first = messages[0]
    return TalkSession(
        number=-first.id,
        messages=tuple(message.id for message in messages),
        date=f"{first.sent_at.astimezone(UTC):%Y-%m-%d}",
        size_chars=sum(message.size for message in messages),
    )


def titles_sql(owner_id: int, sessions: Sequence[int]) -> SqlStatement | None:
    """The statement that reads the beginnings of the first messages of these sessions."""
    ids = array(-number for number in sessions)
    return (TITLES, {"owner": owner_id, "ids": ids, "chars": 2 * TITLE_CHARS}) if sessions else None


def title(text: str) -> str:
    """What a session is recognised by: the beginning of its first message."""
    return shortened(one_line(text), TITLE_CHARS)


def limits(owner: ChatUser) -> SessionLimits:
    return limited(owner.silence_seconds, owner.session_messages, owner.topic_messages)


def limited(silence: int | None, most: int | None, least: int | None = None) -> SessionLimits:
    """``limits`` of a chat user with these values; None stands for those of the settings."""
    return SessionLimits(
        timedelta(seconds=silence or settings.CHUNK_INTERVAL),
        most or settings.MAX_CHUNK_SIZE,
        settings.SPLIT_THRESHOLD_CHARS,
        least or settings.TOPIC_LEAST_MESSAGES,
        least or 1,
        timedelta(seconds=silence or settings.CHUNK_INTERVAL_PEOPLE),
        least or PAUSE_WITHIN,
    )


def cut(rows: models.QuerySet[Message], limits: SessionLimits) -> list[Session]:
    asking = models.ExpressionWrapper(models.Q(text__contains="?"), output_field=models.BooleanField())
    named = rows.annotate(is_question=asking, label=Concat("project", models.Value("\n"), "session"))
    columns = named.values_list("id", "sent_at", "label", "is_question", "role")
    ordered = columns.order_by("project", "session", "sent_at", "id")
    return cut_within((Moment(*row) for row in ordered.iterator()), limits)


def session_with(message: Message) -> list[Message]:
    """The messages of this one's active session, oldest first; none if it is archived or withdrawn."""
    stream = Message.objects.of(message.owner_id).active().filter(project=message.project, session=message.session)
    sessions = cut(stream, limits(ChatUser.objects.get(pk=message.owner_id)))
    ids = next(([m.id for m in session.messages] for session in sessions if message.pk in session.ids), [])
    return list(Message.objects.filter(pk__in=ids).in_order())


def archived_as(message: Message) -> list[int]:
    """The numbers of the topics, live or not, that the session of this message was archived as."""
    came = EditedTopic.objects.filter(owner=message.owner_id, side=EditedTopic.Side.IN)
    archived = came.filter(edit__kind=TopicEdit.Kind.ARCHIVE, topic__topicmessage__message=message).order_by("edit")
    edit = archived.values_list("edit", flat=True).first()
    return list(came.filter(edit=edit).order_by("topic").values_list("topic", flat=True)) if edit else []


# Keeps the passages of messages: made when messages arrive, kept when they are archived.
#
# A passage belongs to messages, so archiving changes none that lies within one topic, and its vector stays.

Parts = Sequence[Sequence[MessageContent]]


def bare() -> models.QuerySet[Message]:
    """The messages of active sessions that are in no passage yet."""
    return Message.objects.active().filter(~models.Exists(PassageMessage.objects.filter(message=models.OuterRef("pk"))))


def with_bare() -> models.QuerySet[ChatUser]:
    """The chat users with ``bare`` messages; those to whom something came last come first."""
    of_owner = bare().filter(owner=models.OuterRef("pk")).order_by("-pk").values("pk")[:1]
    return ChatUser.objects.annotate(latest=models.Subquery(of_owner)).filter(latest__isnull=False).order_by("-latest")


def renew(
    owner: ChatUser,
    labels: Collection[str] | None = None,
    *,
    until: Callable[[], bool] = lambda: False,
    waits: bool = True,
) -> None:
    """Makes the passages of active sessions with new messages, the latest session first; only in the streams with these
    labels, if given.

    A session is cut as a whole, in a transaction of its own: a reply belongs to the passage of its request. Passages
    that stay the same are kept. After ``until`` said that it is enough, and unless it ``waits``, while another process
    writes messages of this chat user, the rest is left to the next call."""
    active = Message.objects.of(owner).active()
    active = active if labels is None else active.filter(session__in=labels)
    new = set(bare().filter(pk__in=active).values_list("pk", flat=True))
    for session in reversed(cut(active, limits(owner)) if new else ()):
        if new & session.ids and (not _renew(owner, session.ids, waits) or until()):
            return


@transaction.atomic
def _renew(owner: ChatUser, ids: Collection[int], waits: bool) -> bool:
    """Whether nobody else holds the lock."""
    if not database.acquire_until_commit("messages", owner.pk, waits=waits):
        return False
    messages = [content(row) for row in Message.objects.of(owner).active().filter(pk__in=ids).in_order()]
    if len(messages) < len(ids):
        return True
    known = {(each.text, each.messages): each.id for each in _known(owner, sorted(ids))}
    drafts = [
        draft for draft in cut_passages(messages) if known.pop((draft.text, frozenset(draft.messages)), None) is None
    ]
    _forget(known.values())
    _put(owner, drafts)
    note_change(owner)
    return True


def note_change(owner: ChatUser) -> None:
    """Tells searches that the owner's active sessions are not what they were."""
    execute(_SQL["change"], [owner.pk, cell() or 0])


@transaction.atomic
def label(owner: ChatUser, rows: models.QuerySet[Message], project: str) -> None:
    """Gives those of these messages that are in no topic to a project. Their passages, which may hold others, are made
    anew by the worker."""
    database.acquire_until_commit("messages", owner.pk)
    numbers = list(rows.filter(topic__isnull=True, is_withdrawn=False).values_list("pk", flat=True))
    _forget(set(PassageMessage.objects.filter(message__in=numbers).values_list("passage", flat=True)))
    Message.objects.filter(pk__in=numbers).update(project=project)
    note_change(owner)


def settle(owner: ChatUser, parts: Parts) -> None:
    """Makes the passages that are missing over new topics, whose messages are the ``parts``, in order. A passage that
    lies within one part stays as it is; one that lies across parts is made anew in each."""
    database.acquire_until_commit("messages", owner.pk)
    part_of = {message.id: place for place, part in enumerate(parts) for message in part}
    known = _known(owner, list(part_of))
    within = [each for each in known if len({part_of.get(number) for number in each.messages}) == 1]
    across = {each.id for each in known} - {each.id for each in within}
    _forget(across)
    placed = {number for each in within for number in each.messages}
    runs = (run for part in parts for run in groupby(part, lambda message: message.id in placed))
    put_passages(owner, [list(run) for is_placed, run in runs if not is_placed])


@dataclass(frozen=True, slots=True)
class _Known:
    """A stored passage and its messages."""

    id: int
    text: str
    messages: frozenset[int]


def _known(owner: ChatUser, messages: Sequence[int]) -> list[_Known]:
    """The passages with any of these messages."""
    holding = PassageMessage.objects.filter(owner=owner, message__in=messages).values("passage")
    rows = Passage.objects.filter(pk__in=holding).annotate(numbers=ArrayAgg("passagemessage__message"))
    return [_Known(id, text, frozenset(numbers)) for id, text, numbers in rows.values_list("pk", "text", "numbers")]


def put_passages(owner: ChatUser, parts: Iterable[Sequence[MessageContent]]) -> None:
    """Stores the passages of each of the ``parts``, whose messages are in order; vectors are made later."""
    _put(owner, [draft for part in parts for draft in cut_passages(part)])


def _forget(passages: Collection[int]) -> None:
    # The database deletes what belongs to them, vectors that are stored meanwhile too, so Django need not fetch it.
    Passage.objects.filter(pk__in=passages)._raw_delete(DEFAULT_DB_ALIAS)


def _put(owner: ChatUser, drafts: Sequence[PassageDraft]) -> None:
    passages = Passage.objects.bulk_create(
        Passage(
            owner=owner,
            text=draft.text,
            terms=SearchVector(models.Value(fold(draft.text), output_field=models.TextField()), config="russian"),
            term_count=count_terms(draft.text),
        )
        for draft in drafts
    )
    PassageMessage.objects.bulk_create(
        PassageMessage(owner=owner, passage=passage, message_id=number)
        for passage, draft in zip(passages, drafts, strict=True)
        for number in dict.fromkeys(draft.messages)
    )
