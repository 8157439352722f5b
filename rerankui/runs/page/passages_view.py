"""The passages nearest to a question as a page shows them: with the talk around them, the question's words marked.

Passages that touch each other in a topic are shown as one piece of talk, in the place of the best of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memoryapp.content.reading import in_sessions, in_topics
from memoryapp.engine.kinds.react import Citation
from memoryapp.engine.kinds.values import Piece
from memoryapp.engine.memory import topic_id
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.strategies.react.coverage import terms_of
from memoryapp.models import Message, PassageMessage, Run
from memoryapp.runs.parameters import where_of
from memoryapp.sessions.active import session_with
from rerankui.runs.page.result import Segment, segments

# Messages shown before and after a passage, and how much of a message is shown.
AROUND = 1
FOUND_CHARS, AROUND_CHARS = 700, 220
# So many pieces of talk are open at once.
OPEN = 5

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message in ``parts``, some of them marked; ``is_found`` says that it belongs to a passage that was found."""

    message: Message
    parts: tuple[Segment, ...]
    is_found: bool


@dataclass(slots=True)
class ShownPassage:
    """A piece of talk: the best citation in it, and its messages."""

    citation: Citation
    topic: int | None
    places: set[int]
    found: set[int]
    messages: list[ShownMessage] = field(default_factory=list)

    @property
    def topic_id(self) -> str:
        return topic_id(self.topic or 0)


def unsure(run: Run, outline: Outline) -> list[ShownPassage]:
    """The best passages of the candidates where the embedded scorer chose nothing, in four queries; else none. They are
    those that the run handed over, if it handed over any.

    It compares words and meaning only, so what it leaves out may well be the answer.
    """
    started, finished, found = outline.started, outline.finished, outline.found
    if not (started and finished and found) or started.model != EMBEDDED_MODEL or finished.fallback:
        return []
    handed = found.named(finished.unsure)
    if not handed and (finished.selected or finished.people or finished.artifacts):
        return []
    near = [handed[each.id] for each in finished.unsure if each.id in handed] or found.shown
    best = [each.passage_id for each in near if each.passage_id][:OPEN]
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
    _add_sessions(run, topics, order, stored.active().filter(pk__in=numbers))
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


def _add_sessions(
    run: Run, topics: dict[int, int | None], order: dict[int | None, list[int]], active: Iterable[Message]
) -> None:
    """Puts messages that are in no topic yet in their sessions, whose numbers are below 0."""
    for message in active:
        if topics[message.pk] is None:
            whole = [row.pk for row in session_with(message)]
            order[-whole[0]] = [row.pk for row in in_sessions(run.owner_id, whole, where_of(run))]
            topics.update(dict.fromkeys(topics.keys() & set(whole), -whole[0]))


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


def _message(row: Message, is_found: bool, terms: frozenset[str]) -> ShownMessage:
    marks = [found.span() for found in _WORD.finditer(row.text) if terms & terms_of(found[0])] if is_found else []
    start, end = _window(row.text, marks[0][0] if marks else 0, FOUND_CHARS if is_found else AROUND_CHARS)
    text = f"{'… ' if start else ''}{row.text[start:end]}{' …' if end < len(row.text) else ''}"
    by = (2 if start else 0) - start
    pieces = [
        Piece(row.text[first:last], "exact", row.pk, first + by, last + by)
        for first, last in marks
        if start <= first and last <= end
    ]
    return ShownMessage(row, segments(text, pieces), is_found)


def _window(text: str, first: int, most: int) -> tuple[int, int]:
    """The bounds of at most ``most`` characters that include the place ``first``, cut between words."""
    if len(text) <= most:
        return 0, len(text)
    start = 0 if first < most // 2 else text.rfind(" ", 0, first - most // 4) + 1
    end = start + most
    return start, len(text) if end >= len(text) else max(text.rfind(" ", start, end), start + most // 2)
