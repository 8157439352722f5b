"""The context that a run assembles for the chat model: parts under tags, each with its length.

What it says about the memory is taken from the messages: words of a model reach the assistant only as reasons, never as
something that was said. All stored text is ``quoted``, so it cannot imitate the tags of the parts or the heads of
topics, people and files. The parts are ordered from what changes least to what answers the query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import ContextPart, Selected
from memoryapp.engine.limits import DEFAULTS
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.excerpts import best_exchanges, entering
from memoryapp.engine.text.lines import message_text, one_line, quoted, shortened

CONTEXT_CHARS = 200_000
# The model is asked for an excerpt above the same bound.
WHOLE_TOPIC_CHARS = DEFAULTS.excerpt_over_chars
# In the mode of passages: how many characters of each topic, and how many neighbours of each message with the answer.
# Measured on 190 questions over five public two-person conversations: as much of the evidence as whole topics hold
# (.789) in 3,076 characters instead of 3,927, and in the first 20,000 of all ranked topics .942 instead of .929. With
# 1,000 characters of a topic .773, with one neighbour .775.
PASSAGES_CHARS = 1_500
NEIGHBOURS = 2
_SUMMARY_CHARS = 1_000
# Reserved for the line that counts what was left out, and for the line breaks around a topic.
_MARGIN_CHARS = 80

TAGS: Mapping[str, str] = {
    "profile": "user_profile",
    "inner_circle": "inner_circle",
    "recent_topics": "recent_topics",
    "topics": "relevant_topics",
    "people": "relevant_people",
    "artifacts": "relevant_artifacts",
}

# Tokens per character, by script. Measured on the talk of the demo memory with the vocabulary o200k_base: off by 4 %
# over twenty messages. Llama 3 needs 10 % more tokens for Russian, the older cl100k_base half as many again.
_TOKENS, _CYRILLIC_TOKENS, _IDEOGRAPHIC_TOKENS = 0.26, 0.36, 1.4

MessagesByTopic = Mapping[str, Sequence[MessageContent]]
# Makes one text of the selected topics; see ``topics_text``.
TopicsText = Callable[[str, Sequence[Selected], Mapping[str, Candidate], MessagesByTopic, Collection[int]], str]


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
    people: Sequence[ContextItem],
    artifacts: Sequence[ContextItem],
) -> tuple[ContextPart, ...]:
    """The parts that are not empty. ``topics`` is the text of ``topics_text`` over the ``chosen`` topics.

    The part with the topics is stored without its text.
    """
    parts = (
        _part("profile", quoted(profile.strip()), len(profile.strip().splitlines())),
        _part("inner_circle", _listed(inner_circle), len(inner_circle)),
        _part("recent_topics", _listed(recent_topics), len(recent_topics)),
        _part("topics", topics, chosen),
        _part("people", _items_text(people), len(people)),
        _part("artifacts", _items_text(artifacts), len(artifacts)),
    )
    return tuple(part for part in parts if part.items)


def _part(name: str, text: str, items: int) -> ContextPart:
    whole = enclosed(name, text)
    stored = "" if name == "topics" else whole
    return ContextPart(name=name, chars=len(whole), tokens=estimated_tokens(whole), items=items, text=stored)


def enclosed(name: str, text: str) -> str:
    """A part's text under its tag."""
    return f"<{TAGS[name]}>\n{text}\n</{TAGS[name]}>"


def joined(parts: Sequence[ContextPart], topics: str) -> str:
    """The whole context; ``topics`` is the text of that part, assembled again."""
    return "\n\n".join(enclosed(part.name, topics) if part.name == "topics" else part.text for part in parts)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {one_line(line)}" for line in lines)


def _items_text(items: Sequence[ContextItem]) -> str:
    return "\n\n".join(f"[{item.id}] {one_line(item.head)}\n{quoted(item.text)}".rstrip() for item in items)


def topics_text(
    query: str,
    selected: Sequence[Selected],
    candidates: Mapping[str, Candidate],
    messages_of: MessagesByTopic,
    known: Collection[int] = (),
) -> str:
    """The selected topics in at most 200,000 characters, each message whole and once.

    Of a topic above 25,000 characters only the messages of its excerpt are included, or else its best exchanges.
    Messages with a ``known`` number are already part of the running conversation and left out. The last line of a topic
    counts the messages that did not fit.
    """
    return _under_heads(partial(_entering, query), selected, candidates, messages_of, known)


def passages_text(
    query: str,
    selected: Sequence[Selected],
    candidates: Mapping[str, Candidate],
    messages_of: MessagesByTopic,
    known: Collection[int] = (),
) -> str:
    """The passages of the selected topics around what answers the query, whatever their size; otherwise like
    ``topics_text``.

    Included are the messages of a topic's excerpt and of its best exchanges, each with two neighbours on either side.
    """
    return _under_heads(partial(_around, query), selected, candidates, messages_of, known)


def _under_heads(
    entering_of: Callable[[Selected, Sequence[MessageContent]], Sequence[MessageContent]],
    selected: Sequence[Selected],
    candidates: Mapping[str, Candidate],
    messages_of: MessagesByTopic,
    known: Collection[int],
) -> str:
    """Each topic under its head, with those of its messages that ``entering_of`` selects; each message once."""
    seen = set(known)
    heads: list[str] = []
    entries: list[list[str]] = []
    for topic in selected:
        fresh = [message for message in entering_of(topic, messages_of.get(topic.id, ())) if message.id not in seen]
        seen.update(message.id for message in fresh)
        heads.append(_head(topic.id, candidates.get(topic.id), len(fresh), len(messages_of.get(topic.id, ()))))
        entries.append([message_text(message) for message in fresh])
    return "\n\n".join(_blocks(heads, entries))


def _around(query: str, selected: Selected, messages: Sequence[MessageContent]) -> list[MessageContent]:
    hits = {message.id for message in entering(selected.excerpt, messages)}
    hits |= {piece.message for piece in best_exchanges(query, messages, PASSAGES_CHARS) if piece.message is not None}
    places = [place for place, message in enumerate(messages) if message.id in hits]
    kept = {near for place in places for near in range(place - NEIGHBOURS, place + NEIGHBOURS + 1)}
    return [message for place, message in enumerate(messages) if place in kept]


def chunks_text(
    query: str,
    selected: Sequence[Selected],
    candidates: Mapping[str, Candidate],
    messages_of: MessagesByTopic,
    known: Collection[int] = (),
) -> str:
    """The selected topics as numbered chunks, each with its source and its similarity to the query."""
    heads, entries = [], []
    for place, topic in enumerate(selected, start=1):
        entered = _entering(query, topic, messages_of.get(topic.id, ()))
        candidate = candidates.get(topic.id)
        summary = shortened(one_line(candidate.summary), _SUMMARY_CHARS) if candidate else ""
        source = f"{topic.id} {summary}".rstrip()
        heads.append(f"[{source}, chunk {place}/{len(selected)}, sim={topic.score:.2f}]")
        entries.append([message_text(message) for message in entered if message.id not in known])
    return "\n---\n".join(_blocks(heads, entries))


def _entering(query: str, selected: Selected, messages: Sequence[MessageContent]) -> Sequence[MessageContent]:
    if sum(len(message.text) for message in messages) <= WHOLE_TOPIC_CHARS:
        return messages
    quoted_from = entering(selected.excerpt, messages)
    if quoted_from:
        return quoted_from
    best = {piece.message for piece in best_exchanges(query, messages)}
    return [message for message in messages if message.id in best]


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
