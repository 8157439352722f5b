"""A run as an answer to a question: its state, its text, the messages it cites, how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.events import Event, RunFinished
from memoryapp.engine.kinds.react import Answered, Citation, ToolUsed
from memoryapp.engine.memory import parse_topic_id, topic_id
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies import ANSWERING
from memoryapp.models import Judgement, Message, Run, RunProgress, Topic
from memoryapp.runs.answer_document import answer_of
from memoryapp.runs.followers import StoredEvent
from rerankui.runs.page.activity import activity_after, turn_of
from rerankui.runs.page.notes import remarks
from rerankui.runs.page.outcomes import outcome
from rerankui.runs.page.passages_view import OPEN, passages, unsure
from rerankui.text.cited import Link, cited_text

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
        "open": OPEN,
        "more": max(len(shown or ()) - OPEN, 0),
        "may_write": has_writer(),
        "remarks": _remarks(answered, is_explained=shown is not None and not has_writer()) if answered else "",
        "tools": [event for event in events if isinstance(event, ToolUsed)],
        "finished": finished,
        "chosen": _chosen(outline) if finished and not answered else [],
        "nearest": _nearest(run, outline) if answered and answered.outcome == "refused" else [],
        "end": _end(answered, finished),
        "outcome": outcome(events) if finished and not answered else None,
        "activity": activity_after(last, _turn(events)),
        "progress": None if finished else progress,
        "is_live": finished is None,
        "verdict": _verdict(run, user) if answered and finished else None,
    }


def has_writer() -> bool:
    """Whether a chat model is connected that may answer."""
    return bool(settings.LLM_BASE_URL) and settings.RERANKER_ENABLED


def _remarks(answered: Answered, *, is_explained: bool) -> str:
    """The remarks of an answer; where ``is_explained``, the page says beside that no model is connected."""
    notes = tuple(note for note in answered.notes if not (is_explained and note.code == "no_model"))
    return remarks(replace(answered, notes=notes))


def _turn(events: Sequence[Event]) -> int:
    return next((turn for event in reversed(events) if (turn := turn_of(event))), 0)


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


def _verdict(run: Run, user: AbstractBaseUser | AnonymousUser) -> bool | None:
    """Whether this operator found the answer good; None where they did not say."""
    return Judgement.objects.filter(run=run, operator=user.pk).values_list("is_good", flat=True).first()
