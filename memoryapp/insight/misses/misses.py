"""A miss from its report to its end: reported, explained, put right, asked again, taken back, or called none."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp import curation
from memoryapp.curation import CurationError, history, knowledge
from memoryapp.curation.change import in_effect
from memoryapp.engine.json_values import storable
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies import DEFAULT
from memoryapp.engine.text.excerpts import best_exchanges
from memoryapp.engine.text.lexical import stems
from memoryapp.insight.explain import Explanation, WhyNotError, why_not
from memoryapp.insight.explain.wanted import LONGEST, Searched, topics_near, topics_with_words, wanted_text
from memoryapp.memory.content import content
from memoryapp.models import ChatUser, KnowledgeEdit, Message, Miss, Run, Topic, TopicEdit
from memoryapp.platform.database import each_alone
from memoryapp.runs import followers, lifecycle

# A run of the same question by hand within this time before the moment is taken for the one that went wrong, unless
# the memory was changed by hand since.
_SAME = timedelta(days=1)
# What happened longer ago than this is asked of the memory as it was.
_NOW = timedelta(minutes=1)
_MOST_AT_ONCE = 20
_NEAREST = 3
# For so long after a repair its run is looked at.
_SETTLING = timedelta(minutes=10)
# So many other memories that say it are named; and how often a question may have been asked among those listed.
_MEMORIES, _MOST_REPEATED = 6, 5
# About the length of one message and the answer to it.
_EVIDENCE_CHARS = 600

State = Miss.State


class MissError(ValueError):
    """What cannot be reported or decided; the text is a sentence for people."""


def report(
    owner: ChatUser,
    question: str,
    *,
    expected: str = "",
    answer: str = "",
    run: Run | None = None,
    moment: datetime | None = None,
    by: str,
    **asked: Any,
) -> Miss:
    """The miss, or the open one that says the same. Without a run, one of the same question is taken if there was one,
    else the question is asked again as at the ``moment``: that run waits to be executed. ``asked`` says who asks, as
    for ``lifecycle.start``. Raises MissError."""
    question, expected, answer = (
        storable(each).strip() for each in (question or (run.query if run else ""), expected, answer)
    )
    if not question:
        raise MissError(_("Say which question went wrong."))
    if max(map(len, (question, expected, answer))) > LONGEST:
        raise MissError(_("This must be a text of at most %(most)d characters.") % {"most": LONGEST})
    if moment is not None and moment > timezone.now():
        raise MissError(_("This moment has not come yet."))
    same = Miss.objects.select_related("run").filter(
        owner=owner, state=State.OPEN, question=question, expected=expected
    )
    if known := (same.filter(run=run) if run else same).first():
        return known
    when = moment or (run.created_at if run else timezone.now())
    run = run or _known_run(owner, question, when) or _asked(owner, question, when, asked)
    return Miss.objects.create(
        owner=owner, question=question, expected=expected, answer=answer, run=run, moment=when, reported_by=by
    )


def _known_run(owner: ChatUser, question: str, when: datetime) -> Run | None:
    rows = Run.objects.of(owner).by_hand().made_here().filter(query=question, parent__isnull=True)
    ended = rows.filter(created_at__range=(when - _SAME, when), state=Run.State.FINISHED)
    run = ended.order_by("-created_at").first()
    return None if run and _was_mended(owner, run.created_at, when) else run


def _was_mended(owner: ChatUser, since: datetime, until: datetime) -> bool:
    """Whether somebody changed the memory meanwhile, which may have put it right: then only a new run can tell."""
    changes = KnowledgeEdit.objects.filter(owner=owner, call=None, at__range=(since, until))
    edits = TopicEdit.objects.filter(owner=owner, at__range=(since, until)).exclude(kind=TopicEdit.Kind.ARCHIVE)
    return changes.exists() or edits.exists()


def _asked(owner: ChatUser, question: str, when: datetime, asked: dict[str, Any]) -> Run:
    as_of = when if timezone.now() - when > _NOW else None
    return lifecycle.start(owner, question, strategy=DEFAULT.name, as_of=as_of, **asked)


def expect(miss: Miss, expected: str) -> None:
    """Says what should have been known, or says it better; why is found anew. Raises MissError."""
    words = storable(expected).strip()
    if not words or len(words) > LONGEST:
        raise MissError(_("Say in a few words what should have been known."))
    miss.expected, miss.stage, miss.lost, miss.evidence = words, "", "", []
    miss.save(update_fields=["expected", "stage", "lost", "evidence"])


def explain(miss: Miss) -> Explanation | None:
    """Why the run lost it; None until the run has ended. The first time, stage and evidence are stored."""
    if miss.run is None or not miss.run.is_finished:
        return None
    try:
        found = why_not(miss.run, text=miss.expected or miss.question)
    except WhyNotError:
        return None
    if not miss.stage:
        miss.stage, miss.lost = found.stage, found.topic[:60]
        miss.evidence = evidence(miss.owner, miss.expected or miss.question)
        miss.save(update_fields=["stage", "lost", "evidence"])
        # So that the effect of a change counts what should have been found, and not what was.
        Run.objects.filter(pk=miss.run.pk, evaluation__isnull=True, evidence=[]).update(evidence=miss.evidence)
    return found


def explain_due() -> None:
    """Finds why for misses whose run has ended; opens those again whose repair did not help or was taken back."""
    ended = Miss.objects.filter(state=State.OPEN, stage="", run__state=Run.State.FINISHED, owner__erasing_since=None)
    each_alone(
        list(ended.values_list("pk", flat=True)[:_MOST_AT_ONCE]),
        "Miss %s is not explained.",
        lambda number: explain(Miss.objects.select_related("owner", "run").get(pk=number)),
    )
    ended = Miss.objects.filter(repaired_at__gt=timezone.now() - _SETTLING, again__state=Run.State.FINISHED)
    each_alone(list(ended.select_related("owner", "again")[:_MOST_AT_ONCE]), "Miss %s is not settled.", settle)
    undone = Q(topic_edit__topicedit__isnull=False) | Q(change__knowledgeedit__isnull=False)
    taken_back = Miss.objects.filter(undone).exclude(state=State.OPEN).select_related("topic_edit", "change")
    each_alone(list(taken_back[:_MOST_AT_ONCE]), "Miss %s is not opened again.", _reopen_if_undone)


def _reopen_if_undone(miss: Miss) -> None:
    if not stands(miss):
        reopen(miss)


def evidence(owner: ChatUser, text: str) -> list[int]:
    """Today's messages that say it: that message itself, else those of its topic which share most words with it."""
    wanted = wanted_text(owner.pk, text, Searched(timezone.now()))
    if wanted.message is not None:
        return [] if wanted.message.is_withdrawn else [wanted.message.pk]
    numbers = [number for id in wanted.now if (number := parse_topic_id(id))][:1]
    rows = Message.objects.of(owner).filter(topic__in=numbers).in_order()
    held = [content(row) for row in (rows if numbers else Message.objects.of(owner).filter(pk__in=wanted.messages))]
    asked = set(stems(text))
    pieces = best_exchanges(text, held, _EVIDENCE_CHARS) if held else ()
    shared = {piece.message: len(asked & set(stems(piece.text))) for piece in pieces if piece.message}
    most = max(shared.values(), default=0)
    return [number for number, share in shared.items() if share == most]


class MissHolders:
    """The live topics that may hold what was expected: by its words, and related in meaning, in whatever language; None
    where meanings cannot be compared."""

    def __init__(self, miss: Miss) -> None:
        text, owner = miss.expected or miss.question, miss.owner_id
        said, near = list(topics_with_words(owner, text)), topics_near(owner, text, is_sure=False)
        rows = Topic.objects.of(owner).in_bulk({*said, *(near or ())})
        self.by_words = [rows[number] for number in said if number in rows]
        self.by_meaning = None if near is None else [rows[number] for number in near[:_NEAREST] if number in rows]


@transaction.atomic
def repaired(miss: Miss, remedy: str, made: TopicEdit | KnowledgeEdit | Run | None, **asked: Any) -> Miss:
    """Stores what put it right, and asks the question again unless a fork does that already."""
    miss.remedy, miss.state, miss.repaired_at = remedy, State.REPAIRED, timezone.now()
    miss.topic_edit = made if isinstance(made, TopicEdit) else None
    miss.change = made if isinstance(made, KnowledgeEdit) else None
    miss.again = made if isinstance(made, Run) else ask_again(miss, **asked)
    miss.save()
    return miss


def ask_again(miss: Miss, **asked: Any) -> Run:
    """The question once more, of the memory of today; it waits to be executed."""
    run = miss.run if miss.run and not miss.run.is_foreign else None
    return lifecycle.start(
        miss.owner,
        miss.question,
        strategy=run.strategy if run else DEFAULT.name,
        messages=run.messages if run else None,
        evidence=miss.evidence,
        **asked,
    )


def found_again(miss: Miss) -> bool | None:
    """Whether the run afterwards hands over what was expected; None before its end."""
    return None if miss.again is None or not miss.again.is_finished else hands_over(miss.again, miss)


def settle(miss: Miss) -> bool | None:
    """The same, and the state follows: what is still not found is open again, what is found is not."""
    found = found_again(miss)
    if found is None or miss.state == State.DISMISSED or not miss.remedy:
        return found
    state = State.OPEN if not found else State.KEPT if miss.golden_id else State.REPAIRED
    if state != miss.state:
        miss.state = state
        miss.save(update_fields=["state"])
    return found


def hands_over(run: Run, miss: Miss) -> bool:
    """Whether the run chose a topic or session with the evidence, or hands over the person or fact itself."""
    events = [item.event for item in followers.stored(run.pk)]
    outline = Outline.of(events)
    finished = outline.finished
    chosen = {each.id for each in (*finished.selected, *finished.people, *finished.artifacts)} if finished else set()
    chosen |= {id for event in events if isinstance(event, DecisionsApplied) for id in event.pinned}
    listed = outline.found.sessions if outline.found else {}
    topics = [number for id in chosen if (number := parse_topic_id(id))]
    held = Topic.objects.of(miss.owner_id).filter(pk__in=topics, topicmessage__message__in=miss.evidence).exists()
    talk = any(not {*listed.get(id, ())}.isdisjoint(miss.evidence) for id in chosen)
    return held or talk or (miss.lost in chosen and not miss.evidence)


def undo(miss: Miss, *, actor: str) -> None:
    """Takes the repair back and opens the miss again. Raises CurationError where something depends on the repair."""
    with transaction.atomic():
        if miss.topic_edit:
            history.undo(miss.topic_edit, actor=actor, reason=_reason(miss))
        elif miss.change:
            knowledge.undo(miss.owner, miss.change, actor=actor, reason=_reason(miss))
        elif miss.remedy == "message":
            _withdraw(miss, actor)
        reopen(miss)


def _withdraw(miss: Miss, actor: str) -> None:
    message = Message.objects.of(miss.owner).filter(pk__in=miss.evidence).select_related("batch").first()
    if message is None or message.batch is None:
        raise CurationError(_("The message that was added is gone."))
    curation.withdraw(miss.owner, message.batch, actor=actor, reason=_reason(miss))


def _reason(miss: Miss) -> str:
    return _("Miss: %(question)s") % {"question": miss.question[:200]}


def reopen(miss: Miss) -> None:
    """Without the repair; why is found anew where the repair had added what was missing."""
    if miss.remedy in ("message", "fact"):
        miss.stage, miss.lost, miss.evidence = "", "", []
    miss.state, miss.remedy, miss.repaired_at = State.OPEN, "", None
    miss.topic_edit = miss.change = miss.again = None
    miss.save()


def dismiss(miss: Miss) -> None:
    """Says that it is no miss; nights ask it no more."""
    if miss.golden:
        miss.golden.delete()
    miss.state, miss.golden = State.DISMISSED, None
    miss.save(update_fields=["state", "golden"])


def decide(miss: Miss, do: str, text: str, *, actor: str, keep: Callable[[Miss, str], object], **asked: Any) -> None:
    """What pages and programs do about a miss besides a repair. Raises MissError and CurationError."""
    if do == "again":
        miss.again = ask_again(miss, **asked)
        miss.save(update_fields=["again"])
    elif do == "expect":
        expect(miss, text)
    elif do == "keep":
        keep(miss, actor)
    elif do == "undo":
        undo(miss, actor=actor)
    elif do == "dismiss":
        dismiss(miss)
    elif do == "reopen":
        reopen(miss)


def stands(miss: Miss) -> bool:
    """Whether the edit that put it right is in effect, or was undone in the history."""
    for made in (miss.topic_edit, miss.change):
        if made is not None:
            return in_effect(type(made), made.owner_id, [made.pk])[made.pk]
    return True


def opened(owner: ChatUser, most: int) -> Sequence[Miss]:
    return list(Miss.objects.filter(owner=owner, state=State.OPEN).order_by("-at", "-pk")[:most])


# A pasted chat or answer read as a miss: the last thing the user said, and what the assistant said to it.

# Who speaks, as chat programs write it when a talk is copied; alone on a line, or before the words.
_USER = r"you said|you|user|human|me|i|q|question|пользователь|вы сказали|вы|я|вопрос"
_ASSISTANT = (
    r"(?:chatgpt|claude|gemini|copilot|assistant|model|bot) said"
    r"|assistant|chatgpt|claude|gemini|copilot|model|bot|ai|a|answer|ассистент|модель|бот|ответ"
)
_SPEAKER = re.compile(
    rf"^[ \t]*[*_#>]{{0,4}}[ \t]?(?:({_USER})|({_ASSISTANT}))[ \t]?[*_]{{0,4}}:[*_]{{0,4}}", re.I | re.M
)
_QUESTION = re.compile(r"^[^\n]*[?？]", re.M)
# A complaint in one line, which is no question: "the assistant forgot the dentist".
_COMPLAINT = re.compile(
    r"(?:(?:the|my|our)[ ])?(?:assistant|bot|model|ai|chatgpt|claude|it)[ ]"
    r"(?:(?:has[ ]|had[ ])?(?:forgot(?:ten)?|forgets)|(?:did|does)(?:n['’]t|[ ]not)[ ](?:know|remember|recall))"
    r"(?:[ ]about|[ ]of)?[ ]+(.+)"
    r"|(?:ассистент|бот|модель|он|она)[ ](?:забыл[аи]?|забывает|не[ ](?:(?:вс)?помнит|вспомнила?|знала?|знает))"
    r"(?:[ ](?:про|об?))?[ ]+(.+)",
    re.I,
)


class Pasted(NamedTuple):
    """``question`` is empty where none can be told from the answer."""

    question: str
    answer: str


def read_pasted(text: str) -> Pasted:
    """By the names of the speakers; without them, the last line with a question mark asks and the rest answers."""
    turns = list(_SPEAKER.finditer(text))
    if turns:
        ends = [*(turn.start() for turn in turns[1:]), len(text)]
        said = [(bool(turn[1]), text[turn.end() : end].strip()) for turn, end in zip(turns, ends, strict=True)]
        last = max((place for place, (is_user, words) in enumerate(said) if is_user and words), default=-1)
        if last >= 0:
            return Pasted(said[last][1], "\n\n".join(words for is_user, words in said[last + 1 :] if not is_user))
        return Pasted("", "\n\n".join(words for _is_user, words in said))
    asked = list(_QUESTION.finditer(text))
    if asked:
        return Pasted(asked[-1][0].strip(), text[asked[-1].end() :].strip())
    return Pasted(text.strip(), "") if "\n" not in text.strip() else Pasted("", text.strip())


def forgotten(text: str) -> str:
    """What a complaint of one line says was forgotten; empty for everything else, such as a question."""
    found = None if "?" in text else _COMPLAINT.fullmatch(text.strip().rstrip(".!"))
    return (found[1] or found[2]).strip() if found else ""


def memories_saying(owners: QuerySet[ChatUser], text: str) -> list[ChatUser]:
    """Those of the chat users, a few at most, in whose messages all words of the text stand, in whatever form."""
    said = Q()
    for stem in set(stems(text)):
        said &= Q(text__icontains=stem)
    if not said:
        return []
    holding = Message.objects.present().filter(said, owner=OuterRef("pk"))
    return list(owners.filter(Exists(holding), erasing_since=None).order_by("pk")[:_MEMORIES])


def asked_before(owner: ChatUser, most: int) -> list[Run]:
    """The last questions asked by hand, each once with its last run, the latest first."""
    rows = Run.objects.of(owner).by_hand().made_here().filter(state=Run.State.FINISHED, parent__isnull=True)
    once: dict[str, Run] = {}
    for run in rows.order_by("-created_at")[: most * _MOST_REPEATED]:
        once.setdefault(run.query, run)
    return list(once.values())[:most]
