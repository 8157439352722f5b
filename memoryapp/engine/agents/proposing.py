"""How a chat model cuts a talk into topics, names merged ones and judges whether two are one, for the worker and for
curators alike.

Whatever the model answers, the parts hold each message exactly once, in order, so that they can be taken as they are.
What the model reads is bounded, evenly rather than by its end, and it is told what was left out.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import json_repair

from memoryapp.engine.agents.ask import Ask, Incomplete
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.memory import MessageContent, TopicContent, TopicDraft
from memoryapp.engine.offline.segmenter import GENERAL, cover
from memoryapp.engine.prompts import BUILT_IN, NONE, Language, PromptBook, language_of
from memoryapp.engine.storable import storable
from memoryapp.engine.text.lines import one_line, quoted

MOST_CHARS = 60_000
LONGEST_SUMMARY = 500
# A line of JSON around each text; with more lines than fit some stand for several messages.
_LINE_CHARS = 100
_LEAST_TEXT_CHARS = 100
_OPENING_CHARS = 120
_LAST_DIGITS = re.compile(r"\d{1,18}(?!\d)")
_OPENS_CODE = re.compile(r"\s*+[{\[`]")
# Beyond this an answer is noise; it also bounds the work of mending it.
_MOST_ANSWER_CHARS = 100_000
_MOST_PARTS = 200


def _object(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: Mapping[str, Any] = {"type": "string"}
_NUMBER: Mapping[str, Any] = {"type": "integer"}
SPLIT_SCHEMA = _object(
    topics={"type": "array", "items": _object(summary=_TEXT, start_msg_id=_NUMBER, end_msg_id=_NUMBER)},
    stragglers={"type": "array", "items": _NUMBER},
)
MERGE_SCHEMA = _object(merged_summary=_TEXT)
JUDGE_SCHEMA = _object(should_merge={"type": "boolean"}, reason=_TEXT, merged_summary=_TEXT)
_TRUTHS: Mapping[str, bool] = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class MergeVerdict:
    """Whether two topics are one, and why. With ``should_merge`` there are a reason and a summary of the merged topic;
    each is one line of at most 500 characters."""

    should_merge: bool
    reason: str
    summary: str


# A model that leaves out more than this is asked once more.
_LEAST_COVERAGE = 0.5
_SIZES: Mapping[Language, tuple[str, str]] = {
    "en": (
        "A topic has at least %d messages, unless the whole talk has fewer.",
        "This talk is too long for one topic: cut it into %d or more.",
    ),
    "ru": (
        "В топике не меньше %d сообщений, если только во всём разговоре их не меньше.",
        "Этот разговор слишком длинный для одного топика: раздели его на %d или больше.",
    ),
}
_LEFT_OUT: Mapping[Language, str] = {
    "en": "That answer leaves out %d of %d messages. Answer again, with the JSON alone and each message in a topic.",
    "ru": "В этом ответе нет %d сообщений из %d. Ответь ещё раз, только JSON, и каждое сообщение — в топике.",
}
_NAMELESS: Mapping[Language, str] = {
    "en": "A topic in that answer has no summary. Answer again, with the JSON alone and a summary for each topic.",
    "ru": "У топика в этом ответе нет описания. Ответь ещё раз, только JSON, и с описанием у каждого топика.",
}


@dataclass(frozen=True, slots=True)
class Division:
    """A talk cut into drafts in order, each a run of its messages, together all of them; the model's answer did not
    mention ``left_out`` messages."""

    drafts: list[TopicDraft]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Span:
    """Messages from place ``start`` to place ``end``, both in it."""

    start: int
    end: int
    summary: str


def propose_topics(
    messages: Sequence[MessageContent],
    *,
    chat: Chat,
    seconds: float,
    prompts: PromptBook = BUILT_IN,
    profile: str = "",
    least: int = 1,
    parts: int = 1,
) -> Ask[Division]:
    """How the model would cut ``messages`` (oldest first) of somebody with this ``profile``.

    The model is told to give a topic ``least`` messages or more, and to make ``parts`` topics or more. What no topic
    of its answer holds becomes a draft of its own. An answer that leaves out more than half, or a summary, is asked for
    once more. Nothing is asked about no messages.
    """
    lines = _Lines(messages, MOST_CHARS)
    text = prompts["split", _language(messages)]
    return Ask(
        chat,
        text,
        {
            "topic": lines.text(),
            "profile": quoted(profile.strip()) or NONE[text.language],
            "sizes": _sizes(text.language, least, parts),
        },
        read=lambda answer: _division(answer, messages, lines, text.language),
        schema=SPLIT_SCHEMA,
        seconds=seconds,
        answer=None if messages else Division([]),
    )


def _sizes(language: Language, least: int, parts: int) -> str:
    at_least, too_long = _SIZES[language]
    return " ".join([at_least % max(least, 2), *([too_long % parts] if parts > 1 else [])])


def propose_summary(
    topics: Sequence[TopicContent], *, chat: Chat, seconds: float, prompts: PromptBook = BUILT_IN
) -> Ask[str]:
    """One summary for ``topics`` merged, one line of at most 500 characters."""
    return Ask(
        chat,
        prompts["merge", _language_of_topics(topics)],
        {"topics": _topics(topics)},
        read=lambda answer: _summary(answer[:_MOST_ANSWER_CHARS]) or None,
        schema=MERGE_SCHEMA,
        seconds=seconds,
    )


def judge_merge(
    topics: Sequence[TopicContent], *, chat: Chat, seconds: float, prompts: PromptBook = BUILT_IN
) -> Ask[MergeVerdict]:
    """Whether ``topics`` are one that was cut apart."""
    return Ask(
        chat,
        prompts["consolidate", _language_of_topics(topics)],
        {"topics": _topics(topics)},
        read=lambda answer: _verdict(answer[:_MOST_ANSWER_CHARS]),
        schema=JUDGE_SCHEMA,
        seconds=seconds,
    )


def _language_of_topics(topics: Sequence[TopicContent]) -> Language:
    return _language([message for topic in topics for message in topic.messages])


def _language(messages: Sequence[MessageContent]) -> Language:
    """That of most of what is said."""
    return language_of(" ".join(message.text[:_OPENING_CHARS] for message in messages[:_MOST_PARTS]))


def _division(answer: str, messages: Sequence[MessageContent], lines: _Lines, language: Language) -> Division | None:
    """The drafts in an answer; None where it names no part of the topic. Raises Incomplete."""
    spans = [span for part in _parts(answer[:_MOST_ANSWER_CHARS])[:_MOST_PARTS] if (span := lines.span(part))]
    if not spans:
        return None
    ids = [message.id for message in messages]
    apart = list(_apart(spans))
    drafts = [TopicDraft(span.summary, tuple(ids[span.start : span.end + 1])) for span in apart]
    left_out = len(ids) - sum(len(draft.messages) for draft in drafts)
    by_id = {message.id: message for message in messages}
    named = [_named(draft, [by_id[id] for id in draft.messages]) for draft in cover(drafts, ids)]
    found = Division(named, left_out)
    if left_out > len(ids) * (1 - _LEAST_COVERAGE):
        raise Incomplete(found, _LEFT_OUT[language] % (left_out, len(ids)))
    if not all(span.summary for span in apart):
        raise Incomplete(found, _NAMELESS[language])
    return found


def _apart(spans: Sequence[_Span]) -> Iterator[_Span]:
    """``spans`` in order; what an earlier one holds a later one does not, so each stays in one piece."""
    free = 0
    for span in sorted(spans, key=lambda span: span.start):
        if span.end >= free:
            yield replace(span, start=max(span.start, free))
            free = span.end + 1


def _topics(topics: Sequence[TopicContent]) -> str:
    """All topics as the model reads them, each with an even share of the characters."""
    share = MOST_CHARS // max(len(topics), 1)
    return "\n\n".join(_topic(topic, share) for topic in topics)


def _topic(topic: TopicContent, chars: int) -> str:
    summary = _clipped(one_line(topic.summary), chars // 4)
    head = json.dumps({"topic": topic.id, "summary": summary}, ensure_ascii=False)
    return f"{head}\n{_Lines(topic.messages, max(chars - len(head), 0)).text()}"


class _Lines:
    """Messages as the model reads them, one JSON object a line, in at most about ``chars`` characters.

    Long texts are clipped first, all at the same length; when even short ones are too many, a line stands for
    several messages in a row and tells the first of them.
    """

    def __init__(self, messages: Sequence[MessageContent], chars: int) -> None:
        self._messages = messages
        most = max(chars // (_LINE_CHARS + _LEAST_TEXT_CHARS), 1)
        self._step = math.ceil(len(messages) / most) or 1
        shown = messages[:: self._step]
        self._clip = _even([len(message.text) for message in shown], max(chars - _LINE_CHARS * len(shown), 0))
        self._place = {message.id: at for at, message in enumerate(messages)}
        self._ids = sorted(self._place)

    def text(self) -> str:
        lines = [self._line(at) for at in range(0, len(self._messages), self._step)]
        notes = [
            f"Texts are clipped to {self._clip} characters." if self._is_clipped() else "",
            f"There are {len(self._messages)} messages; a line stands for up to {self._step} of them and tells "
            "the first."
            if self._step > 1
            else "",
        ]
        return "\n".join([*filter(None, notes), *lines])

    def span(self, part: Mapping[str, Any]) -> _Span | None:
        """The messages a part of the answer means, ids outside clamped; None when it means none."""
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
        whole = min(end - end % self._step + self._step, len(self._messages)) - 1
        return _Span(start - start % self._step, whole, _written(part.get("summary")))

    def _is_clipped(self) -> bool:
        return any(len(message.text) > self._clip for message in self._messages[:: self._step])

    def _line(self, at: int) -> str:
        message = self._messages[at]
        fields = {
            "id": message.id,
            "role": message.role,
            "date": f"{message.sent_at:%Y-%m-%d %H:%M}",
            "text": _clipped(quoted(message.text), self._clip),
        }
        return json.dumps(fields, ensure_ascii=False)


def _even(lengths: Sequence[int], chars: int) -> int:
    """The length at which texts must be clipped so that together they have at most ``chars`` characters."""
    for left, length in zip(range(len(lengths), 0, -1), sorted(lengths), strict=True):
        if length * left > chars:
            return chars // left
        chars -= length
    return max(lengths, default=0)


def _clipped(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: max(chars - 1, 0)].rstrip() + "…"


def _read(text: str) -> Any:
    """The JSON in ``text``, mended where it is broken; None when there is none."""
    try:
        return json_repair.loads(text)
    except (ValueError, RecursionError):
        return None


def _parts(text: str) -> list[Mapping[str, Any]]:
    try:
        return list(_found(_read(text), "start_msg_id"))
    except RecursionError:
        return []


def _found(value: Any, key: str) -> Iterator[Mapping[str, Any]]:
    """Every object with ``key``, however it is wrapped."""
    if isinstance(value, Mapping) and key in value:
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _found(inner, key)


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        digits = _LAST_DIGITS.search(value[:100])
        return int(digits[0]) if digits else None
    return int(value) if math.isfinite(value) else None


def _summary(text: str) -> str:
    """The summary in an answer that is the JSON asked for or, from models that cannot, just the text."""
    try:
        found = next(_found(_read(text), "merged_summary"), None)
    except RecursionError:
        return ""
    if found is not None:
        return _written(found["merged_summary"])
    return "" if _OPENS_CODE.match(text) else _written(text.strip().strip("\"'“”«»"))


def _verdict(text: str) -> MergeVerdict | None:
    """The verdict in an answer; None where it decides nothing, or for a merge without a reason or a summary."""
    try:
        found = next(_found(_read(text), "should_merge"), None)
    except RecursionError:
        return None
    if found is None:
        return None
    decided = _TRUTHS.get(str(found["should_merge"]).strip().lower())
    reason, summary = _written(found.get("reason")), _written(found.get("merged_summary"))
    if decided is None or (decided and not (reason and summary)):
        return None
    return MergeVerdict(decided, reason, summary if decided else "")


def _written(summary: object) -> str:
    """A summary that a database can hold, on one line; empty for what is no text."""
    if not isinstance(summary, str):
        return ""
    return _clipped(" ".join(storable(summary).replace("\ufffd", " ").split()), LONGEST_SUMMARY)


def _named(draft: TopicDraft, messages: Sequence[MessageContent]) -> TopicDraft:
    """``draft`` with a summary: when the model wrote none, what was asked first."""
    if draft.summary:
        return draft
    asked = [message for message in messages if message.role == "user"]
    text = next((text for message in [*asked, *messages] if (text := _written(message.text))), "")
    return TopicDraft(_clipped(text, _OPENING_CHARS) or GENERAL, draft.messages)
