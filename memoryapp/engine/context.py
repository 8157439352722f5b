"""The context a run assembles for the chat model: parts under tags, each with its length.

What is told of the memory is cut from its messages: a model's words reach the assistant as reasons, never as
something that was said. Parts stand under tags, topics, people and files under heads, that stored text cannot
imitate, for all of it is ``quoted``. The order of the parts is from what changes least to what answers the query.
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
# The same bound above which the model is asked for an excerpt.
WHOLE_TOPIC_CHARS = DEFAULTS.excerpt_over_chars
# In the mode of passages: about so much of each topic, and so many neighbours of each message that answers. Measured
# on 190 questions over five public two-person conversations: as much of the evidence as whole topics hold (.789) in
# 3,076 characters instead of 3,927, and in the first 20,000 of all ranked topics .942 instead of .929. With 1,000
# characters of a topic .773, with one neighbour .775.
PASSAGES_CHARS = 1_500
NEIGHBOURS = 2
_SUMMARY_CHARS = 1_000
# For the line that counts what was left out, and the line breaks around a topic.
_MARGIN_CHARS = 80

TAGS: Mapping[str, str] = {
    "profile": "user_profile",
    "inner_circle": "inner_circle",
    "recent_topics": "recent_topics",
    "topics": "relevant_topics",
    "people": "relevant_people",
    "artifacts": "relevant_artifacts",
}

# Tokens a character, by script. Measured on the talk of the demo memory with the vocabulary o200k_base: off by 4 %
# over twenty messages; that of Llama 3 has 10 % more tokens in Russian, the older cl100k_base half as many again.
_TOKENS, _CYRILLIC_TOKENS, _IDEOGRAPHIC_TOKENS = 0.26, 0.36, 1.4

MessagesByTopic = Mapping[str, Sequence[MessageContent]]
# Makes one text of the topics chosen for a query; see ``topics_text``.
TopicsText = Callable[[str, Sequence[Selected], Mapping[str, Candidate], MessagesByTopic, Collection[int]], str]


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A chosen person or file as the chat model reads it: a line about it, and its text at length."""

    id: str
    head: str
    text: str


def estimated_tokens(text: str) -> int:
    """About how many tokens a model takes for ``text``, judged by its script alone."""
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
    """The parts that hold anything. ``topics`` is the text of ``topics_text`` over ``chosen`` topics.

    That text alone is not stored in its part.
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
    """The whole context; ``topics`` is the text of that part, made again."""
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
    """The chosen topics, at most 200,000 characters, each message whole and once.

    A topic above 25,000 characters enters by the messages of its excerpt or else by its best exchanges, all
    others whole. Messages whose number is ``known`` stand in the running conversation already and are left out.
    What does not fit is counted in the topic's last line.
    """
    return _under_heads(partial(_entering, query), selected, candidates, messages_of, known)


def passages_text(
    query: str,
    selected: Sequence[Selected],
    candidates: Mapping[str, Candidate],
    messages_of: MessagesByTopic,
    known: Collection[int] = (),
) -> str:
    """The passages of the chosen topics around what answers, whatever the topics' size; else as ``topics_text``.

    What answers are the messages of a topic's excerpt and its best exchanges, each with two neighbours on either side.
    """
    return _under_heads(partial(_around, query), selected, candidates, messages_of, known)


def _under_heads(
    entering_of: Callable[[Selected, Sequence[MessageContent]], Sequence[MessageContent]],
    selected: Sequence[Selected],
    candidates: Mapping[str, Candidate],
    messages_of: MessagesByTopic,
    known: Collection[int],
) -> str:
    """Each topic under its head, with those of its messages that ``entering_of`` chooses, each once."""
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
    """The same topics as numbered chunks, each under its source and its similarity to the query."""
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
    """Each topic under its head; the room for messages goes to the first topics first."""
    room = CONTEXT_CHARS - sum(len(head) + _MARGIN_CHARS for head in heads)
    for head, lines in zip(heads, entries, strict=True):
        kept = _fitting(lines, room)
        room -= sum(len(line) + 1 for line in kept)
        left_out = len(lines) - len(kept)
        rest = [f"(messages left out for want of room: {left_out})"] if left_out else []
        yield "\n".join([head, *kept, *rest])


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """The first of ``lines`` that fit into ``room`` characters with their line breaks, none of them cut."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept
