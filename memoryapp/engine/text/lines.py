"""Lines for chat models: candidates, topics and messages as text that cannot be mistaken for the program's own.

``quoted`` replaces the one character with which stored text could close a tag or imitate a head or a line of the
program by its fullwidth form. Each character is replaced by one character, so offsets stay valid and excerpts can be
found again.
Labels are English in every language, because ``excerpts`` and the embedded model read them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.memory import MessageContent, TopicContent, is_session, topic_id

NOT_ANALYSED = "(not analysed yet)"
CURRENT_TALK = "Current talk, not yet in a topic"
_NAME_CHARS = 64
# A line introduces a person or a file; the beginning of a biography or a list of keywords is enough.
_FIELD_CHARS = 400

# Tags of these prompts and of the context of a run, and the marks with which some models end a message.
_OURS = (
    "role|limits|algorithm|criteria|output_format|grounding|context|media"
    "|user_profile|inner_circle|recent_topics|contextualized_query|user_query|current_messages"
    "|(?:topic|people|person|artifact|file)_candidates|possibly_related"
    "|(?:relevant|retrieved|selected|artifact)_(?:context|topics|people|artifacts|files)"
    "|sources?|statements|topics?|people|person|artifacts?|files?|(?:start|end)_of_turn"
)
# Characters without width would otherwise split what looks like one word. Possessive, because none of the characters
# beside a gap can be part of it, so backtracking would find nothing.
_GAP = "[\\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*+"
# Whatever a reader or ``splitlines`` may take for the beginning of a line, and what may stand between it and a word.
_LINE_ENDS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE = f"(?:^|(?<=[{_LINE_ENDS}]))"
_INDENT = "[ \t\xa0\u00ad\u1680\u2000-\u200f\u202f\u205f\u2060-\u2064\u3000\ufeff]*+"
_POSING = re.compile(
    rf"<(?={_GAP}/?{_GAP}(?:{_OURS})\b|{_GAP}\|)"
    rf"|\[(?={_GAP}(?:(?:topic|session|person|artifact){_GAP}:|(?:user|assistant|peer|system|forwarded|in reply to)\b))"
    rf"|=(?==={_GAP}(?:topic|session)\b)"
    # "[2] (Anna, 2026-01-01)", "Summary: …", and the line between two chunks of a filtered context.
    rf"|{_LINE}{_INDENT}(?:\[(?={_INDENT}\d)|(?:date|summary){_INDENT}:|-(?=--++{_INDENT}(?:$|[{_LINE_ENDS}])))",
    re.IGNORECASE,
)
# The characters that structure a head or a line.
_SHAPING = re.compile(r"[\[\]()<>|\"=]")
_TWINS = {"<": "\uff1c", "[": "\uff3b", "=": "\uff1d", ":": "\uff1a", "-": "\uff0d"}

# The head of a message as ``message_text`` writes it, and as models shorten it ("[User]: ").
MESSAGE_HEAD = re.compile(r"^[ \t]*\[(?:User|Assistant|Peer|System|Forwarded)\b[^\]\n]{0,400}\]:[ \t]?", re.MULTILINE)


def quoted(text: str) -> str:
    """``text`` changed so that it cannot close a tag or imitate the head of a source or message; same length."""
    # Most texts contain nothing of this, and looking for it takes a tenth of the time of the pattern.
    if any(mark in text for mark in ("<", "[", "=", "---")) or (":" in text and _has_label(text)):
        return _POSING.sub(lambda match: match[0][:-1] + _TWINS[match[0][-1]], text)
    return text


def _has_label(text: str) -> bool:
    lower = text.lower()
    return "summary" in lower or "date" in lower


def one_line(text: str) -> str:
    """``text`` quoted, on one line."""
    return quoted(" ".join(text.split()))


def size_text(chars: int) -> str:
    """``~800 chars``, ``~16K chars``."""
    return f"~{(chars + 500) // 1000}K chars" if chars >= 1000 else f"~{chars} chars"


def placed(each: Candidate, rank: int, *, shown: bool) -> Candidate:
    """The candidate at that rank. Only one that is shown has a line, and tells which wordings found it."""
    if not shown:
        return replace(each, rank=rank, shown=False, line="", found_by={})
    line = each.line or candidate_line(
        each.id, each.score, each.date, each.message_count, each.size_chars, each.summary
    )
    return replace(each, rank=rank, shown=True, line=line)


def candidate_line(id: str, score: float, date: str, message_count: int, size_chars: int, summary: str) -> str:
    """``[Topic:42] (0.72) 2025-07-25 | 20 msgs, ~16K chars | summary``. An active session says that it is one."""
    shown = one_line(summary) or NOT_ANALYSED
    shown = f"{CURRENT_TALK}: {shown}" if is_session(id) else shown
    return f"[{id}] ({score:.2f}) {date} | {message_count} msgs, {size_text(size_chars)} | {shown}"


def texts_of(listed: object) -> list[str]:
    """The entries of an imported list as texts; empty for any other value."""
    return [str(item) for item in listed] if isinstance(listed, list) else []


def person_label(display_name: str, username: str, aliases: Sequence[str], circle: str) -> str:
    """``Петров (@petrov) (aka Петя, Pete) [Work_Inner]``."""
    login, also = plain(username.lstrip("@")), ", ".join(filter(None, map(plain, aliases)))
    parts = (
        plain(display_name),
        f"(@{login})" if login else "",
        f"(aka {also})" if also else "",
        f"[{plain(circle)}]" if circle else "",
    )
    return " ".join(filter(None, parts))


def person_line(
    id: str,
    score: float,
    display_name: str,
    username: str,
    aliases: Sequence[str],
    circle: str,
    mention_count: int,
    bio: str,
) -> str:
    """``[Person:5] (0.65) Петров (@petrov) (aka Петя, Pete) [Work_Inner] | 127 mentions | bio``."""
    head = f"[{id}] ({score:.2f}) {person_label(display_name, username, aliases, circle)}"
    return " | ".join((head, f"{mention_count} mentions", _field(bio) or NOT_ANALYSED))


def artifact_line(
    id: str,
    score: float,
    file_type: str,
    name: str,
    keywords: Sequence[str],
    entities: Sequence[str],
    summary: str,
    rag_hints: Sequence[str],
    in_session: bool = False,
) -> str:
    """``[Artifact:123] (0.68) pdf: "api-docs.pdf" | api, rest | Entities: OAuth2, JWT | summary | Answers: hints``. A
    file of the running conversation has no score and says so."""
    found = "in this conversation" if in_session else f"{score:.2f}"
    entity_names, hints = _field(", ".join(entities)), _field("; ".join(rag_hints))
    fields = (
        f'[{id}] ({found}) {plain(file_type)}: "{plain(name)}"',
        _field(", ".join(keywords)),
        f"Entities: {entity_names}" if entity_names else "",
        _field(summary) or NOT_ANALYSED,
        f"Answers: {hints}" if hints else "",
    )
    return " | ".join(filter(None, fields))


def _field(text: str) -> str:
    """A field of a line: quoted, bounded, and without the bar that separates fields."""
    return shortened(one_line(text).replace("|", "/"), _FIELD_CHARS)


def shortened(text: str, most: int) -> str:
    """``text`` of at most ``most`` characters, the last one an ellipsis where it was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def topic_text(topic: TopicContent, excerpt_over_chars: int = 25_000) -> str:
    """A topic as the tool returns it; a topic above ``excerpt_over_chars`` asks for an excerpt."""
    large = " | large: give an excerpt" if topic.size_chars > excerpt_over_chars else ""
    head = (
        f"=== {topic_id(topic.id).replace(':', ' ')} ===\n"
        f"Date: {topic.started_at:%Y-%m-%d} | {len(topic.messages)} msgs | {size_text(topic.size_chars)}{large}\n"
        f"Summary: {one_line(topic.summary) or NOT_ANALYSED}\n"
    )
    return "\n".join((head, *(message_text(message) for message in topic.messages)))


def message_text(message: MessageContent) -> str:
    """``[User (@username) (2025-07-25 14:30:00)]: text``."""
    return f"{message_head(message)} {quoted(message.text)}"


def source_text(number: int, day: str, lines: str) -> str:
    """A numbered source of an answer: ``lines`` of ``message_text`` between tags that no quoted text contains."""
    return f'<source n="{number}" date="{day}">\n{lines}\n</source>'


def message_head(message: MessageContent) -> str:
    """``[User (@username) (2025-07-25 14:30:00)]:``."""
    role = message.role.capitalize() if message.role in {"user", "assistant", "peer"} else "System"
    if message.forwarded_from:
        by = f"{role} ({_name(message)})" if role == "Peer" else role
        return f"[Forwarded from {plain(message.forwarded_from)} by {by} at {moment_text(message.sent_at)}]:"
    if role == "Assistant":
        return "[Assistant]:"
    name = _name(message)
    name = f" ({name})" if name else ""
    return f"[{role}{name} ({moment_text(message.sent_at)})]:"


def moment_text(moment: datetime) -> str:
    """``2025-07-25 14:30:00``, in a third of the time that formatting takes."""
    return str(moment)[:19]


def _name(message: MessageContent) -> str:
    username = plain(message.username.lstrip("@"))
    return f"@{username}" if username else plain(message.author)


@lru_cache(maxsize=1_000)
def plain(name: str) -> str:
    """A name without the characters that structure a head or a line."""
    return " ".join(_SHAPING.sub(" ", name).split())[:_NAME_CHARS]
