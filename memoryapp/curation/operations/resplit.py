"""A topic divided anew, into drafts of a proposal or at cuts that somebody names."""

from collections.abc import Sequence

from asgiref.sync import async_to_sync
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.curation.change import Change, CurationError
from memoryapp.curation.operations import operation
from memoryapp.curation.operations.split import plan_cuts
from memoryapp.curation.topic_writer import Summarise, check_summary
from memoryapp.engine.embeddings import Embedder
from memoryapp.engine.memory import TopicDraft
from memoryapp.engine.offline.segmenter import segment
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, Message


def plan_resplit(owner: ChatUser, topic_id: int, drafts: Sequence[TopicDraft]) -> Change:
    """The topic replaced by ``drafts``, which hold each of its messages once. Raises CurationError or Stale."""
    topic = operation.live_topic(owner, topic_id)
    listed = operation.messages_by_topic([topic])[topic.pk]
    covered = sorted(number for draft in drafts for number in draft.messages)
    if covered != sorted(listed):
        raise CurationError(_("The parts do not hold each message of the topic once."))
    operation.check_count(len(drafts))
    for draft in drafts:
        check_summary(draft.summary)
    if len(drafts) == 1 and drafts[0].summary == topic.summary:
        raise CurationError(_("That leaves the topic as it is."))
    return Change((topic.pk,), tuple(drafts))


def propose_split(owner: ChatUser, topic_id: int, embedder: Embedder, most_chars: int) -> list[TopicDraft]:
    """The drafts into which the embedded segmenter would divide the topic today, in order; one draft if it would not.
    Raises CurationError, Stale or EmbeddingError."""
    topic = operation.live_topic(owner, topic_id)
    messages = Message.objects.of(owner).filter(topic=topic).in_order()
    return async_to_sync(segment)([content(row) for row in messages], embedder, most_chars)


def _plan(request: operation.ChangeRequest, summarise: Summarise) -> Change:
    parts = request.parts or plan_cuts(request, summarise).put
    return plan_resplit(request.owner, request.topics[0], parts)


RESPLIT = operation.Operation(
    name="resplit",
    words=operation.Words(
        done=gettext_lazy("split anew"),
        heading=gettext_lazy("Split a topic into several"),
        button=gettext_lazy("Split into topics"),
        would=gettext_lazy("%(named)s becomes %(after)s: %(sizes)s messages."),
        made=gettext_lazy("Split %(named)s anew into %(after)s: %(sizes)s messages"),
    ),
    plan=_plan,
    repeats="none",
)
