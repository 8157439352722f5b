"""Messages moved to another topic or to a new one."""

from collections.abc import Iterable
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.curation.change import MOST_MESSAGES, Change, CurationError, named, too_many_messages
from memoryapp.curation.operations import operation
from memoryapp.curation.topic_writer import Summarise, check_summary, opening
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, Message


def plan_move(
    owner: ChatUser, message_ids: Iterable[int], to: int | None, summary: str = "", *, summarise: Summarise = opening
) -> Change:
    """The messages, of one or several topics, moved to the topic ``to``, or to a new topic when it is None. The topics
    keep their summaries and their other messages; a topic without any message left is retired. ``summary`` is that of
    the new topic. Raises CurationError or Stale, and whatever ``summarise`` raises."""
    ids = set(message_ids)
    if not ids:
        raise CurationError(_("Say which messages to move."))
    if len(ids) > MOST_MESSAGES:
        raise too_many_messages(MOST_MESSAGES)
    sources = _sources(owner, ids)
    target = None if to is None else operation.live_topic(owner, to)
    touched = {topic.pk: topic for topic in [*operation.live_topics(owner, sources), *([target] if target else [])]}
    listed = operation.messages_by_topic(touched.values())
    moved = [number for numbers in listed.values() for number in numbers if number in ids]
    if target and set(moved) & set(listed[target.pk]):
        raise CurationError(_("Some of these messages are in %(topic)s already.") % {"topic": named([target.pk])})
    if target is None and len(listed) == 1 and len(moved) == sum(map(len, listed.values())):
        raise CurationError(_("These are all messages of the topic: there is nothing to move out of it."))
    rest = {pk: tuple(number for number in listed[pk] if number not in ids) for pk in touched}
    put = [TopicDraft(topic.summary, rest[pk]) for pk, topic in touched.items() if rest[pk] and topic is not target]
    if target:
        put.append(TopicDraft(target.summary, (*rest[target.pk], *moved)))
    else:
        put += operation.drafts(owner, [moved], [summary], summarise)
    return Change(tuple(touched), tuple(put))


def _sources(owner: ChatUser, ids: set[int]) -> list[int]:
    """The topics that hold the messages, each once. Raises CurationError for a message that is in no topic."""
    where = dict(Message.objects.of(owner).filter(pk__in=ids).order_by("pk").values_list("pk", "topic"))
    unknown = sorted(ids - set(where))
    if unknown:
        raise CurationError(_("There is no message %(message)d in this memory.") % {"message": unknown[0]})
    loose = next((number for number, topic in where.items() if topic is None), None)
    if loose is not None:
        raise CurationError(_("Message %(message)d is in no topic, so it cannot be moved.") % {"message": loose})
    return list(dict.fromkeys(topic for topic in where.values() if topic is not None))


def _plan(request: operation.ChangeRequest, summarise: Summarise) -> Change:
    summary = request.summaries[-1] if request.summaries and request.to is None else ""
    change = plan_move(request.owner, request.messages, request.to, summary, summarise=summarise)
    # With the summaries that somebody wrote who saw all resulting topics; an empty one leaves what is there.
    if len(request.summaries) != len(change.put):
        return change
    pairs = zip(change.put, request.summaries, strict=True)
    worded = [replace(draft, summary=given.strip() or draft.summary) for draft, given in pairs]
    for draft in worded:
        if draft.summary:
            check_summary(draft.summary)
    return Change(change.out, tuple(worded))


MOVE = operation.Operation(
    name="move",
    words=operation.Words(
        done=gettext_lazy("moved messages"),
        heading=gettext_lazy("Move messages"),
        button=gettext_lazy("Move"),
        would=gettext_lazy("%(moved)s to another topic; %(before)s today, %(after)s then. None is lost."),
        made=gettext_lazy("Moved %(messages_moved)s: %(before)s became %(after)s"),
    ),
    plan=_plan,
    endpoint=operation.Endpoint(
        takes=(operation.MESSAGES, operation.TO, operation.PROPOSED), **operation.ENDPOINTS["move"]
    ),
    bench=operation.BenchButton("chosen", gettext_lazy("New topic"), "plus"),
)
