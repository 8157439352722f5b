"""Passages: the pieces of talk with which search compares a query.

With an assistant a passage is one exchange: what the user said and the replies to it; a long one is cut,
and each later piece begins with the request it answers. Between people nobody asks and nobody replies, so
there a passage is a window over consecutive messages that overlaps the one before by a message.

Measured on 760 questions over five public two-person conversations, topics of at most 15 messages
(recall@5 / MRR): single messages .808/.731, pairs .837/.753, windows of 400 characters .842/.762, of 600
.838/.766, of 900 .830/.745. On whole sessions as topics (recall@1 / @5 / @10 / MRR): windows of 400 characters
.646/.880/.937/.805, of 1,400 with up to 200 in common, some 350 tokens, .608/.860/.931/.780."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.lexical import stems

WINDOW_CHARS = 400
EXCHANGE_CHARS = 600
_OVERLAP_CHARS = 80
_REQUEST_CHARS = 150
# A longer message is handed over in part; what a model quoted of it is kept up to this length.
LONG_CHARS = EXCHANGE_CHARS
_QUOTED_CHARS = 1_500

Span = tuple[int, int]

# A long text is divided after a sentence or a line, otherwise after a word.
_SENTENCE_END = re.compile(r"[.!?…;\n]\s+|[。！？；।؟۔]\s*|\n")


@dataclass(frozen=True, slots=True)
class PassageDraft:
    """``text`` consists of "author: text" lines; ``messages`` are the ids of messages with a piece in it, in order."""

    text: str
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    message: int
    text: str


def cut_passages(messages: Sequence[MessageContent]) -> list[PassageDraft]:
    """The passages over ``messages``, in order; every message is in at least one."""
    if any(message.role == "assistant" for message in messages):
        return [passage for exchange in exchanges(messages) for passage in _of_exchange(exchange)]
    return [_passage(window) for window in _windows(_lines(messages), WINDOW_CHARS)]


def exchanges(messages: Sequence[MessageContent]) -> list[list[MessageContent]]:
    """Consecutive messages from a user's message to the last reply to it; together they are ``messages``."""
    runs: list[list[MessageContent]] = []
    answered = True
    for message in messages:
        if not runs or (message.role == "user" and answered):
            runs.append([])
            answered = False
        answered = answered or message.role in ("assistant", "peer")
        runs[-1].append(message)
    return runs


def line_of(message: MessageContent) -> str:
    """``author: text``; a forwarded message also names its origin."""
    return f"{_label(message)}: {message.text}"


def parts_of(passage: str, messages: Sequence[MessageContent]) -> list[MessageContent]:
    """The ``messages`` of a passage, each with that part of its text which the passage contains. They may be fewer than
    the passage is made of. A text that the passage does not contain, because it was changed since, is given whole up to
    the length of an exchange."""
    whole = "\n".join(map(line_of, messages))
    if len(whole) <= len(passage):
        return list(messages)
    return [replace(message, text=_part(passage, message)) for message in messages]


def _part(passage: str, message: MessageContent) -> str:
    name = _label(message)
    found = [piece for piece in pieces(message.text) if f"{name}: {piece}" in passage]
    return "\n".join(dict.fromkeys(found)) or message.text[:EXCHANGE_CHARS]


def label(author: str, role: str, forwarded_from: str) -> str:
    """The beginning of a line of a passage."""
    wrote = author or role
    return f"{wrote} ({forwarded_from})" if forwarded_from else wrote


def _label(message: MessageContent) -> str:
    return label(message.author, message.role, message.forwarded_from)


def _of_exchange(exchange: Sequence[MessageContent]) -> list[PassageDraft]:
    first, *later = _windows(_lines(exchange), EXCHANGE_CHARS)
    return [_passage(first), *(_passage(window, _request(exchange[0], window)) for window in later)]


def _request(message: MessageContent, window: Sequence[_Line]) -> str:
    """The beginning of the request, unless the window contains a part of it anyway."""
    return "" if any(line.message == message.id for line in window) else line_of(message)[:_REQUEST_CHARS]


def _passage(window: Sequence[_Line], request: str = "") -> PassageDraft:
    lines = [line.text for line in window]
    return PassageDraft("\n".join([request, *lines] if request else lines), _messages(window))


def _messages(window: Sequence[_Line]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(line.message for line in window))


def _lines(messages: Sequence[MessageContent]) -> list[_Line]:
    return [_Line(message.id, f"{_label(message)}: {piece}") for message in messages for piece in pieces(message.text)]


def _windows(lines: Sequence[_Line], limit: int) -> Iterator[list[_Line]]:
    """Greedy windows of up to ``limit`` characters; a short last line also begins the next window."""
    window: list[_Line] = []
    size = 0
    for line in lines:
        if window and size + len(line.text) > limit:
            yield window
            last = window[-1]
            window = [last] if len(window) > 1 and len(last.text) + len(line.text) <= limit else []
            size = sum(len(kept.text) for kept in window)
        window.append(line)
        size += len(line.text)
    if window:
        yield window


def pieces(text: str, limit: int = EXCHANGE_CHARS) -> Iterator[str]:
    """``text`` in pieces of at most ``limit`` characters, each of which repeats the end of the one before."""
    start = 0
    while len(text) - start > limit:
        end = _cut(text, start + limit // 2, start + limit)
        yield text[start:end].strip()
        start = max(text.find(" ", end - _OVERLAP_CHARS, end) + 1, end - _OVERLAP_CHARS)
    yield text[start:].strip()


def _cut(text: str, least: int, most: int) -> int:
    ends = [match.end() for match in _SENTENCE_END.finditer(text, least, most)]
    if ends:
        return ends[-1]
    space = text.rfind(" ", least, most)
    return space + 1 if space >= 0 else most


def cut(message: MessageContent, weights: Mapping[str, float], quoted: Sequence[Span] = ()) -> MessageContent:
    """The message; of a long one what is ``quoted``, or else the first part with most of the weighted stems."""
    if len(message.text) <= LONG_CHARS:
        return message
    spans = _joined(quoted) if sum(end - start for start, end in quoted) <= _QUOTED_CHARS else ()
    return replace(message, text=_marked(message.text, spans or [_best(message.text, weights)]))


def _best(text: str, weights: Mapping[str, float]) -> Span:
    return max(_spans(text), key=lambda span: sum(weights.get(stem, 0.0) for stem in {*stems(text[slice(*span)])}))


def _spans(text: str) -> Iterator[Span]:
    start = 0
    for piece in pieces(text, LONG_CHARS):
        start = text.index(piece, start)
        yield start, start + len(piece)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, those that touch as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return found


def _marked(text: str, spans: Sequence[Span]) -> str:
    before = "… " if text[: spans[0][0]].strip() else ""
    after = " …" if text[spans[-1][1] :].strip() else ""
    return before + " … ".join(text[start:end].strip() for start, end in spans) + after


# The texts from which a topic's vector is made: its summary and messages, in pieces if too long for a model.

_FORM = "Topic Summary: {summary}\n\nConversation Log:\n"


def topic_texts(summary: str, log: Iterable[tuple[str, str]], most: int) -> list[str]:
    """The texts of at most ``most`` characters whose vectors have the topic's vector as their mean; none for an empty
    topic. ``log`` holds role and text of its messages in order. Each piece begins with the summary, so that all have
    the same subject. They are of about equal length, so that none counts more than its share."""
    lines = [f"[{role.capitalize()}]: {text.strip()}" for role, text in log if text.strip()]
    if not lines and not summary.strip():
        return []
    head, whole = _FORM.format(summary=summary.strip()[: most // 2]), "\n".join(lines)
    room = max(1, most - len(head))
    return [(head + piece).strip() for piece in _pieces(whole, room)] or [head.strip()]


def _pieces(log: str, room: int) -> list[str]:
    pieces, start = [], 0
    size = ceil(len(log) / max(1, ceil(len(log) / room)))
    while start < len(log):
        end = _break(log, start, start + size)
        pieces.append(log[start:end])
        start = end
    return pieces


def _break(log: str, start: int, end: int) -> int:
    """The end of the piece: after the last message that fits, else after the last word, else inside a word."""
    if end >= len(log):
        return len(log)
    half = start + (end - start) // 2
    # -1 means not found, so the next separator is tried.
    return log.rfind("\n", half, end) + 1 or log.rfind(" ", half, end) + 1 or end
