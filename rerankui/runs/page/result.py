"""What a run selected, compared with the real messages and the plain vector order."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.candidates import PARTS, Candidate, ItemCandidate, NamedDates
from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.kinds.kind import ContextPart, Piece
from memoryapp.engine.memory import Where
from memoryapp.engine.text.lines import NOT_ANALYSED, plain
from memoryapp.insight.delivery import recall_outcome
from memoryapp.models import Message, Person, Run
from rerankui.text.words import grouped

# How the selected topics were ranked: by similarity, by score, and by the model.
#
# The three columns contain the same topics, each column in its own order, so that a line that rises is a topic that
# rose. The number beside a place is the rank among all candidates.

ROW = 22
TOP = 30
_COLUMNS = ("similarity", "score", "chosen")


def rank_lines(chosen: Sequence[tuple[Selected, Candidate | None]]) -> dict[str, Any] | None:
    """The ranks of each topic, 0 where it has none, and the heights of its places in the three columns. None where
    fewer than two topics of the search were chosen, or without vectors."""
    ranked = [(selected, candidate) for selected, candidate in chosen if candidate is not None and selected.vector_rank]
    if len(ranked) < 2:
        return None
    ranks = [(selected.vector_rank, candidate.rank, selected.rank) for selected, candidate in ranked]
    columns = [sorted(column) for column in zip(*ranks, strict=True)]
    lines = [
        {"id": selected.id, **dict(zip(_COLUMNS, at, strict=True)), "places": _places(at, columns)}
        for (selected, _), at in zip(ranked, ranks, strict=True)
    ]
    return {"height": TOP + ROW * len(lines), "lines": lines}


def _places(ranks: tuple[int, int, int], columns: Sequence[Sequence[int]]) -> tuple[int, int, int]:
    first, second, third = (TOP + ROW * column.index(at) + ROW // 2 for at, column in zip(ranks, columns, strict=True))
    return first, second, third


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a message's text; ``status`` is empty outside the excerpt."""

    text: str
    status: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chosen topic as it was found, with its excerpt in the real messages; ``absent`` pieces are in none of them."""

    selected: Selected
    candidate: Candidate | None
    messages: tuple[tuple[Message, tuple[Segment, ...]], ...]
    absent: tuple[Piece, ...]
    statuses: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ChosenItem:
    selected: Selected
    candidate: ItemCandidate | None


@dataclass(frozen=True, slots=True)
class Result:
    """``new`` topics were not among the first of the vector order; ``lost`` ones were, but are not selected."""

    chosen: tuple[Chosen, ...]
    people: tuple[ChosenItem, ...]
    artifacts: tuple[ChosenItem, ...]
    new: tuple[str, ...]
    lost: tuple[str, ...]
    lines: dict[str, Any] | None


def result_of(
    run: Run,
    finished: RunFinished | None,
    candidates: Mapping[str, Candidate],
    items: Mapping[str, ItemCandidate],
    talk: Mapping[int, Message] | None = None,
) -> Result | None:
    """The selection with its excerpts in the real messages: those of ``talk``, else one query for all of them."""
    if finished is None:
        return None
    messages = _quoted(run, finished) if talk is None else talk
    chosen = tuple(_chosen(selected, candidates, messages) for selected in finished.selected)
    names = [selected.id for selected in finished.selected]
    nearest = finished.baseline[: len(names)]
    return Result(
        chosen=chosen,
        people=tuple(ChosenItem(selected, items.get(selected.id)) for selected in finished.people),
        artifacts=tuple(ChosenItem(selected, items.get(selected.id)) for selected in finished.artifacts),
        new=tuple(name for name in names if name not in nearest),
        lost=tuple(name for name in nearest if name not in names),
        lines=rank_lines([(each.selected, each.candidate) for each in chosen]),
    )


def _quoted(run: Run, finished: RunFinished) -> Mapping[int, Message]:
    ids = {piece.message for chosen in finished.selected for piece in chosen.excerpt if piece.message}
    return {message.pk: message for message in Message.objects.of(run.owner_id).filter(pk__in=ids).in_order()}


def _chosen(selected: Selected, candidates: Mapping[str, Candidate], messages: Mapping[int, Message]) -> Chosen:
    by_message: dict[int, list[Piece]] = {}
    for piece in selected.excerpt:
        if piece.message is not None and piece.message in messages:
            by_message.setdefault(piece.message, []).append(piece)
    counts: dict[str, int] = {}
    for piece in selected.excerpt:
        counts[piece.status] = counts.get(piece.status, 0) + 1
    return Chosen(
        selected=selected,
        candidate=candidates.get(selected.id),
        messages=tuple(
            (messages[number], segments(messages[number].text, by_message[number]))
            for number in messages
            if number in by_message
        ),
        absent=tuple(piece for piece in selected.excerpt if piece.message is None),
        statuses=tuple(counts.items()),
    )


def segments(text: str, pieces: Sequence[Piece]) -> tuple[Segment, ...]:
    """The text cut at the pieces' offsets; where pieces overlap the earlier one holds."""
    cut: list[Segment] = []
    at = 0
    for piece in sorted(pieces, key=lambda piece: (piece.start, piece.end)):
        start, end = max(piece.start, at), min(piece.end, len(text))
        if end <= start:
            continue
        cut += [Segment(text[at:start], ""), Segment(text[start:end], piece.status)]
        at = end
    cut.append(Segment(text[at:], ""))
    return tuple(segment for segment in cut if segment.text)


# The parts of a candidate's score, in words: what each adds, in standard deviations.

NAMES: Mapping[str, Promise] = {
    "meaning": pgettext_lazy("part of a score", "meaning"),
    "words": pgettext_lazy("part of a score", "words"),
    "topic": pgettext_lazy("part of a score", "whole topic"),
    "summary": pgettext_lazy("part of a score", "summary"),
    "dates": pgettext_lazy("part of a score", "date"),
    "phrases": pgettext_lazy("part of a score", "phrase asked for"),
    "reply_alone": pgettext_lazy("part of a score", "a reply alone"),
    "instruction": pgettext_lazy("part of a score", "standing instruction"),
    "cross_encoder": pgettext_lazy("part of a score", "cross-encoder"),
}


def score_parts(parts: Mapping[str, float]) -> list[tuple[Promise, str]]:
    """Those of a candidate in their usual order, each with what it adds: ``+2.1``, in Russian ``+2,1``."""
    return [(NAMES[part], _signed(parts[part])) for part in PARTS if parts.get(part)]


def is_by_summary(parts: Mapping[str, float]) -> bool:
    """Whether the words of a topic's summary add more to its score than any other part."""
    return bool(parts) and max(parts, key=lambda part: parts[part]) == "summary"


def _signed(added: float) -> str:
    """With one digit after the language's decimal mark, and a sign."""
    return ("+" if added > 0 else "") + floatformat(added, 1)


def sum_of_parts(parts: Mapping[str, float]) -> str:
    """All of them in brackets: " (meaning +3.1, date +2.1)"; nothing where none is known."""
    listed = ", ".join(f"{name} {added}" for name, added in score_parts(parts))
    return f" ({listed})" if listed else ""


def bounds(where: Where) -> str:
    """The first and the last day whose messages are found, as a sentence; empty where none is set."""
    since, until = map(_day, (where.since, where.until))
    if since and until:
        return gettext("Only messages from %(since)s to %(until)s.") % {"since": since, "until": until}
    if since:
        return gettext("Only messages since %(since)s.") % {"since": since}
    return gettext("Only messages until %(until)s.") % {"until": until} if until else ""


def _day(day: str) -> str:
    return date_format(date.fromisoformat(day), "DATE_FORMAT") if day else ""


def days(named: NamedDates) -> str:
    """The first and the last day, or the one day that is meant."""
    first, last = date.fromisoformat(named.first), date.fromisoformat(named.last)
    ends = [date_format(day, "DATE_FORMAT") for day in dict.fromkeys((first, last))]
    return " – ".join(ends)


# The parts of the context that a run hands to the chat model, to scale.

WIDTH = 1000
_NAMES: dict[str, Promise] = {
    "profile": _("Profile"),
    "inner_circle": _("Inner circle"),
    "recent_topics": _("Recent topics"),
    "topics": _("Chosen topics, whole"),
    "unsure": _("Possibly related passages"),
    "people": _("Chosen people"),
    "artifacts": _("Chosen artifacts"),
}


@dataclass(frozen=True, slots=True)
class Share:
    """A part from ``x`` over ``width``, in thousandths of the context's characters."""

    part: ContextPart
    name: str | Promise
    x: int
    width: int


def name_of(part: str, handed_over: str) -> str | Promise:
    """What a part is called; ``handed_over`` says what of the chosen topics the run hands over."""
    by_passages = (part, handed_over) == ("topics", "passages")
    return _("Passages of the chosen topics") if by_passages else _NAMES.get(part, part)


def context_parts(finished: RunFinished | None, handed_over: str) -> dict[str, Any] | None:
    """The context's parts that hold something, their tokens estimated from characters; None for a run without any."""
    parts = [part for part in finished.context if part.chars] if finished else []
    chars = sum(part.chars for part in parts)
    return (
        {
            "shares": tuple(_shares(parts, chars, handed_over)),
            "chars": chars,
            "tokens": sum(part.tokens for part in parts),
        }
        if parts
        else None
    )


def _shares(parts: Sequence[ContextPart], chars: int, handed_over: str) -> list[Share]:
    shares, before = [], 0
    for part in parts:
        x, end = round(before / chars * WIDTH), round((before + part.chars) / chars * WIDTH)
        shares.append(Share(part, name_of(part.name, handed_over), x, max(end - x, 1)))
        before += part.chars
    return shares


# What the assistant made of a run, as its page shows it after the result.

HOW: dict[str, Promise] = {
    "quoted": pgettext_lazy("use", "quoted"),
    "reworded": pgettext_lazy("use", "in other words, by the embedded scorer"),
    "named": pgettext_lazy("use", "named"),
}


def delivered_view(run: Run, finished: RunFinished | None, error: str = "") -> dict[str, Any] | None:
    """``recall`` is found, unsure, nothing or failed; ``text`` is what the assistant said, empty if nobody sent it."""
    if finished is None:
        return None
    stored = run.delivered or {}
    uses = [{**use, "words": HOW.get(use["how"], use["how"])} for use in stored.get("uses", ())]
    return {
        "recall": recall_outcome(finished),
        "text": stored.get("text", ""),
        "uses": uses,
        "unused": stored.get("unused", ()),
        "error": error,
    }


# What a run says of a person or a file it found: events hold the line of the model, pages have their own form.

_BETWEEN = " | "
_MENTIONS = re.compile(r"(\d{1,9}) mentions")
# What follows a person's name: "(@login) (aka other, names) [Circle]".
_HEAD = re.compile(r"(?:\(@([^()]*)\) ?)?(?:\(aka ([^()]*)\) ?)?(?:\[([^][]*)\])?")
_LABELS: dict[str, Promise] = {
    "Entities: ": gettext_lazy("entities: %(words)s"),
    "Answers: ": gettext_lazy("answers: %(words)s"),
}


def details(item: ItemCandidate) -> str:
    """What is known of the item beside its name, its parts separated by dots."""
    line = item.line.partition(") ")[2] or item.line
    first, *rest = line.split(_BETWEEN)
    head = (
        _person(first.removeprefix(plain(item.name)).strip()) if item.id.startswith("Person:") else [_file_type(first)]
    )
    return " · ".join(filter(None, [*head, *map(_field, rest)]))


def _person(head: str) -> Iterator[str]:
    found = _HEAD.fullmatch(head)
    if not found:
        yield head
        return
    login, names, circle = found.groups(default="")
    yield f"@{login}" if login else ""
    yield gettext("also called %(names)s") % {"names": names} if names else ""
    yield str(dict(Person.Circle.choices).get(circle, circle))


def _file_type(first: str) -> str:
    return first.partition(': "')[0]


def _field(text: str) -> str:
    if text == NOT_ANALYSED:
        return gettext("not analysed yet")
    if counted := _MENTIONS.fullmatch(text):
        n = int(counted[1])
        return ngettext("%(m)s mention", "%(m)s mentions", n) % {"m": grouped(n)}
    label = next((label for label in _LABELS if text.startswith(label)), "")
    return str(_LABELS[label]) % {"words": text.removeprefix(label)} if label else text
