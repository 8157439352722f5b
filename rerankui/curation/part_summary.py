"""The summary that is proposed for a new topic while a person looks at the change that would make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.content.reading import content
from memoryapp.curation import MOVE, SPLIT, Change, ChangeRequest
from memoryapp.engine.memory import TopicDraft
from memoryapp.models import ChatUser, Message, Topic
from memoryapp.suggestions import proposals
from memoryapp.suggestions.proposals import ProposalError
from rerankui.curation.proposal_words import failure_words

# Of a change with more new topics, the first ones are asked for.
MOST_ASKED = 4


@dataclass(frozen=True, slots=True)
class ProposedSummary:
    """``by`` is the model, empty for the most telling sentences; ``why`` says why the model made none."""

    summary: str
    by: str = ""
    why: str | Promise = ""


def unnamed(request: ChangeRequest, change: Change) -> range:
    """The places of the new topics, from 1, for which nobody wrote a summary."""
    count = len(change.put)
    if any(request.summaries):
        return range(0)
    if request.operation is SPLIT:
        return range(2, count + 1)
    return range(count, count + 1) if request.operation is MOVE and request.to is None else range(0)


def outdated(request: ChangeRequest, change: Change) -> range:
    """The places, from 1, of the topics whose summaries were written for other messages: those that a move leaves."""
    if request.operation is not MOVE:
        return range(0)
    return range(1, len(change.put) + (request.to is not None))


def proposed_summary(owner: ChatUser, topics: Sequence[int], draft: TopicDraft) -> ProposedSummary:
    """For the messages of ``draft``, which are in these topics; one question to a connected model."""
    messages = [content(row) for row in Message.objects.of(owner).filter(pk__in=draft.messages).in_order()]
    shown = list(Topic.objects.of(owner).filter(pk__in=topics).order_by("pk"))
    why: str | Promise = _("No chat model is connected.")
    if proposals.is_model_connected():
        try:
            return ProposedSummary(proposals.part_summary(owner, shown, messages), settings.MERGER_MODEL)
        except ProposalError as error:
            why = failure_words(error)
    return ProposedSummary(proposals.summary_extracted(messages), "", why)
