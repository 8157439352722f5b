"""The embedded chat model: a deterministic scorer in place of an LLM.

It implements the ``Chat`` protocol and reads only the messages of the request, in OpenAI's format and the formats of
``lines``. In its first turn it requests the most promising candidates with one tool call; after reading them it answers
with reasons and verbatim excerpts. It judges people and files by their lines. The same conversation always gets the
same reply."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoryapp.engine.beside import table_beside
from memoryapp.engine.budget import Usage
from memoryapp.engine.chat.media import text_of
from memoryapp.engine.chat.protocol import ChatRequest, Reply
from memoryapp.engine.events import Retried, SteppedDown, ToolCall
from memoryapp.engine.fusion import fused_score
from memoryapp.engine.memory import is_session, item_id, parse_topic_id
from memoryapp.engine.offline.choosing import certainty, choose, is_by_others, latest_beside
from memoryapp.engine.offline.items import ItemChoice, KnownItem, choose_files, choose_people, files_in, people_in
from memoryapp.engine.offline.judging import Judged, JudgedTopic, judge, wants_present
from memoryapp.engine.parameters import USUAL_CERTAINTY
from memoryapp.engine.prompts.prompt import Language, language_of
from memoryapp.engine.prompts.rerank import TOOL_NAME
from memoryapp.engine.text.answers import parse_ids
from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.lexical import stems, words
from memoryapp.engine.text.lines import CURRENT_TALK, MESSAGE_HEAD, NOT_ANALYSED
from memoryapp.engine.text.scripts import is_spaced

MODEL = "embedded-scorer"

# Reading more rarely changes the selection: measured, 97 % of the answers are in the first twelve topics.
_MOST_READ = 12
_MOST_CHARS = 150_000
_LARGE_CHARS = 25_000
# A summary with all words of the query raises a candidate by this much of a z-score.
_SUMMARY_LIFT = 2.0
_TOKEN_CHARS = 4
_REASON_WORDS = 4

_CANDIDATE = re.compile(
    r"^\[(?P<id>(?:Topic|Session):\d+)\] \((?P<score>\d\.\d\d)\) \S+ \| \d+ msgs, ~(?P<size>\d+)(?P<kilo>K?) chars"
    r" \| (?P<summary>.*)$",
    re.MULTILINE,
)
_TOPIC_HEAD = re.compile(r"^=== (Topic|Session) (\d+) ===$", re.MULTILINE)
_AUTHOR = re.compile(r"^\[\w+ \(@?(?P<author>[^()]*)\) \((?P<date>\d{4}-\d\d-\d\d)")
# What it says, in both languages.
_SENTENCES = table_beside(__file__)


@dataclass(frozen=True, slots=True)
class _Candidate:
    id: str
    score: float
    size_chars: int
    summary: str


@dataclass(frozen=True, slots=True)
class _ReadMessage:
    """A message as it was read; ``whole`` includes its head, ``date`` is empty for a message of the assistant."""

    author: str
    date: str
    role: str
    text: str
    whole: str


@dataclass(frozen=True, slots=True)
class _Talk:
    """The conversation so far, parsed: the query, the candidates, the topics read and requested."""

    query: str
    language: Language
    candidates: tuple[_Candidate, ...]
    read: Mapping[str, tuple[_ReadMessage, ...]]
    requested: frozenset[str]
    calls: int
    people: tuple[KnownItem, ...] = ()
    files: tuple[KnownItem, ...] = ()


class OfflineChat:
    """The ``Chat`` that needs no network and costs nothing."""

    model = MODEL

    def __init__(self, least: int = USUAL_CERTAINTY) -> None:
        """It chooses from the ``least`` certainty on, in percent."""
        self.least = least

    async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | Reply]:
        """Yields one ``Reply`` and never fails. The work is done in a thread."""
        yield await asyncio.to_thread(_reply, request, self.least)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the scorer's answer says beside its choice: how sure it is in percent, and the likeliest topic; where others
    than the person ``named`` said what comes near the question, who did."""

    certainty: int
    likeliest: str
    named: str = ""
    said_by: str = ""


def verdict_in(text: str) -> Verdict | None:
    """The verdict in the ``text`` of an answer of the scorer; None in any other."""
    try:
        given = json.loads(text)
        return Verdict(int(given["certainty"]), given["likeliest"], given.get("named", ""), given.get("said_by", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _reply(request: ChatRequest, least: int) -> Reply:
    talk = _understood(request.messages)
    wanted = _promising(talk) if request.tools else []
    call = _call(wanted, talk.calls + 1) if wanted else None
    reasoning, text = _asking(talk, wanted) if wanted else _answer(talk, least)
    asked = sum(len(text_of(message.get("content"))) for message in request.messages)
    return Reply(
        text=text,
        tool_calls=(call,) if call else (),
        reasoning=reasoning,
        message=_message(text, reasoning, call),
        usage=Usage(
            input_tokens=asked // _TOKEN_CHARS,
            output_tokens=(len(text) + len(reasoning) + (len(call.arguments) if call else 0)) // _TOKEN_CHARS,
        ),
        model=MODEL,
        finish_reason="tool_calls" if call else "stop",
    )


def _message(text: str, reasoning: str, call: ToolCall | None) -> Mapping[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning": reasoning}
    if call:
        function = {"name": call.name, "arguments": call.arguments}
        message["tool_calls"] = [{"id": call.id, "type": "function", "function": function}]
    return message


def _call(wanted: Sequence[_Candidate], number: int) -> ToolCall:
    ids = [candidate.id if is_session(candidate.id) else parse_topic_id(candidate.id) for candidate in wanted]
    return ToolCall(f"call_{number}", TOOL_NAME, json.dumps({"ids": ids}))


# Parsing the conversation


def _understood(messages: Sequence[Mapping[str, Any]]) -> _Talk:
    texts = [text_of(message.get("content")) for message in messages]
    opening = next((text for text in texts if "<topic_candidates>\n" in text), "")
    asked = _between(opening, "user_query")
    query, enriched = bare(asked), bare(_between(opening, "contextualized_query"))
    return _Talk(
        # One line each: an expression for a reference to a file must not match across two of them.
        query=query if enriched in ("", query) else f"{query}\n{enriched}",
        language=language_of(asked),
        candidates=_candidates(_between(opening, "topic_candidates")),
        read={
            id: loaded
            for m in messages
            if m.get("role") == "tool"
            for id, loaded in _loaded(text_of(m.get("content"))).items()
        },
        requested=frozenset(
            id
            for message in messages
            for call in message.get("tool_calls") or ()
            for id in parse_ids(str(call.get("function", {}).get("arguments", ""))) or ()
        ),
        calls=sum(bool(message.get("tool_calls")) for message in messages),
        people=tuple(people_in(_between(opening, "people_candidates"))),
        files=tuple(files_in(_between(opening, "artifact_candidates"))),
    )


def _between(text: str, tag: str) -> str:
    _, _, after = text.partition(f"<{tag}>\n")
    return after.partition(f"\n</{tag}>")[0]


def _candidates(lines: str) -> tuple[_Candidate, ...]:
    return tuple(
        _Candidate(
            id=found["id"],
            score=float(found["score"]),
            size_chars=int(found["size"]) * (1000 if found["kilo"] else 1),
            summary=found["summary"].removeprefix(f"{CURRENT_TALK}: ").replace(NOT_ANALYSED, ""),
        )
        for found in _CANDIDATE.finditer(lines)
    )


def _loaded(content: str) -> dict[str, tuple[_ReadMessage, ...]]:
    heads = list(_TOPIC_HEAD.finditer(content))
    ends = [head.start() for head in heads[1:]] + [len(content)]
    return {
        item_id(head[1], int(head[2])): _messages_in(content[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    }


def _messages_in(block: str) -> tuple[_ReadMessage, ...]:
    heads = list(MESSAGE_HEAD.finditer(block))
    ends = [head.start() for head in heads[1:]] + [len(block)]
    return tuple(
        _message_read(head[0], block[head.end() : end].rstrip("\n")) for head, end in zip(heads, ends, strict=True)
    )


def _message_read(head: str, text: str) -> _ReadMessage:
    named = _AUTHOR.match(head)
    author, date = (named["author"], named["date"]) if named else ("", "")
    return _ReadMessage(author, date, head.lstrip("[ \t").split("]")[0].split(" ")[0].lower(), text, head + text)


# Which topics to read


def _promising(talk: _Talk) -> list[_Candidate]:
    """The candidates to read next, best first; after the first request, only those that did not fit into it."""
    if talk.requested:
        return _left_out(talk)
    terms = set(stems(talk.query))

    def promise(candidate: _Candidate) -> float:
        found = len(terms.intersection(stems(candidate.summary))) / len(terms) if terms else 0.0
        return fused_score(candidate.score) + _SUMMARY_LIFT * found

    return _fitting(sorted(talk.candidates, key=promise, reverse=True)[:_MOST_READ])


def _left_out(talk: _Talk) -> list[_Candidate]:
    """Candidates requested but not read, at least as good as the best one read; requested once more at most."""
    if talk.calls > 1:
        return []
    missing = [candidate for candidate in talk.candidates if candidate.id in talk.requested - talk.read.keys()]
    read = [candidate.score for candidate in talk.candidates if candidate.id in talk.read]
    return _fitting([candidate for candidate in missing if read and candidate.score >= max(read)])


def _fitting(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    fits: list[_Candidate] = []
    room = _MOST_CHARS
    for candidate in candidates:
        if not fits or candidate.size_chars <= room:
            fits.append(candidate)
            room -= candidate.size_chars
    return fits


def _asking(talk: _Talk, wanted: Sequence[_Candidate]) -> tuple[str, str]:
    best = max(candidate.score for candidate in talk.candidates)
    return _say("read", talk, candidates=len(talk.candidates), best=best, count=len(wanted)), ""


# The answer


def _answer(talk: _Talk, least: int) -> tuple[str, str]:
    """The reasoning, and the JSON of the selection."""
    judged = judge(talk.query, _topics(talk), len(talk.candidates))
    chosen = choose(judged, least)
    reasons = {found.topic.id: _reason(talk, found) for found in chosen}
    if wants_present(talk.query) and (latest := latest_beside(judged, chosen)):
        newest, shared = latest
        later = _say(
            "later", talk, day=newest.topic.date, id=chosen[0].topic.id, words=_quote(talk, shared[:_REASON_WORDS])
        )
        reasons[newest.topic.id] = f"{later} {reasons.get(newest.topic.id, '')}".strip()
        chosen = [newest, *(found for found in chosen if found is not newest)]
    picks = [
        {"id": found.topic.id, "reason": reasons[found.topic.id], "excerpt": _excerpt(talk, found)} for found in chosen
    ]
    people, files = choose_people(talk.query, talk.people), choose_files(talk.query, talk.files)
    answer: dict[str, Any] = {"topics": picks, "people": _items(people, talk), "artifacts": _items(files, talk)}
    if judged:
        answer |= {"certainty": certainty(judged), "likeliest": judged[0].topic.id}
        if not chosen and is_by_others(judged[0]):
            answer |= {"named": judged[0].named, "said_by": judged[0].other}
    sentences = [_weighing(talk, judged, len(chosen))]
    if talk.people or talk.files:
        kept = len(people) + len(files)
        sentences.append(_say("items", talk, people=len(talk.people), files=len(talk.files), kept=kept))
    return " ".join(filter(None, sentences)), json.dumps(answer, ensure_ascii=False)


def _weighing(talk: _Talk, judged: Sequence[Judged], kept: int) -> str:
    if not judged and (talk.people or talk.files):
        return ""
    if not kept:
        if judged and is_by_others(judged[0]):
            return _say("others", talk, read=len(talk.read), named=judged[0].named, other=judged[0].other)
        return _say("nothing", talk, read=len(talk.read))
    chances = ", ".join(f"{found.topic.id} {found.chance:.2f}" for found in judged[: kept + 2])
    return _say("chose", talk, read=len(talk.read), chances=chances, kept=kept)


def _items(kept: Sequence[ItemChoice], talk: _Talk) -> list[Mapping[str, str]]:
    return [
        {"id": each.item.id, "reason": _say(each.why, talk, words=_quote(talk, each.words), score=each.item.score)}
        for each in kept
    ]


def _quote(talk: _Talk, terms: Sequence[str]) -> str:
    return ", ".join(f"“{word}”" if talk.language == "en" else f"«{word}»" for word in terms)


def _topics(talk: _Talk) -> list[JudgedTopic]:
    """The topics to judge: those read, or all candidates by their score alone when none was read."""
    known = [candidate for candidate in talk.candidates if candidate.id in talk.read]
    return [
        JudgedTopic(
            candidate.id,
            candidate.score,
            tuple(message.author for message in talk.read.get(candidate.id, ())),
            tuple(message.text for message in talk.read.get(candidate.id, ())),
            max((message.date for message in talk.read.get(candidate.id, ())), default=""),
        )
        for candidate in known or talk.candidates
    ]


def _reason(talk: _Talk, found: Judged) -> str:
    score = found.topic.score
    if found.topic.id not in talk.read:
        return _say("unread", talk, score=score)
    if not found.telling:
        return _say("meaning", talk, score=score)
    messages = talk.read[found.topic.id]
    best = messages[found.telling[0]]
    sentence = _say(
        "words",
        talk,
        who=f"{', '.join(filter(None, (best.author, best.date)))}: " if best.author else "",
        words=_quote(talk, _as_asked(talk, found)),
        telling=len(found.telling),
        messages=len(messages),
        score=score,
    )
    is_other = found.by_others > 0 and best.author not in ("", found.named)
    return sentence + (_say("said_by", talk, named=found.named) if is_other else "")


def _as_asked(talk: _Talk, found: Judged) -> list[str]:
    """The shared words as they are written in the query, the rarest first."""
    forms: dict[str, str] = {}
    for word in filter(is_spaced, words(talk.query)):
        for stem in stems(word):
            forms.setdefault(stem, word)
    written = dict.fromkeys(forms.get(stem, stem) for stem in found.shared)
    # Of a pair of characters and the characters alone, the pair.
    return [word for word in written if not any(word != other and word in other for other in written)][:_REASON_WORDS]


def _excerpt(talk: _Talk, found: Judged) -> str:
    """Whole messages, verbatim: the most telling ones, each with its question or answer; more for a large topic."""
    messages = talk.read.get(found.topic.id, ())
    most = 3 if sum(len(message.text) for message in messages) > _LARGE_CHARS else 1
    places = {place for at in found.telling[:most] for place in _with_pair(messages, at, set(found.telling))}
    return "\n".join(messages[place].whole for place in sorted(places))


def _with_pair(messages: Sequence[_ReadMessage], at: int, telling: set[int]) -> list[int]:
    """A request with its reply, or a reply with its request; between people, with the next telling message."""
    if messages[at].role == "assistant":
        return [at - 1, at] if at else [at]
    after = at + 1
    is_pair = after < len(messages) and (messages[after].role == "assistant" or after in telling)
    return [at, after] if is_pair else [at]


def _say(sentence: str, talk: _Talk, **values: Any) -> str:
    return str(_SENTENCES[sentence][talk.language]).format(**values)
