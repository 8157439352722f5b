"""Carries out work on many topics, one topic after another.

The question to a model is asked first, outside of any transaction; then the edit and the row's state are written
together. A topic that was replaced meanwhile, or that a person edited, is left as it is. If a model does not answer,
the work rests and goes on with the same topic, which fails after ``MOST_TRIES``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import ChangeRequest, CurationError
from memoryapp.curation.swapping import settled_by_hand
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.models import (
    BulkTopic,
    BulkWork,
    PassageMessage,
    PassageVector,
    Topic,
    TopicEdit,
    TopicVector,
    UnreadTopic,
)
from memoryapp.operations.outages import is_outage, log_fault
from memoryapp.operations.waits import waiting
from memoryapp.search import profiles
from memoryapp.suggestions import proposals
from memoryapp.suggestions.proposals import ProposalError

MOST_TRIES = 3
REST = timedelta(seconds=30)
Kind, State = BulkWork.Kind, BulkTopic.State


def going_on() -> QuerySet[BulkWork]:
    """The works that have something left to do and do not rest, the earliest first."""
    rows = BulkWork.objects.filter(~waiting("rests_until", REST * 2 ** (MOST_TRIES - 1)), state=BulkWork.State.GOING_ON)
    rows = rows.filter(owner__erasing_since__isnull=True)
    return rows.select_related("owner").order_by("pk")


def carry_on(work: BulkWork, *, until: Callable[[], bool] = lambda: False) -> int:
    """Does the topics that wait, until ``until`` says that it is enough, somebody stops it, or a model fails.

    Returns how many it did. Only one process at a time may call it for a work.
    """
    done = 0
    while not until() and _is_wanted(work):
        row = work.rows.filter(state=State.WAITING).select_related("topic").order_by("pk").first()
        if row is None:
            BulkWork.objects.filter(pk=work.pk, state=BulkWork.State.GOING_ON).update(state=BulkWork.State.DONE)
            break
        if not _carry_out(work, row):
            break
        done += 1
    return done


def _is_wanted(work: BulkWork) -> bool:
    rows = BulkWork.objects.filter(pk=work.pk, state=BulkWork.State.GOING_ON)
    return bool(rows.update(at=timezone.now()))


def _carry_out(work: BulkWork, row: BulkTopic) -> bool:
    """Whether the topic is over, in whichever way; otherwise it is tried again after a rest."""
    topic = row.topic
    if not topic.is_live:
        return _end(row, State.UNCHANGED, _("It was replaced meanwhile."))
    try:
        _ACTS[Kind(work.kind)](work, row, topic)
    except (ProposalError, EmbeddingError) as error:
        return _postpone(work, row, str(error))
    except CurationError as error:
        return _end(row, State.UNCHANGED, str(error))
    except Exception as error:
        # A question may have been paid for, and the same fault would repeat it.
        if is_outage(error):
            raise
        log_fault("Topic %s is not changed by work on many.", topic.pk)
        return _postpone(work, row, str(error) or type(error).__name__)
    return True


def _end(row: BulkTopic, state: BulkTopic.State, fault: str = "", edit: TopicEdit | None = None) -> bool:
    BulkTopic.objects.filter(pk=row.pk).update(state=state, fault=fault, edit=edit)
    return True


def _postpone(work: BulkWork, row: BulkTopic, fault: str) -> bool:
    if row.tries + 1 >= MOST_TRIES:
        return _end(row, State.FAILED, fault)
    BulkTopic.objects.filter(pk=row.pk).update(tries=row.tries + 1, fault=fault)
    BulkWork.objects.filter(pk=work.pk).update(rests_until=timezone.now() + REST * 2**row.tries)
    return False


def _summarise(work: BulkWork, row: BulkTopic, topic: Topic) -> None:
    _leave_to_people(work, topic)
    summary = proposals.summary_written(work.owner, topic, work.asked_by)
    _make(work, row, ChangeRequest(curation.EDIT, work.owner, (topic.pk,), summaries=(summary,)))


def _split(work: BulkWork, row: BulkTopic, topic: Topic) -> None:
    _leave_to_people(work, topic)
    if proposals.is_model_connected():
        drafts = proposals.topics_proposed(work.owner, topic, work.asked_by)
    else:
        drafts = proposals.topics_segmented(work.owner, topic.pk)
    if len(drafts) < 2:
        raise CurationError(_("It is one topic."))
    _make(work, row, ChangeRequest(curation.RESPLIT, work.owner, (topic.pk,), parts=tuple(drafts)))


def _leave_to_people(work: BulkWork, topic: Topic) -> None:
    """Asks no model about what must not be changed."""
    if settled_by_hand(work.owner_id, [topic.pk]):
        raise CurationError(_("A person edited it, so it is left as it is."))


@transaction.atomic
def _make(work: BulkWork, row: BulkTopic, wanted: ChangeRequest) -> None:
    _end(row, State.DONE, edit=curation.make(wanted, actor=work.asked_by, by_hand=False).edit)


@transaction.atomic
def _extract(work: BulkWork, row: BulkTopic, topic: Topic) -> None:
    """Hands the topic to the archivist, whose sweep reads it within a minute."""
    UnreadTopic.objects.filter(topic=topic).delete()
    Topic.objects.filter(pk=topic.pk).update(facts_extracted=False)
    _end(row, State.DONE)


@transaction.atomic
def _embed(work: BulkWork, row: BulkTopic, topic: Topic) -> None:
    """Deletes the vectors of the serving profile; the sweep of vectors makes them again within seconds."""
    profile = profiles.serving()
    passages = PassageMessage.objects.filter(owner=work.owner, message__topic=topic).values("passage")
    PassageVector.objects.filter(owner=work.owner, profile=profile, passage__in=passages).delete()
    TopicVector.objects.filter(owner=work.owner, profile=profile, topic=topic).delete()
    _end(row, State.DONE)


_ACTS: dict[BulkWork.Kind, Callable[[BulkWork, BulkTopic, Topic], None]] = {
    Kind.SUMMARISE: _summarise,
    Kind.SPLIT: _split,
    Kind.EXTRACT: _extract,
    Kind.EMBED: _embed,
}
