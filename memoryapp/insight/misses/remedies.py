"""What puts a miss right: one registry of remedies, each with the stages it fits, how it is tried, and how it is made.

Every remedy is tried before it is offered: changes of topics on the run of the miss and on past runs, changes of a
run on what it recorded. What would not help this run is not offered. What is made stands in the history.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp import curation
from memoryapp.curation import EDIT, MERGE, MOVE, Change, ChangeRequest, CurationError, knowledge
from memoryapp.curation.change import MOST_SUMMARY_CHARS
from memoryapp.curation.effect import Effect, RunEffect, effect_of
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import parse_item_id, parse_topic_id, topic_id
from memoryapp.engine.text.lines import one_line, shortened
from memoryapp.importers.record import message
from memoryapp.importers.values import BadRecord
from memoryapp.insight.explain import Explanation
from memoryapp.insight.explain.counterfactuals import Counterfactual
from memoryapp.insight.misses import misses
from memoryapp.insight.misses.misses import MissError
from memoryapp.intake.messages import add_messages
from memoryapp.memory import sessions
from memoryapp.models import Fact, ImportBatch, KnowledgeEdit, Message, Miss, Person, RecallMode, Run, Topic, TopicEdit
from memoryapp.runs import forks
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.replays import ForkError

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST = 4
_QUOTED = 200

Made = TopicEdit | KnowledgeEdit | Run | None
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """A remedy that was tried: ``does`` says what it changes, ``result`` what that makes of this run.

    ``values`` make it; ``text`` is a text among them that people may change first. ``effect`` is that on past runs.
    """

    remedy: str
    does: str
    result: str
    values: Values = field(default_factory=dict)
    text: str = ""
    effect: Effect | None = None

    @property
    def label(self) -> StrOrPromise:
        return REMEDIES[self.remedy].label


@dataclass(frozen=True, slots=True)
class LostCase:
    """The miss with what Why not? says of it, the live topics that hold what was lost, and whether a connected chat
    model may be asked, which costs money."""

    miss: Miss
    why: Explanation
    topics: Sequence[Topic]
    asks_model: bool

    @property
    def text(self) -> str:
        return self.miss.expected or self.miss.question


@dataclass(frozen=True, slots=True)
class Remedy:
    """``stages`` it fits; ``tries`` yields what helps, ``make`` makes what was offered or changed since.

    ``make`` raises CurationError, ForkError, ParameterError, BadRecord and MissError for values that cannot be.
    """

    name: str
    label: StrOrPromise
    stages: frozenset[str]
    tries: Callable[[LostCase], Iterator[Offer]]
    make: Callable[[Miss, Values, str, Any], Made]


def offers(miss: Miss, why: Explanation, *, asks_model: bool) -> list[Offer]:
    """At most four remedies, in the order of the registry; none for what was erased or not lost. A chat model that
    writes a summary is paid for, so it is asked only for who may make what is offered."""
    numbers = [number for id in why.now if (number := parse_topic_id(id))]
    topics = list(Topic.objects.of(miss.owner_id).live().filter(pk__in=numbers)[:MOST])
    case = LostCase(miss, why, topics, asks_model)
    fitting = (each for each in REMEDIES.values() if why.stage in each.stages)
    return list(islice((offer for remedy in fitting for offer in _tried(remedy, case)), MOST))


def _tried(remedy: Remedy, case: LostCase) -> Iterable[Offer]:
    try:
        return list(remedy.tries(case))
    except (CurationError, ProposalError, EmbeddingError):
        return ()


def apply(miss: Miss, name: str, values: Values, *, actor: str, **asked: Any) -> Miss:
    """Makes the remedy, and asks the question again. Raises MissError with a sentence for people, and nothing is
    changed then."""
    remedy = REMEDIES.get(name)
    if remedy is None:
        raise MissError(_("There is no such remedy."))
    try:
        with transaction.atomic():
            # Two people may press their buttons at once.
            state, made = Miss.objects.select_for_update().values_list("state", "remedy").get(pk=miss.pk)
            if state == Miss.State.DISMISSED or made:
                raise MissError(_("This is decided already; undo that first."))
            return misses.repaired(miss, name, remedy.make(miss, values, actor, asked), **asked)
    except (CurationError, ForkError, ParameterError, BadRecord) as error:
        raise MissError(str(error)) from error
    except MissError:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        raise MissError(_("These values are none that this remedy takes.")) from error


# Changes of topics: a summary that says it, the merge with a topic that is found, a split.


def _effect(case: LostCase, change: Change) -> tuple[Effect, RunEffect | None]:
    effect = effect_of(case.miss.owner, change)
    return effect, next((row for row in effect.rows if row.run_id == case.miss.run_id), None)


def _ranks(row: RunEffect) -> str:
    """The rank before and after, and what the preview says of it."""
    before, after = row.before.rank, row.after.rank
    if before and after and before != after:
        moved = _("From #%(before)d to #%(after)d of the candidates.") % {"before": before, "after": after}
    elif after and not before:
        moved = _("It would be #%(after)d of the candidates.") % {"after": after}
    else:
        moved = ""
    return f"{moved} {row.sentence}".strip()


def _summary(case: LostCase) -> Iterator[Offer]:
    for topic in case.topics[:1]:
        id = topic_id(topic.pk)
        for text in _better_summaries(case, topic):
            effect, row = _effect(case, curation.plan_edit(case.miss.owner, topic.pk, text))
            if row and row.verdict == "better":
                does = _("The summary of %(topic)s says it.") % {"topic": id}
                yield Offer("summary", does, _ranks(row), {"topic": id}, text, effect)
                return


def _better_summaries(case: LostCase, topic: Topic) -> Iterator[str]:
    """The summary with the words of the message itself, and with those of the question; and what a connected model
    writes, which is asked once for each topic."""
    if case.asks_model and proposals.is_model_connected():
        with suppress(ProposalError):
            yield proposals.summary_written(case.miss.owner, topic, "")
    said, now = _said(case), topic.summary.rstrip(" .;")
    yield shortened(f"{now}; {said}", MOST_SUMMARY_CHARS)
    yield shortened(f"{said} {case.miss.question} {now}", MOST_SUMMARY_CHARS)


def _said(case: LostCase) -> str:
    """What the messages say, shortened."""
    rows = Message.objects.of(case.miss.owner).filter(pk__in=case.miss.evidence).in_order()
    return shortened(one_line(" ".join(rows.values_list("text", flat=True)[:2]) or case.text), _QUOTED)


def _make_summary(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    request = ChangeRequest(EDIT, miss.owner, (_number(values["topic"]),), summaries=(str(values["text"]),))
    return curation.make(request, actor=actor, reason=_reason(miss)).edit


def _merge(case: LostCase) -> Iterator[Offer]:
    for each in case.why.counterfactuals:
        if each.merge:
            numbers = [_number(id) for id in each.merge]
            effect, row = _effect(case, curation.plan_merge(case.miss.owner, numbers))
            result = _ranks(row) if row and row.verdict == "better" else each.result
            if row is None or row.verdict != "worse":
                yield Offer("merge", each.change, result, {"topics": list(each.merge)}, effect=effect)


def _make_merge(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    one, other = map(_number, values["topics"])
    request = ChangeRequest(MERGE, miss.owner, (one, other))
    return curation.make(request, actor=actor, reason=_reason(miss)).edit


def _split(case: LostCase) -> Iterator[Offer]:
    """The messages that say it as a topic of their own."""
    rows = Message.objects.of(case.miss.owner).filter(pk__in=case.miss.evidence, topic__isnull=False)
    numbers = list(rows.values_list("pk", flat=True))
    if numbers and case.topics:
        text = _said(case)
        effect, row = _effect(case, curation.plan_move(case.miss.owner, numbers, None, text))
        if row and row.verdict == "better":
            does = _("What says it leaves %(topic)s and becomes a topic of its own.")
            yield Offer("split", does % {"topic": topic_id(case.topics[0].pk)}, _ranks(row), {}, text, effect)


def _make_split(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    request = ChangeRequest(MOVE, miss.owner, messages=tuple(miss.evidence), summaries=(str(values["text"]),))
    return curation.make(request, actor=actor, reason=_reason(miss)).edit


# Decisions about recall.


def _pin(case: LostCase) -> Iterator[Offer]:
    parsed = parse_item_id(case.why.topic)
    if parsed and parsed[0] == "Person":
        yield Offer("pin", _("%(id)s is pinned.") % {"id": case.why.topic}, _always(), {"id": case.why.topic})
    for topic in [each for each in case.topics if not each.recall][:1]:
        id = topic_id(topic.pk)
        size = _("It takes %(n)d characters of each context at most.") % {"n": topic.size_chars}
        yield Offer("pin", _("%(id)s is pinned.") % {"id": id}, f"{_always()} {size}", {"id": id})


def _always() -> str:
    return _("It is handed over with every recall, this one too.")


def _make_pin(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    return knowledge.decide_recall(miss.owner, _row(miss, values), RecallMode.PINNED, actor=actor, reason=_reason(miss))


def _usual(case: LostCase) -> Iterator[Offer]:
    for topic in [each for each in case.topics if each.recall == RecallMode.NEVER][:1]:
        id = topic_id(topic.pk)
        yield Offer(
            "usual", _("%(id)s may be recalled again.") % {"id": id}, _("It is searched like all others."), {"id": id}
        )


def _make_usual(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    return knowledge.decide_recall(miss.owner, _row(miss, values), "", actor=actor, reason=_reason(miss))


def _row(miss: Miss, values: Values) -> Topic | Person:
    kind, number = parse_item_id(str(values["id"])) or ("", 0)
    rows: Any = {"Topic": Topic, "Person": Person}.get(kind, Topic)._default_manager.filter(owner=miss.owner_id)
    found: Topic | Person | None = rows.filter(pk=number).first()
    if found is None:
        raise MissError(_("This memory has no such row."))
    return found


# The run itself with another value: a limit, a threshold, without a filter, without the enricher.


def _fork(case: LostCase) -> Iterator[Offer]:
    forked = [each for each in case.why.counterfactuals if each.changes is not None]
    for each in sorted(forked, key=lambda each: not each.shown)[:2]:
        yield Offer("fork", each.change, each.result, {"turn": each.turn, "changes": _plain(each)})


def _plain(each: Counterfactual) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in (each.changes or {}).items()}


def _make_fork(miss: Miss, values: Values, _actor: str, asked: Any) -> Made:
    if miss.run is None:
        raise MissError(_("The run of this miss is gone."))
    turn = values.get("turn")
    return forks.fork(miss.run, turn=None if turn is None else int(turn), changes=dict(values["changes"]), **asked)


# What the memory does not have: said now, as a message that is searched or a fact that is always known.


def _message(case: LostCase) -> Iterator[Offer]:
    if case.miss.expected and (case.topics or not case.why.now):
        does = _("The memory gets the question with this answer, as messages of today.")
        yield Offer("message", does, _("The next search finds it, by words and by meaning."), {}, _said(case))


def _make_message(miss: Miss, values: Values, _actor: str, _asked: Any) -> Made:
    if not str(values["text"]).strip():
        raise MissError(_("Say in a few words what should have been known."))
    now, session = timezone.now(), f"miss-{miss.pk}-{uuid.uuid4().hex[:8]}"
    spoken = [
        message(sent_at=now, role=role, external_id=f"{session}-{role}", text=text, session=session)
        for role, text in (("user", miss.question), ("assistant", values["text"]))
    ]
    batch = ImportBatch.objects.create(owner=miss.owner, source=_reason(miss)[:300], format="miss", added=len(spoken))
    add_messages(miss.owner, spoken, batch=batch)
    sessions.renew(miss.owner, {session})
    said = Message.objects.of(miss.owner).filter(batch=batch, role="assistant")
    miss.evidence = list(said.values_list("pk", flat=True))
    return None


def _fact(case: LostCase) -> Iterator[Offer]:
    if case.miss.expected and not case.why.now:
        does = _("The memory gets it as a pinned fact.")
        yield Offer("fact", does, _always(), {}, shortened(one_line(case.miss.expected), 500))


def _make_fact(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    said = {
        "content": str(values["text"]),
        "relation": "user",
        "category": "other",
        "type": Fact.Type.CONTEXT,
        "importance": 50,
    }
    made = knowledge.create(
        miss.owner, KnowledgeEdit.Noun.FACT, said, actor=actor, reason=_reason(miss), recall=RecallMode.PINNED
    )
    miss.lost, miss.evidence = f"Fact:{knowledge.number_made(made)}", []
    return made


def _again(case: LostCase) -> Iterator[Offer]:
    does = _("The question is asked of the memory as it is now.")
    known = _("What was missing then is there today: %(topics)s.") % {"topics": ", ".join(case.why.now)}
    yield Offer("again", does, known if case.why.now else _("Nothing is changed."))


def _nothing(_miss: Miss, _values: Values, _actor: str, _asked: Any) -> Made:
    return None


def _number(id: object) -> int:
    number = parse_topic_id(str(id))
    if not number:
        raise MissError(_("This memory has no such row."))
    return number


def _reason(miss: Miss) -> str:
    return _("Miss: %(question)s") % {"question": shortened(one_line(miss.question), _QUOTED)}


_BELOW = ("below_threshold", "beyond_candidates")
_JUDGED = ("not_requested", "not_chosen", "not_used")
_CUT = ("cut", "beyond_limit", "did_not_fit")
REMEDIES: Mapping[str, Remedy] = {
    name: Remedy(name, label, frozenset(stages), tries, make)
    for name, label, stages, tries, make in (
        ("usual", gettext_lazy("Recall it again"), ("filtered",), _usual, _make_usual),
        (
            "summary",
            gettext_lazy("A better summary"),
            (*_BELOW, "not_requested", "not_chosen", "cut"),
            _summary,
            _make_summary,
        ),
        ("merge", gettext_lazy("Merge with the topic that is found"), _BELOW, _merge, _make_merge),
        (
            "split",
            gettext_lazy("A topic of its own"),
            (*_BELOW, *_JUDGED[:2], *_CUT, "not_in_context"),
            _split,
            _make_split,
        ),
        ("pin", gettext_lazy("Pin it"), (*_BELOW, *_JUDGED[:2], *_CUT, "no_vector"), _pin, _make_pin),
        ("message", gettext_lazy("Add the message"), ("unknown", *_BELOW, *_JUDGED[:2]), _message, _make_message),
        ("fact", gettext_lazy("Add a fact"), ("unknown",), _fact, _make_fact),
        ("fork", gettext_lazy("Fork the run"), (*_BELOW, *_JUDGED, *_CUT, "filtered"), _fork, _make_fork),
        (
            "again",
            gettext_lazy("Ask again now"),
            ("in_session", "no_vector", "not_searched", "unknown"),
            _again,
            _nothing,
        ),
    )
}
