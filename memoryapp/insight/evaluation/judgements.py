"""What people think of answers and of candidates, and the golden questions made of it.

In: an operator's judgement of an answer, or their grade of a candidate. Out: what all operators think of the
candidates of a run, the nDCG of its order, and golden questions with the messages that answer them. Grades lie on
messages, so they survive every edit of topics. The room imports runs and the models."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.outline import Outline
from memoryapp.models import ChatUser, GoldenQuestion, Grade, Judgement, Message, PassageMessage, Run, TopicMessage
from memoryapp.platform.statements import fetched
from memoryapp.runs import followers
from memoryapp.runs.recall_document import answer_of

# Operators' grades of the candidates of a run, and how well its order agrees with them.
#
# A topic is graded through its messages: a good grade lies on what was quoted, or else on the passage that was found,
# the grade 0 on all messages, because none of them answers the query. So the best grade of a topic's messages is its
# own, whatever edits made of the topic since. Grades count for every run of the same query; an operator's last one
# counts.

LEAST, MOST = 0, 2
# A grade from which a message counts as evidence.
RELEVANT = 1
_SQL = table_beside(__file__)
GIVEN: str = _SQL["given"]


class GradeError(ValueError):
    """A grade that cannot be given; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What operators think of a candidate: the reader's ``own`` grade, None without one, and those of all by name."""

    own: int | None = None
    by_name: Mapping[str, int] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return fmean(self.by_name.values())

    @property
    def is_disputed(self) -> bool:
        return len(set(self.by_name.values())) > 1


@dataclass(frozen=True, slots=True)
class RunGrades:
    """``opinions`` by id of the candidates that anybody graded; how many of the ``shown`` ones the reader has
    ``graded``; and the nDCG of the run's order (chosen first, then as found) and of the search's, None where nothing
    relevant is known."""

    opinions: Mapping[str, Opinion]
    shown: int
    graded: int
    ndcg: float | None
    search_ndcg: float | None

    @property
    def disputed(self) -> int:
        return sum(each.is_disputed for each in self.opinions.values())

    @property
    def relevant(self) -> int:
        return sum(each.mean >= RELEVANT for each in self.opinions.values())


def grade(run: Run, operator: User, value: int | None, *, topic: str) -> None:
    """Stores the operator's grade of a candidate; None takes an earlier one back. Raises GradeError."""
    if value is not None and not LEAST <= value <= MOST:
        raise GradeError(_("A grade is 0, 1 or 2."))
    outline = _outline(run)
    if outline.topic(topic) is None:
        raise GradeError(_("%(id)s is not among the candidates of this run.") % {"id": topic[:60]})
    every = _messages(run, outline, topic)
    _store(run, operator, value, every, _telling(run, outline, topic, every) if value else every)


def grade_message(run: Run, operator: User, value: int | None, *, message: int) -> None:
    """The same for one message, such as a source of an answer. Raises GradeError."""
    if value is not None and not LEAST <= value <= MOST:
        raise GradeError(_("A grade is 0, 1 or 2."))
    if not Message.objects.of(run.owner_id).filter(pk=message).exists():
        raise GradeError(_("This memory has no such message."))
    _store(run, operator, value, [message], [message])


def own_grade(run: Run, operator: User, message: int) -> Opinion:
    rows = Grade.objects.filter(owner=run.owner_id, run__query=run.query, operator=operator, message=message)
    return Opinion(rows.order_by("-at").values_list("value", flat=True).first())


def _store(run: Run, operator: User, value: int | None, every: Sequence[int], graded: Sequence[int]) -> None:
    earlier = Grade.objects.filter(owner=run.owner_id, run__query=run.query, operator=operator, message__in=every)
    with transaction.atomic():
        # Two clicks at once would both delete nothing and then both insert.
        Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        earlier.delete()
        if value is not None:
            Grade.objects.bulk_create(
                Grade(owner_id=run.owner_id, run=run, message_id=number, operator=operator, value=value)
                for number in graded
            )


def _outline(run: Run) -> Outline:
    return Outline.of([item.event for item in followers.stored(run.pk)])


def _messages(run: Run, outline: Outline, id: str) -> list[int]:
    """All messages of a candidate that are still there."""
    listed = outline.found.sessions.get(id) if outline.found else None
    if listed is not None:
        return list(Message.objects.of(run.owner_id).filter(pk__in=list(listed)).values_list("pk", flat=True))
    rows = TopicMessage.objects.filter(owner=run.owner_id, topic=parse_topic_id(id))
    return list(rows.values_list("message", flat=True))


def _telling(run: Run, outline: Outline, id: str, every: Sequence[int]) -> Sequence[int]:
    """The messages for which a candidate is relevant."""
    selected, candidate = outline.selected(id), outline.topic(id)
    quoted = {piece.message for piece in selected.excerpt if piece.message} if selected else set()
    if not quoted and candidate and candidate.passage_id:
        rows = PassageMessage.objects.filter(owner=run.owner_id, passage=candidate.passage_id)
        quoted = set(rows.values_list("message", flat=True))
    return [number for number in every if number in quoted] or every


def grades_of(run: Run, reader: User | None) -> RunGrades:
    """What operators think of the candidates of a finished run; four statements."""
    outline = _outline(run)
    if outline.found is None:
        return RunGrades({}, 0, 0, None, None)
    ranked = [candidate.id for candidate in outline.found.candidates]
    operator = reader.pk if reader else -1
    given = fetched(GIVEN, {"owner": run.owner_id, "query": run.query, "operator": operator})
    holders = _holders(run, {message for message, *_rest in given}, ranked, outline.found.sessions)
    by_name: dict[str, dict[str, int]] = defaultdict(dict)
    own: dict[str, int] = {}
    for message, name, value, is_own in given:
        for id in holders.get(message, ()):
            by_name[id][name] = max(value, by_name[id].get(name, 0))
            if is_own:
                own[id] = max(value, own.get(id, 0))
    opinions = {id: Opinion(own.get(id), names) for id, names in by_name.items()}
    chosen = [each.id for each in outline.finished.selected] if outline.finished else []
    means = {id: opinion.mean for id, opinion in opinions.items()}
    shown = [candidate.id for candidate in outline.found.shown]
    graded = sum(id in opinions and opinions[id].own is not None for id in shown)
    return RunGrades(opinions, len(shown), graded, ndcg([*chosen, *ranked], means), ndcg(ranked, means))


def _holders(
    run: Run, messages: Iterable[int], ids: Sequence[str], sessions: Mapping[str, Sequence[int]]
) -> Mapping[int, Sequence[str]]:
    """The candidates that hold each message."""
    found: dict[int, list[str]] = defaultdict(list)
    topics = [number for id in ids if (number := parse_topic_id(id)) and number > 0]
    rows = TopicMessage.objects.filter(owner=run.owner_id, topic__in=topics, message__in=list(messages))
    for topic, message in rows.values_list("topic_id", "message_id"):
        found[message].append(topic_id(topic))
    for id, listed in sessions.items():
        for message in listed:
            found[message].append(id)
    return found


def ndcg(order: Iterable[str], grades: Mapping[str, float]) -> float | None:
    """The normalised discounted cumulative gain of the graded ids in this order, from 0 to 1, with gains of 2^grade − 1
    (Burges et al., 2005); ids without a grade are left out (Sakai, 2007). None where nothing relevant was graded."""
    seen = [grades[id] for id in dict.fromkeys(order) if id in grades]
    best = _gain(sorted(seen, reverse=True))
    return _gain(seen) / best if best else None


def _gain(grades: Sequence[float]) -> float:
    return sum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))


# Operators' judgements of answers, and the golden questions made from them.
#
# A question with an answer that somebody judged good, and nobody bad, is labelled: the cited messages are known to
# answer it, or nothing is known to answer it if it was rightly refused. An evaluation reads such questions like all
# others.

CATEGORY = "judged"


def judge(run: Run, operator: User, is_good: bool | None) -> None:
    """Stores the operator's judgement of the run's answer; None deletes it."""
    if is_good is None:
        Judgement.objects.filter(run=run, operator=operator).delete()
        return
    values = {"owner": run.owner, "is_good": is_good}
    Judgement.objects.update_or_create(run=run, operator=operator, defaults=values)


def questions(owner: ChatUser) -> Iterator[dict[str, Any]]:
    """Yields a golden question for each question with a good answer, as a line of a file for ``evaluate``. The newest
    answer counts. An answer whose messages were erased is left out."""
    asked = set()
    bad = Judgement.objects.filter(owner=owner, is_good=False).values("run")
    good = Judgement.objects.filter(owner=owner, is_good=True).values("run")
    for run in Run.objects.of(owner).filter(pk__in=good).exclude(pk__in=bad).order_by("-created_at", "-id"):
        expected = _expected(run)
        if expected and run.query not in asked:
            asked.add(run.query)
            fields = {"user": owner.name, "qid": str(run.pk), "question": run.query}
            yield {**fields, "category": CATEGORY, **expected}


def _expected(run: Run) -> dict[str, Any]:
    """Returns what a good answer of this run expects to be found; empty when it does not say."""
    answered = answer_of([item.event for item in followers.stored(run.pk)])
    if answered is None:
        return {}
    if answered.outcome == "refused":
        return {"unanswerable": True}
    # As they were sent, in the order of the citations.
    numbers = [citation.message for citation in answered.citations]
    messages = Message.objects.of(run.owner_id).in_bulk(numbers)
    evidence = [messages[number].external_id for number in dict.fromkeys(numbers) if number in messages]
    return {"evidence": evidence} if evidence else {}


# Golden questions in named sets, made from grades or by hand.

LONGEST_NAME = 80
LONGEST_QUESTION = 4_000
MOST_EVIDENCE = 200
MOST_COLLECTIONS = 100


class GoldenError(ValueError):
    """A golden question that cannot be; the text is a sentence for people."""


def collections(owners: QuerySet[ChatUser]) -> list[Any]:
    """The sets with questions about these memories: ``collection``, ``n`` and ``at``, the latest first."""
    rows = GoldenQuestion.objects.filter(owner__in=owners).values("collection")
    return list(rows.annotate(n=Count("pk"), at=Max("at")).order_by("-at")[:MOST_COLLECTIONS])


def from_grades(run: Run, collection: str, by: str) -> GoldenQuestion:
    """The query of the run with the messages that operators on average found relevant. Raises GoldenError."""
    values: dict[int, list[int]] = defaultdict(list)
    for message, _name, value, _is_own in fetched(GIVEN, {"owner": run.owner_id, "query": run.query, "operator": -1}):
        values[message].append(value)
    relevant = [message for message, given in values.items() if fmean(given) >= RELEVANT]
    if not relevant:
        raise GoldenError(_("Mark at least one candidate as relevant; its messages become the evidence."))
    return save(run.owner, collection, run.query, relevant, by)


def save(
    owner: ChatUser, collection: str, question: str, evidence: Sequence[int], by: str, category: str = ""
) -> GoldenQuestion:
    """The question of that set, made anew or with this evidence in place of the earlier one. Raises GoldenError."""
    name, words = storable(collection).strip(), storable(question).strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or "/" in name:
        raise GoldenError(
            _("The name of a set is one line of at most %(most)d characters without a slash.") % {"most": LONGEST_NAME}
        )
    if not words or len(words) > LONGEST_QUESTION:
        raise GoldenError(_("A question has 1 to %(most)d characters.") % {"most": LONGEST_QUESTION})
    known = Message.objects.of(owner).filter(pk__in=list(evidence)[: MOST_EVIDENCE + 1]).values_list("pk", flat=True)
    numbers = sorted(known)
    if len(numbers) > MOST_EVIDENCE:
        raise GoldenError(_("A question has at most %(most)d messages of evidence.") % {"most": MOST_EVIDENCE})
    with transaction.atomic():
        ChatUser.objects.select_for_update(of=("self",)).get(pk=owner.pk)
        made, _is_new = GoldenQuestion.objects.update_or_create(
            owner=owner,
            collection=name,
            question=words,
            defaults={"evidence": numbers, "made_by": by, "category": category.strip()[:60]},
        )
    return made


def change(row: GoldenQuestion, question: str, evidence: Sequence[int], by: str, category: str) -> None:
    """Another wording or evidence of a question that is there. Raises GoldenError."""
    words = storable(question).strip()
    same = GoldenQuestion.objects.filter(owner=row.owner_id, collection=row.collection, question=words)
    if same.exclude(pk=row.pk).exists():
        raise GoldenError(_("This set has another question in the same words."))
    with transaction.atomic():
        # So that ``save`` finds it under its new words.
        GoldenQuestion.objects.filter(pk=row.pk).update(question=words or row.question)
        save(row.owner, row.collection, question, evidence, by, category)


def messages_named(owner: ChatUser, typed: str) -> list[int]:
    """The numbers of messages named by their ids, one a line or separated by commas. Raises GoldenError."""
    names = list(dict.fromkeys(name.strip() for line in typed.splitlines() for name in line.split(",") if name.strip()))
    if len(names) > MOST_EVIDENCE:
        raise GoldenError(_("A question has at most %(most)d messages of evidence.") % {"most": MOST_EVIDENCE})
    names = [name.replace("\0", "")[:300] for name in names]
    found = dict(Message.objects.of(owner).filter(external_id__in=names).values_list("external_id", "pk"))
    if missing := [name for name in names if name not in found]:
        raise GoldenError(_("This memory has no message with the id “%(id)s”.") % {"id": missing[0][:60]})
    return [found[name] for name in names]
