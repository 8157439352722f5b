"""The tool ``get_topics_content``, with which a model reads topics before it selects. Every call is answered, whatever
is wrong with it: a model that waits for an answer forever breaks the conversation. The topics loaded for one reply are
limited in size; the others are listed with their sizes, so that the model can ask again."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.conversation import Tool, ToolResult
from memoryapp.engine.events import ToolCall, TopicsRead
from memoryapp.engine.kinds.kind import ReadTopic
from memoryapp.engine.memory import ReadTopics, TopicContent, topic_id, topic_number
from memoryapp.engine.notes import Note, Notes, english
from memoryapp.engine.parameters import Limits
from memoryapp.engine.prompts.rerank import TOOL, TOOL_NAME
from memoryapp.engine.text.answers import parse_ids
from memoryapp.engine.text.lines import one_line, size_text, topic_text
from memoryapp.engine.threads import in_thread_if_long


@dataclass(frozen=True, slots=True)
class _Request:
    """What a call asks for: candidates in its order, and ids that are none. Both are empty when it is unreadable."""

    wanted: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class TopicsTool:
    """The reading of one rerank: candidate ids the model asked for, ids that are none, and the topics by id."""

    def __init__(self, candidates: Iterable[Candidate], read_topics: ReadTopics, limits: Limits) -> None:
        self.requested: tuple[str, ...] = ()
        self.unknown: tuple[str, ...] = ()
        self.topics: dict[str, TopicContent] = {}
        self._candidates: Mapping[str, Candidate] = {candidate.id: candidate for candidate in candidates}
        self._read_topics = read_topics
        self._limits = limits
        self._requests: dict[str, _Request] = {}
        self._room = limits.read_chars

    @property
    def tool(self) -> Tool:
        """A new value each time: if the two referred to each other, all topics read would stay in memory until the next
        garbage collection."""
        return Tool(TOOL, self._run, self._refuse, Note("topics_out_of_time"))

    async def take(self, calls: Sequence[ToolCall]) -> None:
        """Reads all calls of a reply before any of them is answered; ``read_chars`` bounds them together."""
        self._requests = {
            call.id: await in_thread_if_long(_understood, call, self._candidates, size=len(call.arguments))
            for call in calls
        }
        self.requested = joined(self.requested, *(request.wanted for request in self._requests.values()))
        self.unknown = joined(self.unknown, *(request.unknown for request in self._requests.values()))
        self._room = self._limits.read_chars

    async def _run(self, call: ToolCall, turn: int) -> ToolResult:
        """Loads what the call asks for. Topics that the model has already read are not sent again."""
        request = self._requests[call.id]
        if not (request.wanted or request.unknown):
            return self._refuse(call, turn, Note("names_nothing"))
        new = [id for id in request.wanted if id not in self.topics]
        # The candidates' sizes are known, so topics that cannot fit need not be read.
        asked, omitted = self._fitting([(id, self._candidates[id].size_chars) for id in new])
        read = await self._read_topics([topic_number(id) for id in asked]) if asked else ()
        found = {topic_id(topic.id): topic for topic in read}
        texts = {id: topic_text(found[id], self._limits.excerpt_over_chars) for id in asked if id in found}
        loaded, crowded = self._fitting([(id, len(text)) for id, text in texts.items()])
        notes = _notes(
            unknown=request.unknown,
            again=[id for id in request.wanted if id in self.topics],
            gone=[id for id in asked if id not in found],
            cut=[id for id in loaded if len(texts[id]) > self._room],
            limit=self._limits.read_chars,
        )
        sized = {id: self._candidates[id] for id in new if id in {*omitted, *crowded}}
        left_out = tuple(ReadTopic(id, each.size_chars, each.message_count) for id, each in sized.items())
        shown = [texts[id][: self._room] for id in loaded]
        event = TopicsRead(
            turn=turn,
            call=call.id,
            read=tuple(ReadTopic(id, found[id].size_chars, len(found[id].messages)) for id in loaded),
            omitted=left_out,
            unknown=request.unknown,
            size_chars=sum(map(len, shown)),
            notes=notes,
        )
        self.topics |= {id: found[id] for id in loaded}
        self._room = max(self._room - event.size_chars, 0)
        sentences = (*(english([note]) for note in notes), *_omission(left_out, self._limits.read_chars))
        return ToolResult("\n\n".join((*shown, *sentences)), event)

    def _refuse(self, call: ToolCall, turn: int, why: Note) -> ToolResult:
        unknown = self._requests[call.id].unknown
        return ToolResult(english([why]), TopicsRead(turn, call.id, (), (), unknown, 0, notes=(why,)))

    def _fitting(self, sizes: Iterable[tuple[str, int]]) -> tuple[list[str], list[str]]:
        """The ids that fit into the remaining room, in order, and those that do not. The first topic of a reply is
        always loaded: otherwise a topic larger than the room could never be read."""
        fits: list[str] = []
        rest: list[str] = []
        room = self._room
        for id, size in sizes:
            if size <= room or (not fits and self._room == self._limits.read_chars):
                fits.append(id)
                room -= size
            else:
                rest.append(id)
        return fits, rest


def _understood(call: ToolCall, candidates: Mapping[str, Candidate]) -> _Request:
    """The content of a call. Numbers, texts and ``Topic:42`` all name a topic; a call of another tool names none."""
    ids = (parse_ids(call.arguments) if call.name == TOOL_NAME else None) or ()
    known = [name for id in ids for name in named(id, candidates)]
    return _Request(joined(known), tuple(id for id in ids if not named(id, candidates)))


def named(id: str, candidates: Container[str]) -> tuple[str, ...]:
    """The candidates that the id may mean. A number alone, which was read as a topic's, may be that of an active
    session: a call has numbers only."""
    session = id.replace("Topic:", "Session:", 1)
    return tuple(each for each in dict.fromkeys((id, session)) if each in candidates)


def joined(*groups: Iterable[str]) -> tuple[str, ...]:
    """All ids in order, without repeats."""
    return tuple(dict.fromkeys(id for group in groups for id in group))


def _notes(
    *, unknown: Sequence[str], again: Sequence[str], gone: Sequence[str], cut: Sequence[str], limit: int
) -> Notes:
    """Remarks for the model beside the topics."""
    named = (
        (unknown, Note("not_candidates")),
        (again, Note("already_loaded")),
        (gone, Note("no_longer_stored")),
        (cut, Note("cut", {"limit": limit})),
    )
    return tuple(Note(note.code, {**note.values, "ids": [one_line(id) for id in ids]}) for ids, note in named if ids)


def _omission(topics: Sequence[ReadTopic], limit: int) -> tuple[str, ...]:
    if not topics:
        return ()
    listed = "; ".join(f"{t.id}, {t.message_count} msgs, {size_text(t.size_chars)}" for t in topics)
    return (f"Not loaded, one answer holds {limit} characters: {listed}. Ask again for those you need.",)
