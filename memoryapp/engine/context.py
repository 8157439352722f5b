"""The context that a run assembles for the chat model: parts under tags, each with its length.

What it says about the memory is taken from the messages: words of a model reach the assistant only as reasons, never as
something that was said. All stored text is ``quoted``, so it cannot imitate the tags of the parts or the heads of
topics, people and files. The parts are ordered from what changes least to what answers the query."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import Selected
from memoryapp.engine.kinds.kind import ContextPart, Piece
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.parameters import DEFAULTS
from memoryapp.engine.text.excerpts import best_exchanges, entering
from memoryapp.engine.text.lexical import idf, stems
from memoryapp.engine.text.lines import message_text, one_line, quoted, shortened
from memoryapp.engine.text.passages import LONG_CHARS, Span, cut

CONTEXT_CHARS = 200_000
# The model is asked for an excerpt above the same bound.
WHOLE_TOPIC_CHARS = DEFAULTS.excerpt_over_chars
# Of the passages of a topic: how many characters of its best exchanges, and how many neighbours of each message.
# Topics up to the last size are handed over whole. Evidence in the first 20,000 characters of the ranked topics, and
# characters of the first three: on 60 questions of the development set, .95 in 7,700 for whole topics, .94 in 5,100 for
# passages of all, .95 in 7,100 with small topics whole; on 70 of the demo memory, of an assistant, .84 in 8,450, .79 in
# 2,500 and .91 in 4,500. Two neighbours, or 3,000 characters of exchanges, gain nothing.
PASSAGES_CHARS = 1_500
NEIGHBOURS = 1
SMALL_TOPIC_CHARS = 3_000
# Of passages that are only possibly related.
UNSURE_CHARS = 2_000
POSSIBLY_RELATED = (
    "Nothing in the memory surely answers; these passages are nearest to the question and only possibly related."
)
_SUMMARY_CHARS, _TITLE_CHARS = 1_000, 120
# Reserved for the line that counts what was left out, and for the line breaks around a topic.
_MARGIN_CHARS = 80

TAGS: Mapping[str, str] = {
    "profile": "user_profile",
    "inner_circle": "inner_circle",
    "recent_topics": "recent_topics",
    "topics": "relevant_topics",
    "unsure": "possibly_related",
    "people": "relevant_people",
    "artifacts": "relevant_artifacts",
}
# Parts whose text is not stored, because the messages make the same one whenever it is requested.
ASSEMBLED = ("topics", "unsure")

# Tokens per character, by script. Measured on the talk of the demo memory with the vocabulary o200k_base: off by 4 %
# over twenty messages. Llama 3 needs 10 % more tokens for Russian, the older cl100k_base half as many again.
_TOKENS, _CYRILLIC_TOKENS, _IDEOGRAPHIC_TOKENS = 0.26, 0.36, 1.4

MessagesByTopic = Mapping[str, Sequence[MessageContent]]
# The numbers of the messages of the passage by which each topic was found.
PassageMessages = Mapping[str, Collection[int]]


@dataclass(frozen=True, slots=True)
class SelectedTopics:
    """What a run selected for its ``query``, and what the memory has of it. Messages with a ``known`` number are
    already part of the running conversation, and left out."""

    query: str
    selected: Sequence[Selected]
    candidates: Mapping[str, Candidate]
    messages: MessagesByTopic
    known: Collection[int] = ()
    passages: PassageMessages = field(default_factory=dict)


# Makes one text of the selected topics; see ``topics_text``.
TopicsText = Callable[[SelectedTopics], str]
# Which messages of a topic enter its text, and which part of each.
_Entering = Callable[[SelectedTopics, Selected], Sequence[MessageContent]]


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A selected person or file as the chat model reads it: one line about it, and its full text."""

    id: str
    head: str
    text: str


def estimated_tokens(text: str) -> int:
    """The approximate number of tokens of ``text``, estimated from its script alone."""
    points = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")
    cyrillic = int(((points >= 0x0400) & (points <= 0x04FF)).sum())
    ideographic = int(((points >= 0x3040) & (points <= 0xD7AF)).sum())
    rest = len(points) - cyrillic - ideographic
    return round(_TOKENS * rest + _CYRILLIC_TOKENS * cyrillic + _IDEOGRAPHIC_TOKENS * ideographic)


def assembled(
    *,
    profile: str,
    inner_circle: Sequence[str],
    recent_topics: Sequence[str],
    topics: str,
    chosen: int,
    unsure: str = "",
    near: int = 0,
    people: Sequence[ContextItem],
    artifacts: Sequence[ContextItem],
) -> tuple[ContextPart, ...]:
    """The parts that are not empty. ``topics`` is the text of ``topics_text`` over the ``chosen`` topics, ``unsure``
    that of ``unsure_text`` over the ``near`` ones; both parts are stored without their text."""
    parts = (
        _part("profile", quoted(profile.strip()), len(profile.strip().splitlines())),
        _part("inner_circle", _listed(inner_circle), len(inner_circle)),
        _part("recent_topics", _listed(recent_topics), len(recent_topics)),
        _part("topics", topics, chosen),
        _part("unsure", unsure, near),
        _part("people", _items_text(people), len(people)),
        _part("artifacts", _items_text(artifacts), len(artifacts)),
    )
    return tuple(part for part in parts if part.items)


def _part(name: str, text: str, items: int) -> ContextPart:
    whole = enclosed(name, text)
    stored = "" if name in ASSEMBLED else whole
    return ContextPart(name=name, chars=len(whole), tokens=estimated_tokens(whole), items=items, text=stored)


def enclosed(name: str, text: str) -> str:
    """A part's text under its tag."""
    return f"<{TAGS[name]}>\n{text}\n</{TAGS[name]}>"


def joined(parts: Sequence[ContextPart], again: Callable[[str], str]) -> str:
    """The whole context; ``again`` assembles the text of a part of that name."""
    return "\n\n".join(enclosed(part.name, again(part.name)) if part.name in ASSEMBLED else part.text for part in parts)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {one_line(line)}" for line in lines)


def _items_text(items: Sequence[ContextItem]) -> str:
    return "\n\n".join(f"[{item.id}] {one_line(item.head)}\n{quoted(item.text)}".rstrip() for item in items)


def topics_text(chosen: SelectedTopics) -> str:
    """The selected topics in at most 200,000 characters, each message whole and once. Of a topic above 25,000
    characters only the messages of its excerpt are included, or else its best exchanges. The last line of a topic
    counts the messages that did not fit."""
    return _under_heads(chosen, _whole)


def passages_text(chosen: SelectedTopics) -> str:
    """The passages of the selected topics, see ``passages_of``; otherwise like ``topics_text``."""
    return _under_heads(chosen, _around)


def unsure_text(chosen: SelectedTopics) -> str:
    """The passage by which each topic was found, with its neighbours where they fit: 2,000 characters of messages, of
    each topic as many. The first line says that they are only possibly related."""
    room = UNSURE_CHARS // max(len(chosen.selected), 1)
    return "\n\n".join([POSSIBLY_RELATED, *(_near(chosen, topic.id, room) for topic in chosen.selected)])


def _near(chosen: SelectedTopics, id: str, room: int) -> str:
    """What of a topic is nearest, in ``room`` characters; long messages are shortened."""
    messages = _cut(chosen.query, chosen.messages.get(id, ()), ())
    found = set(chosen.passages.get(id, ())) - set(chosen.known)
    beside = [message for message in _beside(found, messages) if message.id not in chosen.known]
    fits = sum(len(message.text) for message in beside) <= room
    near = beside if fits else [message for message in messages if message.id in found]
    candidate, lines = chosen.candidates.get(id), []
    for left, message in zip(range(len(near), 0, -1), near, strict=True):
        text = shortened(message.text, max(room // left, 1))
        room -= len(text)
        lines.append(message_text(replace(message, text=text)))
    head = f"[{id}] {candidate.date} {shortened(one_line(candidate.summary), _TITLE_CHARS)}" if candidate else f"[{id}]"
    return "\n".join([head, *lines])


def passages_by_topic(chosen: SelectedTopics) -> dict[str, list[MessageContent]]:
    """The messages of ``passages_text`` by the id of their topic, each once; long ones are cut around what matters."""
    seen = set(chosen.known)
    found = {}
    for topic in chosen.selected:
        found[topic.id] = [message for message in _around(chosen, topic) if message.id not in seen]
        seen.update(message.id for message in found[topic.id])
    return found


def cited_text(chosen: SelectedTopics) -> str:
    """The cited messages of the selected topics, each with its neighbours; of a topic without citations its passages.
    Otherwise like ``topics_text``."""
    return _under_heads(chosen, _cited)


def chunks_text(chosen: SelectedTopics) -> str:
    """The selected topics as numbered chunks, each with its source and its similarity to the query."""
    return _chunks(chosen, _whole)


def passage_chunks_text(chosen: SelectedTopics) -> str:
    """The passages of ``passages_text`` as numbered chunks, each with its source and its similarity to the query."""
    return _chunks(chosen, _around)


def passages_of(
    query: str, messages: Sequence[MessageContent], excerpt: Sequence[Piece] = (), found: Collection[int] = ()
) -> list[MessageContent]:
    """What a topic says about the query: the messages of its excerpt, of its best exchanges, and of the passage by
    which it was ``found``, each with a neighbour on either side. Long messages are cut around what matters. A small
    topic is handed over whole."""
    if sum(len(message.text) for message in messages) <= SMALL_TOPIC_CHARS:
        return list(messages)
    short = _cut(query, messages, excerpt)
    hits = {message.id for message in entering(excerpt, messages)} | set(found)
    hits |= {piece.message for piece in best_exchanges(query, short, PASSAGES_CHARS) if piece.message is not None}
    return _beside(hits, short)


def _under_heads(chosen: SelectedTopics, entering_of: _Entering) -> str:
    """Each topic under its head, with those of its messages that ``entering_of`` selects; each message once."""
    seen = set(chosen.known)
    heads: list[str] = []
    entries: list[list[str]] = []
    for topic in chosen.selected:
        fresh = [message for message in entering_of(chosen, topic) if message.id not in seen]
        seen.update(message.id for message in fresh)
        heads.append(
            _head(topic.id, chosen.candidates.get(topic.id), len(fresh), len(chosen.messages.get(topic.id, ())))
        )
        entries.append([message_text(message) for message in fresh])
    return "\n\n".join(_blocks(heads, entries))


def _chunks(chosen: SelectedTopics, entering_of: _Entering) -> str:
    heads, entries = [], []
    for place, topic in enumerate(chosen.selected, start=1):
        candidate = chosen.candidates.get(topic.id)
        summary = shortened(one_line(candidate.summary), _SUMMARY_CHARS) if candidate else ""
        source = f"{topic.id} {summary}".rstrip()
        heads.append(f"[{source}, chunk {place}/{len(chosen.selected)}, sim={topic.score:.2f}]")
        entered = entering_of(chosen, topic)
        entries.append([message_text(message) for message in entered if message.id not in chosen.known])
    return "\n---\n".join(_blocks(heads, entries))


def _whole(chosen: SelectedTopics, topic: Selected) -> Sequence[MessageContent]:
    messages = chosen.messages.get(topic.id, ())
    if sum(len(message.text) for message in messages) <= WHOLE_TOPIC_CHARS:
        return messages
    quoted_from = entering(topic.excerpt, messages)
    if quoted_from:
        return quoted_from
    best = {piece.message for piece in best_exchanges(chosen.query, messages)}
    return [message for message in messages if message.id in best]


def _around(chosen: SelectedTopics, topic: Selected) -> Sequence[MessageContent]:
    found = chosen.passages.get(topic.id, ())
    return passages_of(chosen.query, chosen.messages.get(topic.id, ()), topic.excerpt, found)


def _cited(chosen: SelectedTopics, topic: Selected) -> Sequence[MessageContent]:
    messages = chosen.messages.get(topic.id, ())
    hits = {message.id for message in entering(topic.excerpt, messages)}
    return _beside(hits, _cut(chosen.query, messages, topic.excerpt)) if hits else _around(chosen, topic)


def _beside(hits: Collection[int], messages: Sequence[MessageContent]) -> list[MessageContent]:
    """The messages with these numbers, and the neighbours of each."""
    places = [place for place, message in enumerate(messages) if message.id in hits]
    kept = {near for place in places for near in range(place - NEIGHBOURS, place + NEIGHBOURS + 1)}
    return [message for place, message in enumerate(messages) if place in kept]


def _cut(query: str, messages: Sequence[MessageContent], excerpt: Sequence[Piece]) -> list[MessageContent]:
    """The messages, long ones cut around what the excerpt quotes of them, or around the query's rarer words."""
    if all(len(message.text) <= LONG_CHARS for message in messages):
        return list(messages)
    stems_of = [{*stems(message.text)} for message in messages]
    weights = {stem: idf(len(messages), sum(stem in each for each in stems_of)) for stem in {*stems(query)}}
    quoted_parts: dict[int | None, list[Span]] = defaultdict(list)
    for piece in excerpt:
        quoted_parts[piece.message].append((piece.start, piece.end))
    return [cut(message, weights, quoted_parts[message.id]) for message in messages]


def _head(id: str, candidate: Candidate | None, entering: int, count: int) -> str:
    summary = one_line(candidate.summary) if candidate else ""
    label = f" {candidate.date} {shortened(summary, _SUMMARY_CHARS)}" if candidate else ""
    part = f" | {entering} of {count} messages" if entering < count else ""
    return f"[{id}]{label}{part}"


def _blocks(heads: Sequence[str], entries: Sequence[Sequence[str]]) -> Iterator[str]:
    """Each topic under its head. When the room is too small, the first topics get it."""
    room = CONTEXT_CHARS - sum(len(head) + _MARGIN_CHARS for head in heads)
    for head, lines in zip(heads, entries, strict=True):
        kept = _fitting(lines, room)
        room -= sum(len(line) + 1 for line in kept)
        left_out = len(lines) - len(kept)
        rest = [f"(messages left out for want of room: {left_out})"] if left_out else []
        yield "\n".join([head, *kept, *rest])


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """The first ``lines`` that fit into ``room`` characters with their line breaks; no line is cut."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept
