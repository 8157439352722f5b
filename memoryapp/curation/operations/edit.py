"""Another summary for a topic, over the same messages."""

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.curation.change import Change, CurationError
from memoryapp.curation.operations import operation
from memoryapp.curation.topic_writer import Summarise, check_summary
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser


def plan_edit(owner: ChatUser, topic_id: int, summary: str) -> Change:
    """The topic with another summary. Raises CurationError or Stale."""
    topic = operation.live_topic(owner, topic_id)
    check_summary(summary)
    if summary.strip() == topic.summary:
        raise CurationError(_("The summary says that already."))
    return Change((topic.pk,), (TopicDraft(summary.strip(), tuple(operation.messages_by_topic([topic])[topic.pk])),))


def _plan(request: operation.ChangeRequest, summarise: Summarise) -> Change:
    return plan_edit(request.owner, request.topics[0], "".join(request.summaries[:1]))


EDIT = operation.Operation(
    name="edit",
    words=operation.Words(
        done=gettext_lazy("edited"),
        heading=gettext_lazy("Change a summary"),
        button=gettext_lazy("Change the summary"),
        would=gettext_lazy("The summary changes; the topic keeps its messages (%(messages)s)."),
        made=gettext_lazy("Changed the summary of %(named)s"),
    ),
    plan=_plan,
    repeats="one",
    endpoint=operation.Endpoint(takes=(operation.TOPIC, operation.SUMMARY), **operation.ENDPOINTS["edit"]),
)
