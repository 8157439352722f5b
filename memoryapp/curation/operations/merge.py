"""Several topics made one; they need not be neighbours."""

from collections.abc import Iterable, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.curation.change import MOST_SUMMARY_CHARS, Change, CurationError
from memoryapp.curation.operations import operation
from memoryapp.curation.topic_writer import Summarise, check_summary
from memoryapp.engine.memory import TopicDraft
from memoryapp.engine.text.lines import shortened
from memoryapp.models import ChatUser, TopicEdit


def plan_merge(owner: ChatUser, topic_ids: Iterable[int], summary: str = "") -> Change:
    """One topic made of two or more, which need not be neighbours. Without a summary all summaries are joined, oldest
    first. Raises CurationError or Stale."""
    ids = list(dict.fromkeys(topic_ids))
    if len(ids) < 2:
        raise CurationError(_("A merge needs at least two different topics."))
    topics = sorted(operation.live_topics(owner, ids), key=lambda topic: (topic.started_at, topic.pk))
    listed = operation.messages_by_topic(topics)
    messages = tuple(number for topic in topics for number in listed[topic.pk])
    written = summary.strip() or composed_summary([topic.summary for topic in topics])
    check_summary(written)
    return Change(tuple(topic.pk for topic in topics), (TopicDraft(written, messages),))


def composed_summary(summaries: Sequence[str]) -> str:
    """All summaries in one, each once."""
    text = "; ".join(dict.fromkeys(summary.strip().rstrip(".") for summary in summaries if summary.strip()))
    return shortened(text, MOST_SUMMARY_CHARS)


def _plan(request: operation.ChangeRequest, summarise: Summarise) -> Change:
    return plan_merge(request.owner, request.topics, "".join(request.summaries[:1]))


MERGE = operation.Operation(
    name=TopicEdit.Kind.MERGE,
    words=operation.Words(
        done=gettext_lazy("merged"),
        heading=gettext_lazy("Merge topics"),
        button=gettext_lazy("Merge"),
        would=gettext_lazy("%(topics)s with %(messages)s become one."),
        made=gettext_lazy("Merged %(topics)s, %(messages)s"),
    ),
    plan=_plan,
    endpoint=operation.Endpoint(takes=(operation.TOPICS, operation.PROPOSED), **operation.ENDPOINTS["merge"]),
)
