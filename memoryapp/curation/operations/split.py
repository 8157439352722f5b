"""A topic in parts, cut before messages that somebody names."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from memoryapp.curation.change import Change, CurationError, named
from memoryapp.curation.operations import operation
from memoryapp.curation.topic_writer import Summarise, opening
from memoryapp.models import ChatUser, Topic


def plan_split(
    owner: ChatUser, topic_id: int, at: Iterable[int], summaries: Sequence[str] = (), *, summarise: Summarise = opening
) -> Change:
    """The topic in parts, each of which begins at one of the messages ``at``. Without ``summaries`` the first part
    keeps the topic's; empty ones are generated. Raises CurationError or Stale, and whatever ``summarise`` raises."""
    topic = operation.live_topic(owner, topic_id)
    parts = _parts(topic, operation.messages_by_topic([topic])[topic.pk], set(at))
    if summaries and len(summaries) != len(parts):
        counts = {"parts": len(parts), "summaries": len(summaries)}
        raise CurationError(_("There are %(parts)d parts and %(summaries)d summaries.") % counts)
    written = summaries or [topic.summary, *[""] * (len(parts) - 1)]
    return Change((topic.pk,), tuple(operation.drafts(owner, parts, written, summarise)))


def _parts(topic: Topic, messages: Sequence[int], at: set[int]) -> list[list[int]]:
    if not at:
        raise CurationError(_("Say at which messages new parts begin."))
    strange = sorted(at - set(messages))
    if strange:
        where = {"message": strange[0], "topic": named([topic.pk])}
        raise CurationError(_("Message %(message)d is not in %(topic)s.") % where)
    if messages[0] in at:
        raise CurationError(_("The topic begins with that message, so the part before it would be empty."))
    operation.check_count(len(at) + 1)
    borders = [0, *(place for place, number in enumerate(messages) if number in at), len(messages)]
    return [list(messages[start:end]) for start, end in pairwise(borders)]


def plan_cuts(request: operation.ChangeRequest, summarise: Summarise) -> Change:
    """The split that is asked for; summaries of an earlier preview with other cuts are not used."""
    given = request.summaries if len(request.summaries) == len(set(request.at)) + 1 else ()
    return plan_split(request.owner, request.topics[0], request.at, given, summarise=summarise)


SPLIT = operation.Operation(
    name="split",
    words=operation.Words(
        done=gettext_lazy("split"),
        heading=gettext_lazy("Split a topic"),
        button=pgettext_lazy("button", "Split"),
        would=gettext_lazy("%(named)s becomes %(after)s: %(sizes)s messages."),
        made=gettext_lazy("Split %(named)s into %(after)s: %(sizes)s messages"),
    ),
    plan=plan_cuts,
    repeats="one",
    endpoint=operation.Endpoint(
        takes=(operation.TOPIC, operation.AT, operation.SUMMARIES), **operation.ENDPOINTS["split"]
    ),
    bench=operation.BenchButton("cuts", gettext_lazy("Preview the split"), "scissors"),
)
