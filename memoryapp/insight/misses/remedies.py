"""What puts a miss right: one registry of remedies, each with the stages it fits, how it is tried, and how it is made.
Every remedy is tried before it is offered: changes of topics on the run of the miss and on past runs, changes of a run
on what it recorded. What would not help this run is not offered. What is made stands in the history."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp import curation
from memoryapp.curation import EDIT, MERGE, MOVE, Change, ChangeRequest, CurationError, knowledge
from memoryapp.curation.change import MOST_SUMMARY_CHARS
from memoryapp.curation.effect import Effect, RunEffect, effect_of
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.memory import item_id, parse_item_id, parse_topic_id, topic_id
from memoryapp.engine.text.lexical import stems
from memoryapp.engine.text.lines import one_line, shortened
from memoryapp.importers.record import MessageRecord, message
from memoryapp.importers.values import BadRecord
from memoryapp.insight.explain import Explanation
from memoryapp.insight.explain.counterfactuals import Counterfactual
from memoryapp.insight.misses import misses, trials
from memoryapp.insight.misses.misses import MissError
from memoryapp.insight.misses.trials import taken_back
from memoryapp.intake.messages import add_messages
from memoryapp.memory import sessions
from memoryapp.models import Fact, ImportBatch, KnowledgeEdit, Message, Miss, Person, RecallMode, Run, Topic, TopicEdit
from memoryapp.runs import forks
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.replays import ForkError
from memoryapp.search import items

MOST = 4
_QUOTED = 200

Made = TopicEdit | KnowledgeEdit | Run | None
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """A remedy that was tried: ``does`` says what it changes, ``result`` what that makes of this run. ``values`` make
    it; ``text`` is a text among them that people may change first, None without one. ``effect`` is that on past
    runs."""

    remedy: str
    does: str
    result: str
    values: Values = field(default_factory=dict)
    text: str | None = None
    effect: Effect | None = None

    @property
    def label(self) -> str | Promise:
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
    """``stages`` it fits; ``tries`` yields what helps, ``make`` makes what was offered or changed since. ``make``
    raises CurationError, ForkError, ParameterError, BadRecord and MissError for values that cannot be."""

    name: str
    label: str | Promise
    stages: frozenset[str]
    tries: Callable[[LostCase], Iterator[Offer]]
    make: Callable[[Miss, Values, str, Any], Made]


def offers(miss: Miss, why: Explanation, *, asks_model: bool) -> list[Offer]:
    """At most four remedies, in the order of the registry, but those last after which the scorer would still pass it
    over; none for what was erased or not lost. A chat model that writes a summary is paid for, so it is asked only for
    who may make what is offered."""
    numbers = [number for id in why.now if (number := parse_topic_id(id))]
    topics = list(Topic.objects.of(miss.owner_id).live().filter(pk__in=numbers)[:MOST])
    case = LostCase(miss, why, topics, asks_model)
    fitting = (each for each in REMEDIES.values() if why.stage in each.stages)
    tried = islice((offer for remedy in fitting for offer in _tried(remedy, case)), MOST)
    return sorted(tried, key=lambda offer: _falls_short(case, offer))


def _falls_short(case: LostCase, offer: Offer) -> bool:
    row = _on_this_run(case, offer.effect) if offer.effect else None
    return row is not None and row.is_passed_over


def _tried(remedy: Remedy, case: LostCase) -> Iterable[Offer]:
    try:
        return list(remedy.tries(case))
    except (CurationError, ProposalError, EmbeddingError):
        return ()


def apply(miss: Miss, name: str, values: Values, *, actor: str, **asked: Any) -> Miss:
    """Makes the remedy, and asks the question again. Raises MissError, and nothing is changed then."""
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
    effect = effect_of(case.miss.owner, change, case.miss.run_id)
    return effect, _on_this_run(case, effect)


def _on_this_run(case: LostCase, effect: Effect) -> RunEffect | None:
    return next((row for row in effect.rows if row.run_id == case.miss.run_id), None)


def _ranks(row: RunEffect) -> str:
    """The rank before and after, and what the preview says of it."""
    before, after = row.before.rank, row.after.rank
    if before and after and before != after:
        moved = _("From #%(before)d to #%(after)d of the candidates.") % {"before": before, "after": after}
    elif after and not before:
        moved = _would_be(after)
    else:
        moved = ""
    return f"{moved} {row.sentence}".strip()


def _would_be(rank: int) -> str:
    return _("It would be #%(after)d of the candidates.") % {"after": rank}


def _summary(case: LostCase) -> Iterator[Offer]:
    for topic in case.topics[:1]:
        id = topic_id(topic.pk)
        for text in _better_summaries(case, topic):
            effect, row = _effect(case, curation.plan_edit(case.miss.owner, topic.pk, text))
            judged = row and row.verdict == "same" and _is_judged_by(case, topic.summary, text)
            if row and (judged or row.verdict == "better"):
                does = _("The summary of %(topic)s says it.") % {"topic": id}
                seen = _("The chat model reads this line before it decides; asked again, it shows what it makes of it.")
                result = f"{_ranks(row)} {seen}" if judged else _ranks(row)
                yield Offer("summary", does, result, {"topic": id}, text, effect)
                return


def _is_judged_by(case: LostCase, before: str, text: str) -> bool:
    """Whether a chat model is what passed the topic over, and the new line says more of what was lost."""
    wanted = set(stems(case.text))
    says_more = len(wanted & set(stems(text))) > len(wanted & set(stems(before)))
    return says_more and case.why.stage in _JUDGED[:2] and proposals.is_model_connected()


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
    parsed, run = parse_item_id(case.why.topic), case.miss.run
    if parsed and parsed[0] == "Person":
        offer = Offer("pin", _("%(id)s is pinned.") % {"id": case.why.topic}, "", {"id": case.why.topic})
        yield from _told_always(case, offer)
    for topic in [each for each in case.topics if not each.recall and run][:1]:
        id, text = topic_id(topic.pk), trials.handed_over_of(run, topic) if run else ""
        messages = Message.objects.of(case.miss.owner).filter(pk__in=case.miss.evidence)
        with taken_back():
            _make_pin(case.miss, {"id": id}, "", {})
        if run and text and (not case.miss.evidence or trials.says(text, messages.values_list("text", flat=True))):
            does, effect = _("%(id)s is pinned.") % {"id": id}, trials.of_pin(topic, run)
            yield Offer("pin", does, f"{_always()} {_more_chars(len(text))}", {"id": id}, effect=effect)


def _told_always(case: LostCase, offer: Offer) -> Iterator[Offer]:
    """The offer, if every recall is told of it once it is made."""
    before = trials.always_told(case.miss.owner)
    with taken_back():
        REMEDIES[offer.remedy].make(copy(case.miss), {**offer.values, "text": offer.text or ""}, "", {})
        then = trials.always_told(case.miss.owner)
    if then != before:
        yield replace(offer, result=f"{_always()} {_more_chars(max(len(then) - len(before), 0))}")


def _always() -> str:
    return _("It is handed over with every recall, this one too.")


def _more_chars(chars: int) -> str:
    return _("Each context gets %(n)d characters more at most.") % {"n": chars}


def _make_pin(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    return knowledge.decide_recall(miss.owner, _row(miss, values), RecallMode.PINNED, actor=actor, reason=_reason(miss))


def _usual(case: LostCase) -> Iterator[Offer]:
    run = case.miss.run
    for topic in [each for each in case.topics if each.recall == RecallMode.NEVER and run][:1]:
        id, row = topic_id(topic.pk), _on_this_run(case, trials.of_search(topic, run)) if run else None
        found = _would_be(row.after.rank) if row and row.after.rank else ""
        result = f"{_('It is searched like all others.')} {found}".strip()
        yield Offer("usual", _("%(id)s may be recalled again.") % {"id": id}, result, {"id": id})


def _make_usual(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    return knowledge.decide_recall(miss.owner, _row(miss, values), "", actor=actor, reason=_reason(miss))


def _row(miss: Miss, values: Values) -> Topic | Person:
    kind, number = parse_item_id(str(values["id"])) or ("", 0)
    rows: Any = {"Topic": Topic, "Person": Person}.get(kind, Topic)._default_manager.filter(owner=miss.owner_id)
    found: Topic | Person | None = rows.filter(pk=number).first()
    if found is None:
        raise MissError(_("This memory has no such row."))
    return found


# Another person was found: a name that the question says becomes that of the right one, or a person decides on a name.


def _person(case: LostCase) -> Iterator[Offer]:
    owner, question = case.miss.owner, case.miss.question
    parsed = parse_item_id(case.why.topic)
    right = Person.objects.filter(owner=owner, pk=parsed[1]).first() if parsed and parsed[0] == "Person" else None
    if right is None:
        return
    found = trials.people_said(owner, question)
    others = Person.objects.filter(owner=owner, pk__in=[each for each in found if each != right.pk]).in_bulk()
    ahead = [others[number] for number in found if number in others][:MOST]
    names = {*right.aliases, right.display_name, right.username}
    for other in ahead:
        for name in dict.fromkeys((*other.aliases, other.username, other.display_name)):
            if name not in names and trials.is_said(name, question):
                yield from _name_moved(case, name, other, right)
                return
    namesake = next((each for each in ahead if each.display_name == right.display_name), None)
    if namesake or not any(trials.is_said(name, question) for name in names):
        yield _named_by_hand(right, namesake)


def _name_moved(case: LostCase, name: str, other: Person, right: Person) -> Iterator[Offer]:
    values = {"name": name, "from": item_id("Person", other.pk), "to": item_id("Person", right.pk)}
    before = trials.people_said(case.miss.owner, case.miss.question)
    with taken_back():
        _make_person(case.miss, values, "", {})
        then = trials.people_said(case.miss.owner, case.miss.question)
    if right.pk not in then or (right.pk in before and then.index(right.pk) >= before.index(right.pk)):
        return
    told = {"name": name, "other": f"{other} ({values['from']})", "right": f"{right} ({values['to']})"}
    if name == other.display_name:
        does = _("%(right)s is called %(name)s as well, as %(other)s is.") % told
    else:
        does = _("%(name)s is no name of %(other)s any more, but of %(right)s.") % told
    said, asked = trials.questions_saying(case.miss.owner, name)
    ranks = {"before": before.index(right.pk) + 1 if right.pk in before else 0, "after": then.index(right.pk) + 1}
    moved = _("By the words of the question it is #%(after)d of the people.") % ranks
    if ranks["before"]:
        moved = _("By the words of the question it is #%(after)d of the people, today #%(before)d.") % ranks
    past = _("%(said)d of the last %(asked)d questions say this name.") % {"said": said, "asked": asked}
    yield Offer("person", does, f"{moved} {past}", values)


def _named_by_hand(right: Person, namesake: Person | None) -> Offer:
    id = item_id("Person", right.pk)
    if namesake is None:
        does = _("How else %(id)s is called, by commas: the question has none of its names.") % {"id": id}
        return Offer("person", does, _("A question finds it by these names."), {"to": id}, ", ".join(right.aliases))
    known = next(filter(None, (right.username, one_line(right.bio)[:40], right.get_circle_display())))
    does = _("%(id)s and %(other)s have the same name; this one gets a name of its own, and keeps the other.")
    told = {"id": id, "other": item_id("Person", namesake.pk)}
    result = _("A question that says more than the name tells them apart then.")
    return Offer("person", does % told, result, {"to": id, "apart": True}, f"{right.display_name} ({known})")


def _make_person(miss: Miss, values: Values, actor: str, _asked: Any) -> Made:
    right, reason = _person_of(miss, values["to"]), _reason(miss)
    text, told = str(values.get("text", "")), dict[str, Any]()
    if "from" in values:
        source, name = _person_of(miss, values["from"]), str(values["name"])
        made = knowledge.move_name(miss.owner, name, source, right, actor=actor, reason=reason)
    else:
        told["aliases"] = [name for each in text.split(",") if (name := each.strip())]
        if values.get("apart"):
            told = {"display_name": text, "aliases": [right.display_name, *right.aliases]}
        made = knowledge.edit(miss.owner, right, told, actor=actor, reason=reason)
    # The question is asked again at once, before the worker would make the cards anew.
    items.refresh(miss.owner)
    return made


def _person_of(miss: Miss, id: object) -> Person:
    row = _row(miss, {"id": id})
    if not isinstance(row, Person):
        raise MissError(_("This memory has no such row."))
    return row


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
    run = case.miss.run
    if run is None or not case.miss.expected or (case.why.now and not case.topics):
        return
    text = _said(case)
    vectors = trials.vectors_for(_spoken(case.miss, text))
    with taken_back():
        tried = copy(case.miss)
        _make_message(tried, {"text": text}, "", {})
        effect = trials.of_messages(case.miss.owner, run, tried.evidence, case.miss.question, vectors)
    if (row := _on_this_run(case, effect)) and row.verdict == "better":
        does = _("The memory gets the question with this answer, as messages of today.")
        yield Offer("message", does, _ranks(row), {}, text, effect)


def _spoken(miss: Miss, text: str) -> list[MessageRecord]:
    now, session = timezone.now(), f"miss-{miss.pk}-{uuid.uuid4().hex[:8]}"
    return [
        message(sent_at=now, role=role, external_id=f"{session}-{role}", text=said, session=session)
        for role, said in (("user", miss.question), ("assistant", text))
    ]


def _make_message(miss: Miss, values: Values, _actor: str, _asked: Any) -> Made:
    if not str(values["text"]).strip():
        raise MissError(_("Say in a few words what should have been known."))
    spoken = _spoken(miss, values["text"])
    batch = ImportBatch.objects.create(owner=miss.owner, source=_reason(miss)[:300], format="miss", added=len(spoken))
    add_messages(miss.owner, spoken, batch=batch)
    sessions.renew(miss.owner, {spoken[0].session})
    said = Message.objects.of(miss.owner).filter(batch=batch, role="assistant")
    miss.evidence = list(said.values_list("pk", flat=True))
    return None


def _fact(case: LostCase) -> Iterator[Offer]:
    if case.miss.expected and not case.why.now:
        does, text = _("The memory gets it as a pinned fact."), shortened(one_line(case.miss.expected), 500)
        yield from _told_always(case, Offer("fact", does, "", {}, text))


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
        (
            "person",
            gettext_lazy("Correct the person"),
            (*_BELOW, *_JUDGED[:2], *_CUT, "no_vector"),
            _person,
            _make_person,
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
