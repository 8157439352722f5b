"""The splitter: an agent that divides a talk into topics, for the worker and for curators. Whatever the model answers,
the drafts contain each message exactly once and in order, so that they can be stored as they are."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memoryapp.engine.agents.ask import MOST_CHARS, Agent, Ask, Incomplete, MessageLines, language_of_messages
from memoryapp.engine.agents.summary_checks import asked_again, fault_of
from memoryapp.engine.beside import table_beside
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.embeddings import Embedder, EmbeddingError, Vectors
from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicDraft
from memoryapp.engine.offline.segmenter import Stretch, cover
from memoryapp.engine.offline.segmenter import joined as ranges_joined
from memoryapp.engine.prompts import prompt
from memoryapp.engine.prompts.prompt import gettext_noop as _
from memoryapp.engine.text import answers
from memoryapp.engine.text.languages import general, is_general
from memoryapp.engine.text.lines import quoted
from memoryapp.engine.text.summaries import Summarise

SPLIT = prompt.BuiltInPrompt(
    "split",
    title=_("Propose a split"),
    purpose=_("Proposes to a curator where to split a topic."),
    texts=prompt.texts_beside(__file__, "split"),
    variables=(prompt.TOPIC, prompt.PROFILE, prompt.PromptVariable("sizes", _("how small and how many topics may be"))),
    required=(prompt.TOPIC,),
)
AGENT = Agent("splitter", _("splitter"), (SPLIT,), model="SPLITTER_MODEL", stage="archive")

SPLIT_SCHEMA = answers.object_schema(
    topics=answers.list_schema(
        answers.object_schema(summary=answers.TEXT, start_msg_id=answers.INTEGER, end_msg_id=answers.INTEGER)
    ),
    stragglers=answers.list_schema(answers.INTEGER),
)
_MOST_PARTS = 200
# A model whose answer contains less of the talk than this is asked once more.
_LEAST_COVERAGE = 0.5
_MADE_UP_SUMMARY_CHARS = 120
_WORDS = table_beside(__file__)
_LAST_DIGITS = re.compile(r"\d{1,18}(?!\d)")


@dataclass(frozen=True, slots=True)
class Division:
    """A talk divided into drafts: in order, each of consecutive messages, all of them together. ``left_out`` counts the
    messages that the model's answer did not mention; ``unfit`` names the drafts, by their first messages, whose
    summaries cannot be used, see ``summary_checks``."""

    drafts: list[TopicDraft]
    left_out: int = 0
    unfit: frozenset[int] = frozenset()

    @property
    def messages(self) -> int:
        return sum(len(draft.messages) for draft in self.drafts)

    @property
    def is_scant(self) -> bool:
        """Whether the model left out so much that its borders say little about the talk."""
        return self.left_out > self.messages * (1 - _LEAST_COVERAGE)


@dataclass(frozen=True, slots=True)
class _Span:
    """The messages from position ``start`` to position ``end``, both included."""

    start: int
    end: int
    summary: str


async def fitted(division: Division, messages: Sequence[MessageContent], summarise: Summarise) -> list[TopicDraft]:
    """The drafts, with the words of ``summarise`` where the model's summary of ``messages`` cannot be used."""
    by_id = {message.id: message for message in messages}
    return [
        replace(draft, summary=await summarise([by_id[id] for id in draft.messages]))
        if draft.messages[0] in division.unfit
        else draft
        for draft in division.drafts
    ]


def propose_topics(
    messages: Sequence[MessageContent],
    *,
    chat: Chat,
    seconds: float,
    prompts: prompt.PromptBook = prompt.UNEDITED,
    profile: str = "",
    least: int = 1,
    parts: int = 1,
) -> Ask[Division]:
    """Asks how ``messages`` (oldest first) of a user with this ``profile`` divide into topics.

    The model is asked to make at least ``parts`` topics of at least ``least`` messages each. Messages that its answer
    leaves out become drafts of their own. An answer that leaves out more than half of the messages, or a summary, or
    with a summary that cannot be used, is asked for once more; a division may be scant or unfit even so. Without
    messages the model is not asked."""
    lines = MessageLines(messages, MOST_CHARS)
    places = _Places(messages, lines.step)
    text = SPLIT.of(prompts, language_of_messages(messages))
    at_least, too_long = _WORDS["sizes"][text.language]
    return Ask(
        chat,
        text,
        {
            "topic": lines.text(),
            "profile": quoted(profile.strip()) or prompt.NONE[text.language],
            "sizes": " ".join([at_least % max(least, 2), *([too_long % parts] if parts > 1 else [])]),
        },
        read=lambda answer: _division(answer, messages, places, text.language),
        schema=SPLIT_SCHEMA,
        seconds=seconds,
        is_covering=True,
        answer=None if messages else Division([]),
    )


def _division(
    answer: str, messages: Sequence[MessageContent], places: _Places, language: prompt.Language
) -> Division | None:
    """The drafts in an answer; None where it names no part of the talk. Raises Incomplete."""
    parts = answers.objects_with(answers.mended(answer[: answers.MOST_ANSWER_CHARS]), "start_msg_id")[:_MOST_PARTS]
    spans = [span for part in parts if (span := places.span(part))]
    if not spans:
        return None
    ids = [message.id for message in messages]
    apart = list(_apart(spans))
    drafts = [TopicDraft(span.summary, tuple(ids[span.start : span.end + 1])) for span in apart]
    left_out = len(ids) - sum(len(draft.messages) for draft in drafts)
    by_id = {message.id: message for message in messages}
    named = [_named(draft, [by_id[id] for id in draft.messages]) for draft in cover(drafts, messages)]
    faults = _faults(named, messages, language)
    found = Division(named, left_out, frozenset(faults))
    if found.is_scant:
        raise Incomplete(found, _WORDS["left_out"][language] % (left_out, len(ids)))
    if not all(span.summary for span in apart):
        raise Incomplete(found, _WORDS["nameless"][language])
    if faults:
        raise Incomplete(found, next(iter(faults.values())))
    return found


def _faults(
    drafts: Sequence[TopicDraft], messages: Sequence[MessageContent], language: prompt.Language
) -> dict[int, str]:
    """What to tell the model about each summary that cannot be used, by the first message of its draft."""
    by_id = {message.id: message for message in messages}
    unnamed = general(messages)
    faults = {}
    for at, draft in enumerate(drafts):
        others = [other.summary for place, other in enumerate(drafts) if place != at]
        fault = fault_of(draft.summary, [by_id[id] for id in draft.messages], others=others)
        if fault and draft.summary != unnamed:
            faults[draft.messages[0]] = asked_again(draft.summary, fault, language)
    return faults


def _apart(spans: Sequence[_Span]) -> Iterator[_Span]:
    """``spans`` in order and without overlaps: a message of two spans stays in the earlier one."""
    free = 0
    for span in sorted(spans, key=lambda span: span.start):
        if span.end >= free:
            yield replace(span, start=max(span.start, free))
            free = span.end + 1


class _Places:
    """The positions of messages by id. ``step`` is how many messages a line of the prompt represents."""

    def __init__(self, messages: Sequence[MessageContent], step: int) -> None:
        self._step = step
        self._count = len(messages)
        self._place = {message.id: at for at, message in enumerate(messages)}
        self._ids = sorted(self._place)

    def span(self, part: Mapping[str, Any]) -> _Span | None:
        """The messages that a part of the answer means. Ids outside the talk are clamped; None for no message."""
        first, last = _number(part.get("start_msg_id")), _number(part.get("end_msg_id"))
        if first is None or last is None or max(first, last) < self._ids[0] or min(first, last) > self._ids[-1]:
            return None
        if first in self._place and last in self._place:
            ends = self._place[first], self._place[last]
        else:
            low, high = sorted((first, last))
            from_id = self._ids[min(bisect_left(self._ids, low), len(self._ids) - 1)]
            ends = self._place[from_id], self._place[self._ids[max(bisect_right(self._ids, high) - 1, 0)]]
        start, end = min(ends), max(ends)
        whole = min(end - end % self._step + self._step, self._count) - 1
        summary = answers.clipped(answers.line(part.get("summary")), LONGEST_SUMMARY)
        return _Span(start - start % self._step, whole, summary)


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        digits = _LAST_DIGITS.search(value[:100])
        return int(digits[0]) if digits else None
    return int(value) if math.isfinite(value) else None


def _named(draft: TopicDraft, messages: Sequence[MessageContent]) -> TopicDraft:
    """``draft`` with a summary: where the model wrote none, the first request, or else the first text."""
    if draft.summary:
        return draft
    asked = [message for message in messages if message.role == "user"]
    text = next((text for message in [*asked, *messages] if (text := answers.line(message.text))), "")
    return TopicDraft(answers.clipped(text, _MADE_UP_SUMMARY_CHARS) or general(messages), draft.messages)


# Topics that a model cut too small are joined to a neighbour.
#
# A model's own borders stand from one whole exchange on: something that a person says, and an answer to it. What is
# less has no subject of its own, so it belongs to the neighbour that is more similar to it.

# What a draft is about is seen in the beginnings of its messages.
_TEXT_CHARS, _DRAFT_CHARS = 300, 4_000


async def joined(
    drafts: Sequence[TopicDraft],
    messages: Sequence[MessageContent],
    embedder: Embedder,
    summarise: Summarise,
    *,
    least: int = 1,
    most_chars: int,
) -> list[TopicDraft]:
    """``drafts`` of consecutive ``messages`` of one session, joined until each is a whole exchange of at least
    ``least`` messages.

    A draft stays small when it is the only one, or when either neighbour would have more than ``most_chars`` characters
    with it. Without vectors the shorter pause decides about the neighbour. ``summarise`` words a topic that the model's
    summaries would misname."""
    by_id = {message.id: message for message in messages}
    parts = [tuple(by_id[id] for id in draft.messages) for draft in drafts]

    def is_small(stretch: Stretch) -> bool:
        return len(stretch.messages) < least or not _is_whole(stretch.messages, messages)

    def fits(before: Stretch, after: Stretch) -> bool:
        return before.chars + after.chars <= most_chars

    stretches = [Stretch(part, np.zeros(1, np.float32)) for part in parts]
    if any(map(is_small, stretches)):
        vectors = await _vectors(parts, embedder)
        stretches = [Stretch(part, vector) for part, vector in zip(parts, vectors, strict=True)]
    ranges = ranges_joined(stretches, is_small, fits)
    return [await _as_one(drafts[first:end], by_id, summarise) for first, end in ranges]


def _is_whole(part: Sequence[MessageContent], talk: Sequence[MessageContent]) -> bool:
    """Whether the part holds an exchange: what a person says and the assistant's reply, or words of two people. Where
    only one speaks, two of their messages."""
    if any(message.role == "assistant" for message in talk):
        asked = next((at for at, message in enumerate(part) if message.role in ("user", "peer")), len(part))
        return any(message.role == "assistant" for message in part[asked:])
    several = len({(message.role, message.author) for message in talk}) > 1
    return len({(message.role, message.author) for message in part}) > 1 if several else len(part) > 1


async def _vectors(parts: Sequence[Sequence[MessageContent]], embedder: Embedder) -> Vectors:
    """A vector for each part, shape (parts, dimensions); zeros while the embedder does not answer."""
    texts = ["\n".join(message.text[:_TEXT_CHARS] for message in part)[:_DRAFT_CHARS] for part in parts]
    try:
        return await embedder.embed(embedder.profile.as_passages(texts))
    except EmbeddingError:
        return np.zeros((len(parts), 1), np.float32)


async def _as_one(drafts: Sequence[TopicDraft], by_id: dict[int, MessageContent], summarise: Summarise) -> TopicDraft:
    """One draft of several, called by the model's summaries if these are about most of its messages."""
    if len(drafts) == 1:
        return drafts[0]
    ids = tuple(id for draft in drafts for id in draft.messages)
    named = [draft for draft in drafts if not is_general(draft.summary)]
    if 2 * sum(len(draft.messages) for draft in named) > len(ids):
        summaries = dict.fromkeys(draft.summary.strip().rstrip(".") for draft in named)
        return TopicDraft(answers.clipped("; ".join(summaries), LONGEST_SUMMARY), ids)
    return TopicDraft(await summarise([by_id[id] for id in ids]), ids)
