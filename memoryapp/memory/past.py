"""The memory as it was at a moment: which topics were live, which messages were in, what was known of people and facts.

In: an owner and a moment. Out: rows as they were then, for pages and for runs that search the past. Topics never
change, so their edits tell which were live. People, facts and artifacts are followed back from what they are now,
through the changes since. What was erased in between is gone from every past, too. It imports models and ``reading``,
and writes nothing."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Exists, F, Func, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.lookups import Exact
from django.utils import timezone

from memoryapp.engine.beside import table_beside
from memoryapp.memory.content import IMPORTANT, INNER_CIRCLE, MOST_FACTS, MOST_OF_CIRCLE, RECENT_TOPICS, SUMMARY_CHARS
from memoryapp.models import (
    Artifact,
    EditedTopic,
    Fact,
    KnowledgeEdit,
    Message,
    Person,
    RecallMode,
    Topic,
    TopicEdit,
    TopicMessage,
)
from memoryapp.models.topic import TopicQuerySet

# People, facts and artifacts as they were at a moment: as they are, without the changes since.

Noun = KnowledgeEdit.Noun
MODELS: Mapping[str, Any] = {Noun.PERSON: Person, Noun.FACT: Fact, Noun.ARTIFACT: Artifact}
# Texts of files are too long to be read of all of them.
LEFT_OUT = ("text",)


def rows_at(owner_id: int, noun: str, moment: datetime) -> dict[str, dict[str, Any]]:
    """The values of the people, facts or artifacts of that moment, by number. Three queries; values that a change
    recorded are as JSON stores them, and texts of files are left out."""
    model = MODELS[noun]
    names = [field.attname for field in model._meta.concrete_fields if field.name not in LEFT_OUT]
    found: dict[str, dict[str, Any]] = {
        str(row["id"]): row for row in model.objects.filter(owner=owner_id).values(*names)
    }
    changes = KnowledgeEdit.objects.filter(owner=owner_id, noun=noun)
    numbers = Func(F("before"), function="jsonb_object_keys", output_field=TextField())
    known = set(changes.order_by().annotate(number=numbers).values_list("number", flat=True).distinct())
    for before in _since(owner_id, noun, moment):
        for number, values in before.items():
            if values is None:
                found.pop(number, None)
            else:
                found[number] = {**found.get(number, {}), **values}
    return {number: row for number, row in found.items() if number in known or _existed(row, moment)}


def known_at(owner_id: int, noun: str, moment: datetime) -> list[Any]:
    """The people, facts or artifacts of that moment as rows, which are not to be saved."""
    return as_rows(owner_id, noun, rows_at(owner_id, noun, moment).items())


def as_rows(owner_id: int, noun: str, known: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Any]:
    """Rows with these values by number, as ``rows_at`` has them."""
    model = MODELS[noun]
    fields = {field.attname: field for field in model._meta.concrete_fields if field.name not in ("id", "owner")}
    rows = []
    for number, values in known:
        own = {
            name: fields[name].to_python(value) if isinstance(value, str) else value
            for name, value in values.items()
            if name in fields
        }
        rows.append(model(pk=int(number), owner_id=owner_id, **own))
    return rows


def recall_at(owner_id: int, noun: str, today: Mapping[int, str], moment: datetime) -> dict[int, str]:
    """What was decided at the moment on the recall of each of these rows, by number; ``today`` is what is now."""
    found = dict(today)
    for before in _since(owner_id, noun, moment):
        for number, values in before.items():
            if int(number) in found and values and "recall" in values:
                found[int(number)] = values["recall"]
    return found


def _since(owner_id: int, noun: str, moment: datetime) -> Any:
    """What the changes after the moment found, the newest first."""
    changes = KnowledgeEdit.objects.filter(owner=owner_id, noun=noun, at__gt=moment).order_by("-at", "-pk")
    return changes.values_list("before", flat=True)


def _existed(row: Mapping[str, Any], moment: datetime) -> bool:
    """Whether a row of which no change tells when it came was known then."""
    at = row.get("created_at") or row.get("first_seen")
    return not isinstance(at, datetime) or at <= moment


# Which topics were live at a moment, what was decided of them then, and which of them contained given messages.

Side = EditedTopic.Side
_SQL = table_beside(__file__)
LIVE_AT_SQL: str = _SQL["live_at_sql"]


def topics_at(moment: datetime) -> TopicQuerySet:
    """The topics that were live at the moment, of whomever."""
    return Topic.objects.filter(Exact(_side(moment), Side.IN))


def retired_by(moment: datetime) -> TopicQuerySet:
    """The topics that had been live, and no longer were at the moment."""
    return Topic.objects.filter(Exact(_side(moment), Side.OUT))


def side_at(topic: Topic, moment: datetime) -> str:
    """``in`` for a topic that was live at the moment, ``out`` for one retired by then, empty for one not yet made."""
    return Topic.objects.filter(pk=topic.pk).values_list(_side(moment), flat=True).get() or ""


def _side(moment: datetime) -> Subquery:
    """On which side of the last edit before the moment a topic of an outer query was; null for one not yet made."""
    last = EditedTopic.objects.filter(topic=OuterRef("pk"), edit__at__lte=moment).order_by("-edit_id")
    return Subquery(last.values("side")[:1])


def as_then(owner_id: int, topics: Collection[Topic], moment: datetime, *, is_live: bool = True) -> None:
    """Gives rows of topics their state and recall at the moment; one query. They are not to be saved."""
    recall = recall_at(owner_id, KnowledgeEdit.Noun.TOPIC, {topic.pk: topic.recall for topic in topics}, moment)
    for topic in topics:
        topic.is_live, topic.recall = is_live, recall[topic.pk]


def holders_at(owner_id: int, ids: Iterable[int], moment: datetime) -> dict[int, tuple[int, ...]]:
    """The topics of the moment that contained messages of each of these topics, those with most of them first; a topic
    that was live is its own holder. One query."""
    then = TopicMessage.objects.filter(owner=owner_id, topic__in=topics_at(moment).filter(owner=owner_id))
    pairs = then.filter(message__topicmessage__topic__in=set(ids)).values_list("message__topicmessage__topic", "topic")
    found: dict[int, tuple[int, ...]] = {}
    for old, holder, _n in pairs.annotate(n=Count("pk")).order_by("message__topicmessage__topic", "-n", "topic"):
        found[old] = (*found.get(old, ()), holder)
    return found


def topics_of(messages: Iterable[int], owner_id: int, moment: datetime) -> dict[int, Topic]:
    """The topic of the moment that contained each message, by the number of the message; one query."""
    pairs = TopicMessage.objects.filter(owner=owner_id, message__in=list(messages))
    found = pairs.filter(topic__in=topics_at(moment).filter(owner=owner_id)).select_related("topic")
    return {pair.message_id: pair.topic for pair in found}


def first_moment(owner_id: int) -> datetime | None:
    """When the first topics of this memory were made; None for a memory that never had any."""
    sides = EditedTopic.objects.filter(owner=owner_id, side=Side.IN).order_by("edit__at", "edit_id")
    return sides.values_list("edit__at", flat=True).first()


# The messages that were in a memory at a moment.


def messages_at(owner_id: int, moment: datetime) -> QuerySet[Message]:
    """Messages that were in by the moment: those of an import came when it began, others when they were sent. What was
    withdrawn later was still there; what was withdrawn by then and brought back later was not."""
    came = Q(batch__started_at__lte=moment) | Q(batch__isnull=True, sent_at__lte=moment)
    was_there = Q(is_withdrawn=False) | Exists(_places(owner_id, moment))
    found = Message.objects.of(owner_id).filter(came & was_there)
    # The imports that were withdrawn at the moment and are not today.
    edits = TopicEdit.objects.filter(owner=owner_id, kind=TopicEdit.Kind.WITHDRAW, at__lte=moment, batch__isnull=False)
    undone = TopicEdit.objects.filter(undoes=OuterRef("pk"))
    taken_back = edits.filter(Exists(undone.filter(at__gt=moment)), ~Exists(undone.filter(at__lte=moment)))
    gone = list(taken_back.values_list("batch", flat=True).distinct())
    return found.exclude(batch__in=gone) if gone else found


def in_no_topic_at(owner_id: int, moment: datetime) -> QuerySet[Message]:
    """The messages of ``messages_at`` that were in an active session then."""
    return messages_at(owner_id, moment).filter(~Exists(_places(owner_id, moment)))


def _places(owner_id: int, moment: datetime) -> QuerySet[TopicMessage]:
    """Where a message of an outer query was at the moment."""
    return TopicMessage.objects.filter(message=OuterRef("pk"), topic__in=topics_at(moment).filter(owner=owner_id))


# What a run takes from the memory of a moment beside its search: facts, people of the inner circle, recent topics.

RECENT: str = _SQL["recent"].format(live_at_sql=LIVE_AT_SQL)


def background_at(owner_id: int, moment: datetime) -> dict[str, Any]:
    """Facts, people of the inner circle and recent topics of that moment, without what is never recalled today, in the
    form of ``reading.BACKGROUND``."""
    facts = [row for row in _recallable(owner_id, Noun.FACT, moment) if _is_important(row)]
    facts.sort(key=lambda row: (row.get("recall") != "pinned", -row["importance"]))
    known = _recallable(owner_id, Noun.PERSON, moment)
    people = [row for row in known if row["circle"] in INNER_CIRCLE or row.get("recall") == "pinned"]
    people.sort(key=lambda row: (row.get("recall") != "pinned", -row["mention_count"]))
    return {
        "facts": [{name: row[name] for name in ("category", "relation", "content")} for row in facts[:MOST_FACTS]],
        "circle": [
            {name: row[name] for name in ("display_name", "username", "aliases", "circle", "bio")}
            for row in people[:MOST_OF_CIRCLE]
        ],
        "recent": _recent(owner_id, moment),
    }


def never_among(owner_id: int, topics: Collection[int]) -> set[int]:
    """Those of these topics, live or retired, that have a message in a topic that is never recalled today."""
    hidden = Topic.objects.of(owner_id).live().filter(recall=RecallMode.NEVER)
    rows = TopicMessage.objects.filter(owner=owner_id, topic__in=topics, message__topic__in=hidden)
    return set(rows.values_list("topic", flat=True))


def _recallable(owner_id: int, noun: str, moment: datetime) -> list[dict[str, Any]]:
    model: Any = Fact if noun == Noun.FACT else Person
    hidden = set(map(str, model.objects.filter(owner=owner_id, recall=RecallMode.NEVER).values_list("pk", flat=True)))
    return [row for number, row in rows_at(owner_id, noun, moment).items() if number not in hidden]


def _is_important(fact: dict[str, Any]) -> bool:
    is_wanted = fact["type"] == Fact.Type.IDENTITY or fact["importance"] >= IMPORTANT or fact.get("recall") == "pinned"
    return is_wanted and not fact.get("superseded_at")


def _recent(owner_id: int, moment: datetime) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"owner": owner_id, "as_of": moment, "chars": SUMMARY_CHARS, "most": RECENT_TOPICS}
    names = ("ended_at", "summary", "message_count", "size_chars")
    with connection.cursor() as cursor:
        cursor.execute(RECENT, asked)
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [{**row, "ended_at": row["ended_at"].isoformat()} for row in rows]


# Moments as people and programs name them.


def moment_of(text: str) -> datetime:
    """The moment that a text in ISO 8601 names, at most now; a day means its end. Raises ValueError for other texts."""
    named = datetime.fromisoformat(text)
    named = datetime.combine(named, time.max) if len(text) == len("2026-03-02") else named
    return min(named if named.tzinfo else timezone.make_aware(named), timezone.now()).astimezone(UTC)


def just_after(moment: datetime) -> datetime:
    """The first moment that is no more part of this past, for bounds that are not included."""
    return moment + timedelta(microseconds=1)


def just_before(moment: datetime) -> datetime:
    """The last moment before a change that was made at ``moment``."""
    return moment - timedelta(microseconds=1)
