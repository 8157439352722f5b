"""Topics given to a project, or made common to all: the same summaries over the same messages, under another label.
What was made of their messages alone goes with them: facts, artifacts, and people whom no other project speaks of."""

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.curation.change import Change, CurationError, check_own
from memoryapp.curation.operations import operation
from memoryapp.curation.topic_writer import Summarise
from memoryapp.engine.memory import TopicDraft
from memoryapp.engine.sight import as_project
from memoryapp.models import TopicEdit


def _plan(request: operation.ChangeRequest, summarise: Summarise) -> Change:
    topics = [
        topic for topic in operation.live_topics(request.owner, request.topics) if topic.project != request.project
    ]
    if not topics:
        raise CurationError(_("These topics have that label already."))
    try:
        as_project(request.project)
    except ValueError:
        raise CurationError(_("The name of a project is one line of at most 64 characters.")) from None
    check_own(request.project, *(topic.project for topic in topics))
    listed = operation.messages_by_topic(topics)
    put = tuple(TopicDraft(topic.summary, tuple(listed[topic.pk])) for topic in topics)
    return Change(tuple(topic.pk for topic in topics), put, request.project)


LABEL = operation.Operation(
    name=TopicEdit.Kind.LABEL,
    words=operation.Words(
        done=gettext_lazy("given to a project"),
        heading=gettext_lazy("Give topics to a project"),
        button=gettext_lazy("Give to the project"),
        would=gettext_lazy("%(topics)s with %(messages)s get another label."),
        made=gettext_lazy("Gave %(topics)s, %(messages)s, to a project"),
    ),
    plan=_plan,
    endpoint=operation.Endpoint(takes=(operation.TOPICS, operation.PROJECT), **operation.ENDPOINTS["label"]),
)
