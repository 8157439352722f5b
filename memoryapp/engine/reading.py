"""The tool ``get_topics_content``: what a call asks for, and what it is given.

A call is always answered, whatever is wrong with it: a model that waits for an answer that never comes
breaks the conversation. What one reply can load is bounded; the rest is listed with its size, so that
the model can ask again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memoryapp.engine.answers import parse_ids
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.events import ReadTopic, ToolCall, TopicsRead
from memoryapp.engine.lines import one_line, size_text, topic_text
from memoryapp.engine.memory import ReadTopics, TopicContent, topic_id
from memoryapp.engine.prompts import TOOL_NAME, topic_number


@dataclass(frozen=True, slots=True)
class Order:
    """What one call asks for: candidates in its order, ids that are none, and what is wrong with it."""

    call: ToolCall
    wanted: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The tool message's content, the event, and the topics the model can read now."""

    content: str
    event: TopicsRead
    topics: tuple[TopicContent, ...] = ()


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where topics come from and how much fits. ``room`` is the characters left in this reply."""

    candidates: Mapping[str, Candidate]
    read_topics: ReadTopics
    room: int
    whole_room: int
    excerpt_over_chars: int


def understand(call: ToolCall, candidates: Mapping[str, Candidate]) -> Order:
    """Read a call leniently: numbers, texts and ``Topic:42`` all name a topic."""
    if call.name != TOOL_NAME:
        return Order(call, note=f"There is no tool {one_line(call.name)[:80]!r}; the only one is {TOOL_NAME}.")
    ids = parse_ids(call.arguments)
    if ids is None:
        return Order(call, note='The call named no topics; its arguments must look like {"ids": [42, 18]}.')
    return Order(call, tuple(id for id in ids if id in candidates), tuple(id for id in ids if id not in candidates))


async def load(order: Order, shelf: Shelf, *, turn: int, already: Collection[str]) -> Loaded:
    """Answer one call. Topics the model has ``already`` are not sent twice."""
    new = [id for id in order.wanted if id not in already]
    # The candidates' sizes spare the store from reading what could never fit.
    asked, omitted = _fit([(id, shelf.candidates[id].size_chars) for id in new], shelf)
    found = {topic_id(topic.id): topic for topic in await _read(asked, shelf)}
    texts = {id: topic_text(found[id], shelf.excerpt_over_chars) for id in asked if id in found}
    loaded, crowded = _fit([(id, len(text)) for id, text in texts.items()], shelf)
    cut = [id for id in loaded if len(texts[id]) > shelf.room]
    remarks = _remarks(
        order,
        again=[id for id in order.wanted if id in already],
        gone=[id for id in asked if id not in found],
        cut=cut,
        limit=shelf.whole_room,
    )
    left_out = tuple(_size(id, shelf.candidates) for id in new if id in {*omitted, *crowded})
    content = "\n\n".join(
        (*(texts[id][: shelf.room] for id in loaded), *remarks, *_omission(left_out, shelf.whole_room))
    )
    event = TopicsRead(
        turn=turn,
        call=order.call.id,
        read=tuple(ReadTopic(id, found[id].size_chars, len(found[id].messages)) for id in loaded),
        omitted=left_out,
        unknown=order.unknown,
        size_chars=sum(min(len(texts[id]), shelf.room) for id in loaded),
        note=" ".join(remarks),
    )
    return Loaded(content or "Nothing was asked for.", event, tuple(found[id] for id in loaded))


async def _read(ids: Sequence[str], shelf: Shelf) -> Sequence[TopicContent]:
    return await shelf.read_topics([topic_number(id) for id in ids]) if ids else ()


def _fit(sizes: Iterable[tuple[str, int]], shelf: Shelf) -> tuple[list[str], list[str]]:
    """Ids that fit into the room, in order, and those that do not.

    The first one of a reply always goes in: a topic larger than the whole room could never be read.
    """
    fits: list[str] = []
    rest: list[str] = []
    room = shelf.room
    for id, size in sizes:
        if size <= room or (not fits and shelf.room == shelf.whole_room):
            fits.append(id)
            room -= size
        else:
            rest.append(id)
    return fits, rest


def _size(id: str, candidates: Mapping[str, Candidate]) -> ReadTopic:
    return ReadTopic(id, candidates[id].size_chars, candidates[id].message_count)


def _remarks(
    order: Order, *, again: Sequence[str], gone: Sequence[str], cut: Sequence[str], limit: int
) -> tuple[str, ...]:
    """What the model should know beside the topics, one sentence each."""
    said = (
        (order.unknown, "Not among the candidates: {ids}."),
        (again, "Already loaded above: {ids}."),
        (gone, "No longer stored: {ids}."),
        (cut, f"Cut at {limit} characters: {{ids}}."),
    )
    sentences = (text.format(ids=", ".join(one_line(id) for id in ids)) for ids, text in said if ids)
    return (*((order.note,) if order.note else ()), *sentences)


def _omission(topics: Sequence[ReadTopic], limit: int) -> tuple[str, ...]:
    if not topics:
        return ()
    listed = "; ".join(f"{t.id}, {t.message_count} msgs, {size_text(t.size_chars)}" for t in topics)
    return (f"Not loaded, one answer holds {limit} characters: {listed}. Ask again for those you need.",)
