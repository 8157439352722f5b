"""A run as an answer to a question: its state, its text, the messages it cites, how it ended."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.events import RunFinished
from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.kinds.react import Answered, Citation, ToolUsed
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies import ANSWERING
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.strategies.react.statements import terms_of
from memoryapp.memory.content import in_sessions, in_topics
from memoryapp.memory.sessions import session_with
from memoryapp.models import Judgement, Message, PassageMessage, Run, RunProgress, Topic
from memoryapp.runs.followers import StoredEvent
from memoryapp.runs.parameters import where_of
from memoryapp.runs.recall_document import answer_of
from rerankui.runs.page.outcomes import activity_after, outcome, remarks, turn_of
from rerankui.runs.page.result import Segment, segments
from rerankui.text.markdown import Link, cited_text, to_html

# The passages nearest to a question as a page shows them: with the talk around them, the question's words marked.
#
# Passages that touch each other in a topic are shown as one piece of talk, in the place of the best of them.

# Messages shown before and after a passage, and how much of a message is shown.
AROUND = 1
FOUND_CHARS, AROUND_CHARS = 700, 220
# So many pieces of talk are open at once.
OPEN_PASSAGES = 5

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


@dataclass(slots=True)
class ShownPassage:
    """A piece of talk: the best citation in it, and its messages."""

    citation: Citation
    topic: int | None
    places: set[int]
    found: set[int]
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def topic_id(self) -> str:
        return topic_id(self.topic or 0)


def unsure(run: Run, outline: Outline) -> list[ShownPassage]:
    """The best passages of the candidates where the embedded scorer chose nothing, in four queries; else none. They are
    those that the run handed over, if it handed over any. It compares words and meaning only, so what it leaves out may
    well be the answer."""
    started, finished, found = outline.started, outline.finished, outline.found
    if not (started and finished and found) or started.model != EMBEDDED_MODEL or finished.fallback:
        return []
    handed = found.named(finished.unsure)
    if not handed and (finished.selected or finished.people or finished.artifacts):
        return []
    near = [handed[each.id] for each in finished.unsure if each.id in handed] or found.shown
    best = [each.passage_id for each in near if each.passage_id][:OPEN_PASSAGES]
    messages: dict[int, list[int]] = defaultdict(list)
    rows = PassageMessage.objects.filter(owner=run.owner_id, passage__in=best).order_by("message")
    for passage, message in rows.values_list("passage", "message"):
        messages[passage].append(message)
    there = [messages[each] for each in best if each in messages]
    return passages(run, [Citation(n, "", talk[0], "", tuple(talk)) for n, talk in enumerate(there, start=1)])


def passages(run: Run, citations: Sequence[Citation]) -> list[ShownPassage]:
    """The cited passages that are still stored, best first, in three queries."""
    numbers = [number for each in citations for number in _numbers(each)]
    stored = Message.objects.of(run.owner_id)
    topics: dict[int, int | None] = dict(stored.filter(pk__in=numbers).values_list("pk", "topic_id"))
    order = _order(run, set(topics.values()))
    # Messages that are in no topic yet are in their sessions, whose numbers are below 0.
    for message in stored.active().filter(pk__in=numbers):
        if topics[message.pk] is None:
            whole = [row.pk for row in session_with(message)]
            order[-whole[0]] = [row.pk for row in in_sessions(run.owner_id, whole, where_of(run))]
            topics.update(dict.fromkeys(topics.keys() & set(whole), -whole[0]))
    shown = list(_united(citations, topics, order))
    wanted = {order[each.topic][place] for each in shown for place in each.places}
    rows = stored.in_bulk(wanted)
    terms = terms_of(typed(run.query).text)
    for each in shown:
        near = [rows[order[each.topic][place]] for place in sorted(each.places) if order[each.topic][place] in rows]
        each.messages = [_message(row, row.pk in each.found, terms) for row in near]
    return shown


def _numbers(citation: Citation) -> tuple[int, ...]:
    return citation.passage or (citation.message,)


def _order(run: Run, topics: set[int | None]) -> dict[int | None, list[int]]:
    """The numbers of the messages of each topic, that the run's filters permit, oldest first."""
    order: dict[int | None, list[int]] = defaultdict(list)
    rows = in_topics(run.owner_id, [topic for topic in topics if topic], where_of(run))
    for topic, number in rows.values_list("topic_id", "message_id"):
        order[topic].append(number)
    return order


def _united(
    citations: Sequence[Citation], topics: Mapping[int, int | None], order: Mapping[int | None, Sequence[int]]
) -> Iterator[ShownPassage]:
    shown: list[ShownPassage] = []
    for citation in citations:
        found = {number for number in _numbers(citation) if number in topics}
        topic = topics.get(citation.message, next((topics[number] for number in found), None))
        talk = order[topic]
        at = [talk.index(number) for number in found if number in talk]
        if not at:
            continue
        places = set(range(max(min(at) - AROUND, 0), min(max(at) + AROUND + 1, len(talk))))
        touched = [each for each in shown if each.topic == topic and each.places & places]
        best = touched[0] if touched else ShownPassage(citation, topic, set(), set())
        best.places |= places.union(*(each.places for each in touched))
        best.found |= found.union(*(each.found for each in touched))
        # A passage between two pieces of talk makes one piece of them.
        shown = [each for each in shown if each not in touched[1:]] + ([] if touched else [best])
    yield from shown


def _message(row: Message, is_found: bool, terms: frozenset[str]) -> dict[str, Any]:
    marks = [found.span() for found in _WORD.finditer(row.text) if terms & terms_of(found[0])] if is_found else []
    start, end = _window(row.text, marks[0][0] if marks else 0, FOUND_CHARS if is_found else AROUND_CHARS)
    text = f"{'… ' if start else ''}{row.text[start:end]}{' …' if end < len(row.text) else ''}"
    by = (2 if start else 0) - start
    pieces = [
        Piece(row.text[first:last], "exact", row.pk, first + by, last + by)
        for first, last in marks
        if start <= first and last <= end
    ]
    return {"message": row, "parts": segments(text, pieces), "is_found": is_found}


def _window(text: str, first: int, most: int) -> tuple[int, int]:
    """The bounds of at most ``most`` characters that include the place ``first``, cut between words."""
    if len(text) <= most:
        return 0, len(text)
    start = 0 if first < most // 2 else text.rfind(" ", 0, first - most // 4) + 1
    end = start + most
    return start, len(text) if end >= len(text) else max(text.rfind(" ", start, end), start + most // 2)


# What a strategy does, in the words of a person who asks.
DOES: Mapping[str, Promise] = {
    "react": _("plans, searches, checks what it says"),
    "plain": _("one search, one answer"),
    "flash": _("a model reads topics and chooses"),
    "filter": _("the nearest topics, cut in two stages"),
    "vector": _("the nearest topics by meaning"),
}
# How an answer ended: the word on its plate, and the colour.
ENDS: Mapping[str, tuple[Promise, str]] = {
    "answered": (pgettext_lazy("answer", "answered"), "chosen"),
    "softened": (pgettext_lazy("answer", "with reservations"), "dropped"),
    "refused": (pgettext_lazy("answer", "refused"), "dropped"),
    "passages": (pgettext_lazy("answer", "nearest passages"), "read"),
}
# Answers of earlier versions: nobody compared the quotations with the question, so they may be about its subject
# without answering it.
QUOTED = pgettext_lazy("answer", "quotes found"), "read"
CHOSEN = pgettext_lazy("answer", "topics chosen"), "chosen"
NOTHING = pgettext_lazy("answer", "nothing chosen"), "candidate"
NOTHING_FOUND = pgettext_lazy("answer", "nothing found"), "candidate"
FAILED = pgettext_lazy("answer", "no answer"), "failed"
MOST_TOPICS = 5


@dataclass(frozen=True, slots=True)
class CitedSource:
    """The source of a citation; ``message`` is None when it was erased."""

    citation: Citation
    message: Message | None
    link: Link


@dataclass(frozen=True, slots=True)
class End:
    """The plate of an answer that has ended: its words, and the colour they have."""

    words: str | Promise
    tone: str


def answer_context(
    run: Run,
    stored: Sequence[StoredEvent],
    user: AbstractBaseUser | AnonymousUser,
    *,
    progress: RunProgress | None = None,
) -> dict[str, Any]:
    """Everything the partial of an answer needs, in the reader's language; ``user`` is who may judge it."""
    events = [item.event for item in stored]
    last = events[-1] if events else None
    answered, outline = answer_of(events), Outline.of(events)
    finished, cited = outline.finished, sources(run, answered)
    shown = passages(run, answered.citations) if answered and answered.outcome == "passages" else None
    return {
        "run": run,
        "does": DOES.get(run.strategy, ""),
        "writes": run.strategy in ANSWERING,
        "answered": answered,
        "text": cited_text(answered.text, {each.citation.n: each.link for each in cited}) if answered else "",
        "sources": cited if shown is None else (),
        "passages": shown,
        "unsure": [] if answered else unsure(run, outline),
        "open": OPEN_PASSAGES,
        "more": max(len(shown or ()) - OPEN_PASSAGES, 0),
        "may_write": has_writer(),
        "remarks": _remarks(answered, is_explained=shown is not None and not has_writer()) if answered else "",
        "tools": [event for event in events if isinstance(event, ToolUsed)],
        "finished": finished,
        "chosen": _chosen(outline) if finished and not answered else [],
        "nearest": _nearest(run, outline) if answered and answered.outcome == "refused" else [],
        "end": _end(answered, finished),
        "outcome": outcome(events) if finished and not answered else None,
        "activity": activity_after(last, next((turn for event in reversed(events) if (turn := turn_of(event))), 0)),
        "progress": None if finished else progress,
        "is_live": finished is None,
        "verdict": Judgement.objects.filter(run=run, operator=user.pk).values_list("is_good", flat=True).first()
        if answered and finished
        else None,
    }


def has_writer() -> bool:
    """Whether a chat model is connected that may answer."""
    return bool(settings.LLM_BASE_URL) and settings.RERANKER_ENABLED


def _remarks(answered: Answered, *, is_explained: bool) -> str:
    """The remarks of an answer; where ``is_explained``, the page says beside that no model is connected."""
    notes = tuple(note for note in answered.notes if not (is_explained and note.code == "no_model"))
    return remarks(replace(answered, notes=notes))


def sources(run: Run, answered: Answered | None) -> list[CitedSource]:
    """The cited messages in the order of their numbers: one query."""
    cited = answered.citations if answered else ()
    messages = Message.objects.of(run.owner_id).in_bulk([citation.message for citation in cited]) if cited else {}
    return [
        CitedSource(citation, messages.get(citation.message), _link(run, citation))
        for citation in sorted(cited, key=lambda each: each.n)
    ]


def _link(run: Run, citation: Citation) -> Link:
    """Returns the address of the message in the topic that the answer cites."""
    message, topic = citation.message, parse_topic_id(citation.topic)
    at = f"?at={message}#message-{message}"
    is_topic = topic is not None and topic > 0
    place = reverse("topic", args=[topic]) if is_topic else reverse("messages", args=[run.owner_id])
    return Link(place + at, reverse("source", args=[run.pk, citation.n]))


def _chosen(outline: Outline) -> list[tuple[Any, Any]]:
    """The first chosen topics, each as it was selected and as it was found."""
    selected = outline.finished.selected[:MOST_TOPICS] if outline.finished else ()
    return [(each, outline.topic(each.id)) for each in selected]


def _nearest(run: Run, outline: Outline) -> list[tuple[str, str]]:
    """The topics nearest to a question that was refused, as ids with summaries: one query."""
    selected = [each.id for each in outline.finished.selected] if outline.finished else []
    found = [each.id for each in outline.found.shown] if outline.found else []
    numbers = [parse_topic_id(id) or 0 for id in (selected or found)[:MOST_TOPICS]]
    topics = Topic.objects.of(run.owner_id).in_bulk([number for number in numbers if number > 0])
    return [(topic_id(number), topics[number].summary) for number in numbers if number in topics]


def _end(answered: Answered | None, finished: RunFinished | None) -> End | None:
    if finished is None:
        return None
    if answered is not None:
        if answered.outcome == "passages" and not answered.citations:
            return End(*NOTHING_FOUND)
        is_quoted = answered.by == "extracts" and answered.outcome == "answered"
        return End(*(QUOTED if is_quoted else ENDS[answered.outcome]))
    if finished.fallback:
        return End(*FAILED)
    return End(*(CHOSEN if finished.selected else NOTHING))


# A message as pages show it, with pieces of it marked; the marks are added to the HTML of the text.

# Characters for private use, which no text of a message keeps here.
_BEGINS, _ENDS = "\ue000", "\ue001"
_PRIVATE = re.compile(f"[{_BEGINS}{_ENDS}]")
# Marks of a block work only at the beginning or the end of its line, so those of a piece stand inside them.
_LEAD = re.compile(r"\s*+(?:(?:[-*+>]|#{1,6}|\d{1,9}[.)])[ \t]++)*+(?:```[^\n]*+\n|\|)?+")
_TOKEN = re.compile(f"(<[^<>]*>|[{_BEGINS}{_ENDS}])")


def marked_text(segments: Sequence[Segment]) -> SafeString:
    """Escaped text with code and bold; each stretch between two tags has a mark of its own, so that tags nest."""
    statuses = [segment.status for segment in segments if segment.status]
    return mark_safe("".join(_marked(to_html("".join(map(_fenced, segments))), statuses)))  # to_html escapes


def _fenced(segment: Segment) -> str:
    text = _PRIVATE.sub("", segment.text)
    if not segment.status:
        return text
    lead = _LEAD.match(text)
    start = lead.end() if lead else 0
    kept = text[start:].rstrip().removesuffix("```").removesuffix("|").rstrip()
    return f"{text[:start]}{_BEGINS}{kept}{_ENDS}{text[start + len(kept) :]}"


def _marked(html: str, statuses: Sequence[str]) -> list[str]:
    parts: list[str] = []
    waiting, status = list(statuses), ""
    for token in _TOKEN.split(html):
        if token == _BEGINS:
            status = waiting.pop(0)
        elif token == _ENDS:
            status = ""
        elif status and token and not token.startswith("<"):
            parts.append(format_html('<mark class="is-{}">{}</mark>', status, mark_safe(token)))  # escaped by to_html
        else:
            parts.append(token)
    return parts
