"""Work on many topics at once: their summaries, cuts, facts or vectors made again.

In: a chat user, numbers of topics and what to do with each. Out: rows that the worker carries out one after another,
each change an edit like any other, and one undo for all. No model is asked in a transaction, and a process may be
killed at any moment: the rows say what is left. It imports the models, ``curation``, ``proposals``, ``search`` and what
``ingestion`` knows of prices."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import ChangeRequest, CurationError
from memoryapp.curation.suggestions import proposals, take_back_edits
from memoryapp.curation.suggestions.proposals import ProposalError, is_model_connected
from memoryapp.curation.topic_writer import settled_by_hand
from memoryapp.engine.agents import archivist, merger, splitter
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.memory.forecast import CHARS_A_TOKEN, QUESTION_TOKENS, TIMES_EMBEDDED, price_of_token
from memoryapp.models import (
    BulkTopic,
    BulkWork,
    ChatUser,
    PassageMessage,
    PassageVector,
    Topic,
    TopicEdit,
    TopicVector,
    UnreadTopic,
)
from memoryapp.platform.database import is_outage, log_fault, waiting
from memoryapp.search import profiles

# Asks for work on many topics, stops it, and takes it back; and says what it will take.

# So many rows are written in one statement.
_ROWS = 5_000
Kind, State = BulkWork.Kind, BulkWork.State
_AGENTS = {Kind.SUMMARISE: merger.AGENT.name, Kind.SPLIT: splitter.AGENT.name, Kind.EXTRACT: archivist.AGENT.name}


@dataclass(frozen=True, slots=True)
class BulkForecast:
    """An estimate for ``topics``: how many questions to a chat model, how many tokens are sent to models, and dollars,
    None when no price is known. ``refusal`` is a sentence if it cannot be done here."""

    kind: BulkWork.Kind
    topics: int
    calls: int
    tokens: int
    cost_usd: float | None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class BulkProgress:
    """How many topics are in each state; ``edits`` counts the changes that an undo would take back."""

    waiting: int
    done: int
    unchanged: int
    failed: int
    edits: int

    @property
    def total(self) -> int:
        return self.waiting + self.done + self.unchanged + self.failed

    @property
    def share(self) -> float:
        return 1 - self.waiting / self.total if self.total else 1.0


# Numbers of topics, or the statement that finds them.
Numbers = Sequence[int] | QuerySet[Topic, int]


def forecast(owner: ChatUser, topics: Numbers) -> list[BulkForecast]:
    """What each kind of work on these live topics would take."""
    sums = Topic.objects.of(owner).live().filter(pk__in=topics).aggregate(n=Count("pk"), chars=Sum("size_chars"))
    return [_forecast(kind, sums["n"], sums["chars"] or 0) for kind in Kind]


def _forecast(kind: BulkWork.Kind, topics: int, chars: int) -> BulkForecast:
    if kind == Kind.LABEL:
        return BulkForecast(kind, topics, 0, 0, 0.0)
    if kind == Kind.EMBED:
        tokens = round(chars * TIMES_EMBEDDED / CHARS_A_TOKEN)
        is_free = not settings.EMBEDDING_BASE_URL
        price = settings.EMBEDDING_PRICE / 1_000_000 if settings.EMBEDDING_PRICE >= 0 else None
        return BulkForecast(kind, topics, 0, tokens, 0.0 if is_free else None if price is None else tokens * price)
    if not is_model_connected():
        return BulkForecast(kind, topics, 0, 0, 0.0, _refusal(kind))
    tokens = chars // CHARS_A_TOKEN + topics * QUESTION_TOKENS
    dollars = price_of_token(_AGENTS[kind])
    return BulkForecast(kind, topics, topics, tokens, None if dollars is None else tokens * dollars)


def _refusal(kind: BulkWork.Kind) -> str:
    """Why it cannot be done without a chat model; empty if it can."""
    if is_model_connected() or kind in (Kind.SPLIT, Kind.EMBED, Kind.LABEL):
        return ""
    if kind == Kind.EXTRACT:
        return _("No chat model is connected to extract facts.")
    return _("No chat model is connected to write summaries.")


@transaction.atomic
def ask(
    owner: ChatUser, topics: Numbers, kind: BulkWork.Kind, by: str, *, expected: int | None = None, project: str = ""
) -> BulkWork:
    """Asks the worker to do it with these topics, the oldest first. Raises CurationError where none is live, where they
    are not as many as ``expected``, or where it cannot be done here."""
    found = Topic.objects.of(owner).live().filter(pk__in=topics).order_by("ended_at", "pk")
    live = list(found.values_list("pk", flat=True))
    if not live:
        raise CurationError(_("Choose at least one live topic."))
    if expected not in (None, len(live)):
        raise CurationError(_("The list has changed meanwhile: it has %(n)d topics now.") % {"n": len(live)})
    if refusal := _refusal(kind):
        raise CurationError(refusal)
    made = BulkWork.objects.create(owner=owner, kind=kind, project=project, asked_by=by[:150])
    BulkTopic.objects.bulk_create((BulkTopic(owner=owner, work=made, topic_id=each) for each in live), _ROWS)
    return made


def stop(work: BulkWork) -> bool:
    """The worker begins no further topic of it; what is done stays. False if it was over."""
    return bool(BulkWork.objects.filter(pk=work.pk, state=State.GOING_ON).update(state=State.STOPPED))


def go_on(work: BulkWork) -> bool:
    """The worker goes on with the topics that wait since it was stopped. False if it was not, or none waits."""
    waits = work.rows.filter(state=BulkTopic.State.WAITING).exists()
    return waits and bool(BulkWork.objects.filter(pk=work.pk, state=State.STOPPED).update(state=State.GOING_ON))


def progress(work: BulkWork) -> BulkProgress:
    counts = Counter(dict(work.rows.order_by().values_list("state").annotate(n=Count("pk"))))
    state = BulkTopic.State
    edits = work.rows.filter(edit__isnull=False).count()
    return BulkProgress(counts[state.WAITING], counts[state.DONE], counts[state.UNCHANGED], counts[state.FAILED], edits)


def undo(work: BulkWork, *, actor: str) -> tuple[int, int]:
    """Stops it and takes back its edits, the latest first. Returns how many were undone, and how many stay because a
    later change depends on them or they were undone already."""
    stop(work)
    edits = list(TopicEdit.objects.filter(pk__in=work.rows.filter(edit__isnull=False).values("edit")))
    undone = take_back_edits(work.owner, edits, actor=actor)
    if undone:
        BulkWork.objects.filter(pk=work.pk).update(state=State.UNDONE)
    return undone, len(edits) - undone


# Carries out work on many topics, one topic after another.
#
# The question to a model is asked first, outside of any transaction; then the edit and the row's state are written
# together. A topic that was replaced meanwhile, or that a person edited, is left as it is. If a model does not
# answer, the work rests and goes on with the same topic, which fails after ``MOST_TRIES``.

MOST_TRIES = 3
REST = timedelta(seconds=30)
KindOfTopic, StateOfTopic = BulkWork.Kind, BulkTopic.State


def going_on() -> QuerySet[BulkWork]:
    """The works that have something left to do and do not rest, the earliest first."""
    rows = BulkWork.objects.filter(~waiting("rests_until", REST * 2 ** (MOST_TRIES - 1)), state=BulkWork.State.GOING_ON)
    rows = rows.filter(owner__erasing_since__isnull=True)
    return rows.select_related("owner").order_by("pk")


def carry_on(work: BulkWork, *, until: Callable[[], bool] = lambda: False) -> int:
    """Does the topics that wait, until ``until`` says that it is enough, somebody stops it, or a model fails. Returns
    how many it did. Only one process at a time may call it for a work."""
    done = 0
    while not until() and _is_wanted(work):
        row = work.rows.filter(state=StateOfTopic.WAITING).select_related("topic").order_by("pk").first()
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
        return _end(row, StateOfTopic.UNCHANGED, _("It was replaced meanwhile."))
    try:
        _ACTS[KindOfTopic(work.kind)](work, row, topic)
    except (ProposalError, EmbeddingError) as error:
        return _postpone(work, row, str(error))
    except CurationError as error:
        return _end(row, StateOfTopic.UNCHANGED, str(error))
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
        return _end(row, StateOfTopic.FAILED, fault)
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


def _label(work: BulkWork, row: BulkTopic, topic: Topic) -> None:
    wanted = ChangeRequest(curation.LABEL, work.owner, (topic.pk,), project=work.project)
    _make(work, row, wanted, by_hand=True)


@transaction.atomic
def _make(work: BulkWork, row: BulkTopic, wanted: ChangeRequest, *, by_hand: bool = False) -> None:
    _end(row, StateOfTopic.DONE, edit=curation.make(wanted, actor=work.asked_by, by_hand=by_hand).edit)


@transaction.atomic
def _extract(work: BulkWork, row: BulkTopic, topic: Topic) -> None:
    """Hands the topic to the archivist, whose sweep reads it within a minute."""
    UnreadTopic.objects.filter(topic=topic).delete()
    Topic.objects.filter(pk=topic.pk).update(facts_extracted=False)
    _end(row, StateOfTopic.DONE)


@transaction.atomic
def _embed(work: BulkWork, row: BulkTopic, topic: Topic) -> None:
    """Deletes the vectors of the serving profile; the sweep of vectors makes them again within seconds."""
    profile = profiles.serving()
    passages = PassageMessage.objects.filter(owner=work.owner, message__topic=topic).values("passage")
    PassageVector.objects.filter(owner=work.owner, profile=profile, passage__in=passages).delete()
    TopicVector.objects.filter(owner=work.owner, profile=profile, topic=topic).delete()
    _end(row, StateOfTopic.DONE)


_ACTS: dict[BulkWork.Kind, Callable[[BulkWork, BulkTopic, Topic], None]] = {
    KindOfTopic.SUMMARISE: _summarise,
    KindOfTopic.SPLIT: _split,
    KindOfTopic.EXTRACT: _extract,
    KindOfTopic.EMBED: _embed,
    KindOfTopic.LABEL: _label,
}
