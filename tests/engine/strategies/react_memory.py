"""A memory of a few messages for the agent, searched by the engine's own arithmetic, without a database. Similarity is
the share of trigrams of letters that query and passage have in common, in place of an embedding model."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from memoryapp.engine.budget import Deadline
from memoryapp.engine.candidates import Candidate, UnderstoodQuery
from memoryapp.engine.chat.protocol import Chat, ChatRequest, PartialReply, Reply
from memoryapp.engine.emit import Emit
from memoryapp.engine.events import CandidatesFound, Event, ModelProgress, QueryEnriched, Retried, SteppedDown
from memoryapp.engine.fusion import Fusion, Sum, fuse
from memoryapp.engine.kinds.react import Answered, ToolUsed
from memoryapp.engine.memory import ANYWHERE, Background, MessageContent, TopicContent, Where
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.strategies.react import STRATEGY
from memoryapp.engine.strategies.react.toolbox import ReactParameters
from memoryapp.engine.strategies.strategy import (
    Found,
    FoundPassage,
    Ports,
    PreparedSearch,
    RerankScores,
    StrategyRequest,
)
from memoryapp.engine.text.lexical import Floats, Matches, Weighed, bm25, stems
from tests.engine.scripted import ScriptedChat, Step, emitted, says

TODAY = date(2026, 3, 1)
TALK = (
    (1, "2025-08-03", "Anna", "We rented a flat in Tbilisi, in Vera, because it is quiet there."),
    (1, "2025-08-03", "Dasha", "Is the flat in Vera expensive? The other flats were."),
    (2, "2025-08-20", "Anna", "Dasha baked a poppy seed cake for my birthday."),
    (2, "2025-08-20", "Dasha", "The cake had 12 candles and cherries on top."),
    (3, "2025-10-01", "Anna", "The knee is better, the orthopedist allowed swimming."),
    (3, "2025-10-02", "Anna", "Breaststroke is forbidden because of the meniscus."),
    (4, "2025-11-11", "Anna", "The vLLM replica froze after the upgrade to CUDA 13."),
    (4, "2025-11-11", "Boris", "The replica of vLLM froze again, we pinned CUDA 12.8."),
    (5, "2025-12-24", "Anna", "Kostya got a telescope for his fortieth birthday."),
    (6, "2026-01-15", "Boris", "The kitchen arrived with a discount of 15 percent."),
    (7, "2026-02-02", "Anna", "The gateway refused all clients when the certificate expired."),
    (8, "2026-02-10", "Anna", "Batch jobs may borrow four GPUs at night."),
)


class Writer(ScriptedChat):
    """A model that plays its script, and judges statements beside it: ``judged`` are the numbers of the sources of each
    statement; without them its verdict cannot be read. ``verdict`` replaces the whole turn."""

    def __init__(
        self, *steps: Step, judged: Sequence[Sequence[int]] | None = None, verdict: Step | None = None
    ) -> None:
        super().__init__(*steps)
        found = [{"statement": place, "sources": list(each)} for place, each in enumerate(judged or (), start=1)]
        self._verdict = verdict or says("?" if judged is None else json.dumps({"statements": found}))
        self.judgements: list[ChatRequest] = []

    async def converse(self, request: ChatRequest) -> AsyncIterator[Retried | SteppedDown | PartialReply | Reply]:
        is_judging = "<statements>" in str(request.messages[-1]["content"])
        if is_judging:
            self.judgements.append(request)
        async for each in ScriptedChat(self._verdict).converse(request) if is_judging else super().converse(request):
            yield each


@dataclass
class Memory:
    """``said`` are (topic, day, author, text); each message is a passage. ``asked`` contains every search."""

    entries: Sequence[tuple[int, str, str, str]] = TALK
    writer: Chat | None = None
    judge: Chat | None = None
    seconds: float = 30.0
    asked: list[tuple[str, Fusion, int, Where]] = field(default_factory=list)
    rescored: list[Sequence[str]] = field(default_factory=list)
    cross_encoder: str = ""
    where: Where = ANYWHERE
    unread: tuple[str, ...] = ()

    @property
    def messages(self) -> list[MessageContent]:
        return [
            MessageContent(number, "user", author, datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC), text)
            for number, (_topic, day, author, text) in enumerate(self.entries, start=1)
        ]

    @property
    def ports(self) -> Ports:
        return Ports(
            chat=self.writer or ScriptedChat(),
            enrich=self._enrich,
            search=self._search,
            read_topics=self._topics,
            read_messages=self._messages,
            rerank_scores=self._scores,
            deadline=Deadline(self.seconds),
            writer=self.writer,
            judge=self.judge,
        )

    async def _enrich(self, emit: Emit) -> QueryEnriched:
        return QueryEnriched(self.query, self.query, note="failed", seconds=0.0)

    query = ""

    async def _search(self, line: QueryEnriched) -> PreparedSearch:
        async def find(*, fusion: Fusion = fuse, passages: int = 0, where: Where = ANYWHERE) -> Found:
            self.asked.append((line.query, fusion, passages, where))
            return self._found(line.query, fusion, passages, self.where.over(where))

        return PreparedSearch(line, find)

    def _found(self, query: str, fusion: Fusion, most: int, where: Where) -> Found:
        texts = [text for _topic, _day, _author, text in self.entries]
        cosine, words = nearness(query, texts), weighed(query, texts)
        nothing = np.zeros(len(texts), dtype=np.bool_)
        fused = fusion(cosine, words, nothing)
        near = (fusion if isinstance(fusion, Sum) else fuse).weighed(cosine, words, nothing)[0]
        order = [place for place in np.argsort(-fused, kind="stable").tolist() if self._lies_in(place, where)]
        best = {self.entries[place][0]: place for place in reversed(order)}
        ranked = sorted(best, key=lambda topic: order.index(best[topic]))
        candidates = tuple(
            _candidate(topic, rank, cosine[best[topic]], fused[best[topic]], near[best[topic]])
            for rank, topic in enumerate(ranked, start=1)
        )
        baseline = tuple(f"Topic:{topic}" for topic in ranked)
        found = tuple(
            FoundPassage(
                id=place + 1,
                rank=rank,
                cosine=float(cosine[place]),
                bm25=float(words.total[place]),
                fused=float(fused[place]),
                score=1 / (1 + float(np.exp(-fused[place]))),
                text=f"{self.entries[place][2]}: {texts[place]}",
                messages=(place + 1,),
                topics=(self.entries[place][0],),
            )
            for rank, place in enumerate(order[:most], start=1)
        )
        event = CandidatesFound(candidates, len(texts), 0.1, understood=UnderstoodQuery(where=where))
        return Found(event, baseline, found, words.rarity)

    def _lies_in(self, place: int, where: Where) -> bool:
        _topic, day, author, _text = self.entries[place]
        if where.authors and author not in where.authors:
            return False
        return not where.channels and (where.since or day) <= day <= (where.until or day)

    async def _topics(self, numbers: Sequence[int]) -> Sequence[TopicContent]:
        by_topic: dict[int, list[MessageContent]] = {}
        for message, (topic, *_rest) in zip(self.messages, self.entries, strict=True):
            by_topic.setdefault(topic, []).append(message)
        return [
            TopicContent(n, f"about {n}", by_topic[n][0].sent_at, 100, tuple(by_topic[n]))
            for n in numbers
            if n in by_topic
        ]

    async def _messages(self, numbers: Sequence[int]) -> Sequence[MessageContent]:
        return [message for message in self.messages if message.id in set(numbers)]

    async def _scores(self, query: str, texts: Sequence[str]) -> RerankScores:
        self.rescored.append(texts)
        return RerankScores([1 / (place + 2) for place in reversed(range(len(texts)))], self.cross_encoder)

    async def run(self, query: str, ports: Ports | None = None, **parameters: Any) -> list[Event]:
        """Returns the events of a run, without progress of the model."""
        self.query = query
        request = StrategyRequest(
            query,
            ReactParameters(**parameters),
            TODAY,
            Background("", (), (), ()),
            built_in(),
            where=self.where,
            unread=self.unread,
        )
        events = await emitted(STRATEGY.recall, request, ports or self.ports)
        return [event for event in events if not isinstance(event, ModelProgress)]


def nearness(query: str, texts: Sequence[str]) -> Floats:
    """Shape (texts,)."""
    threes = [
        frozenset(text[at : at + 3] for at in range(len(text) - 2)) for text in (query.lower(), *map(str.lower, texts))
    ]
    asked, *others = threes
    return np.array([len(asked & each) / max((len(asked) * len(each)) ** 0.5, 1.0) for each in others])


def weighed(query: str, texts: Sequence[str]) -> Weighed:
    counts = [Counter(stems(text)) for text in texts]
    matches = {}
    for term in dict.fromkeys(stems(query)):
        places = [place for place, count in enumerate(counts) if term in count]
        numbers = np.array([counts[place][term] for place in places], dtype=np.float64)
        matches[term] = Matches(np.array(places, dtype=np.intp), numbers) if places else None
    return bm25(matches, np.array([sum(count.values()) for count in counts], dtype=np.float64))


def _candidate(topic: int, rank: int, cosine: float, fused: float, near: float) -> Candidate:
    return Candidate(
        id=f"Topic:{topic}",
        rank=rank,
        vector_rank=rank,
        cosine=float(cosine),
        bm25=1.0,
        fused=float(fused),
        score=1 / (1 + float(np.exp(-fused))),
        date="2025-08-03",
        message_count=2,
        size_chars=100,
        summary=f"about {topic}",
        line="",
        shown=True,
        parts={"meaning": float(near)},
    )


def used(events: Sequence[Event], tool: str = "") -> list[ToolUsed]:
    """Returns the results of the tools, or of the tool of that name."""
    return [event for event in events if isinstance(event, ToolUsed) and tool in ("", event.tool)]


def answer(events: Sequence[Event]) -> Answered:
    (found,) = [event for event in events if isinstance(event, Answered)]
    return found


def trace(events: Sequence[Event]) -> list[Any]:
    """Returns a run without its seconds, to compare it with another one."""
    return [replace(event, seconds=0.0) if isinstance(event, ToolUsed | CandidatesFound) else event for event in events]
