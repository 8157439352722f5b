"""A finished run as a document: the selected topics, people and artifacts, and the context for the assistant. A run
stores the parts of its context as they were handed over, except for the part with the topics. That one is assembled
again whenever it is requested: the messages of a topic never change, so the text is always the same."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.context import (
    ASSEMBLED,
    MessagesByTopic,
    PassageMessages,
    SelectedTopics,
    enclosed,
    joined,
    passages_by_topic,
    passages_text,
    topics_text,
    unsure_text,
)
from memoryapp.engine.events import CandidatesFound, Event, RunFinished, Selected
from memoryapp.engine.kinds.react import Answered, Citation
from memoryapp.engine.memory import is_session, parse_document_id, parse_topic_id, topic_id
from memoryapp.engine.notes import english
from memoryapp.engine.outline import Outline, read_in
from memoryapp.engine.strategies import PLANNING, STRATEGIES
from memoryapp.engine.strategies.operators import typed
from memoryapp.engine.text.lines import CURRENT_TALK
from memoryapp.memory.content import content, in_sessions, in_topics
from memoryapp.models import Message, PassageMessage, Run, Topic
from memoryapp.runs import followers
from memoryapp.runs.parameters import where_of


@dataclass(frozen=True, slots=True)
class TopicHead:
    """What is said of a topic beside its messages; of a document nothing but its summary."""

    summary: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    message_count: int | None = None


@dataclass(frozen=True, slots=True)
class ChosenTopic:
    """``head`` is None for a topic that was erased, ``excerpt`` where no message contains any piece of it."""

    selected: Selected
    read: bool
    head: TopicHead | None
    excerpt: str | None
    messages: Sequence[Message] | None
    passages: Sequence[Message] | None


@dataclass(frozen=True, slots=True)
class NamedChoice:
    """A chosen person or artifact."""

    selected: Selected
    name: str


@dataclass(frozen=True, slots=True)
class CitedMessage:
    """The message behind a citation, and those of its passage by the ids under which they were sent."""

    citation: Citation
    message: Message
    passage: Sequence[str]


class EndedRun:
    """What a finished run answers: what it chose, the context, and the answer in words where it gave one. ``include``
    names what each topic contains beside: its ``messages``, or the ``passages`` that answer, without what the caller
    sent along. Raises LookupError for a run that has not ended."""

    def __init__(self, run: Run, include: Collection[str] = ()) -> None:
        events = [item.event for item in followers.stored(run.pk)]
        outline = Outline.of(events)
        if outline.finished is None:
            raise LookupError(f"Run {run.pk} has not ended.")
        self.run = run
        self.finished = outline.finished
        self._found, self._read, self._include = outline.found, read_in(events), include
        self._answered = answer_of(events)

    @property
    def handed_over(self) -> str:
        return handed_over(self.run)

    @property
    def usage(self) -> Run:
        """What the run cost, which its row counts."""
        return self.run

    @cached_property
    def _rows(self) -> Mapping[str, Sequence[Message]]:
        return messages_of(self.run, self.finished, self._found)

    @cached_property
    def _messages(self) -> MessagesByTopic:
        return _contents(self._rows)

    # What it chose.

    @cached_property
    def topics(self) -> list[ChosenTopic]:
        heads, messages, passages = self._heads(), dict[str, list[Message]](), dict[str, list[Message]]()
        if self._include:
            known = self._sent_by_caller(self._messages)
            messages = {id: [row for row in rows if row.pk not in known] for id, rows in self._rows.items()}
        if "passages" in self._include:
            passages = self._passage_messages()
        return [
            ChosenTopic(
                each,
                each.id in self._read,
                heads.get(each.id),
                self._excerpt(each),
                messages.get(each.id, []) if "messages" in self._include else None,
                passages[each.id] if "passages" in self._include else None,
            )
            for each in self.finished.selected
        ]

    @property
    def people(self) -> list[NamedChoice]:
        return _items(self.finished.people, self._found.people if self._found else ())

    @property
    def artifacts(self) -> list[NamedChoice]:
        return _items(self.finished.artifacts, self._found.artifacts if self._found else ())

    def _passage_messages(self) -> dict[str, list[Message]]:
        """The messages of the passages of each topic, with the part of their text that a passage shows."""
        rows = {row.pk: row for listed in self._rows.values() for row in listed}
        parts = passages_by_topic(self._selected(self.finished, self._messages))
        return {id: [_cut(rows[part.id], part.text) for part in told if part.id in rows] for id, told in parts.items()}

    def _heads(self) -> dict[str, TopicHead]:
        """What is said of each topic by its id: of an active session, and of a topic that a filter permits in part,
        what its messages show. An erased topic is missing."""
        is_filtered = where_of(self.run).has_filters
        named = self._found.named(self.finished.selected) if self._found else {}
        by_messages = {id: part for id, part in self._rows.items() if part and (is_session(id) or is_filtered)}
        numbers = [] if is_filtered else _numbers(self.finished)
        rows = Topic.objects.filter(owner_id=self.run.owner_id, pk__in=numbers)
        heads = {topic_id(t.pk): TopicHead(t.summary, t.started_at, t.ended_at, t.message_count) for t in rows}
        documents = {id: TopicHead(each.summary) for id, each in named.items() if parse_document_id(id)}
        return heads | documents | {id: _head_of_part(id, named.get(id), part) for id, part in by_messages.items()}

    def _excerpt(self, selected: Selected) -> str | None:
        texts = {message.id: message.text for message in self._messages.get(selected.id, ())}
        pieces = [texts[piece.message][piece.start : piece.end] for piece in selected.excerpt if piece.message in texts]
        return "\n".join(filter(None, pieces)) or None

    # The context.

    @cached_property
    def context(self) -> str:
        if self.finished.context or not self.finished.selected:
            return joined(self.finished.context, self._assembled)
        # Earlier versions did not store contexts.
        return enclosed("topics", self._assembled("topics"))

    def part(self, name: str) -> str:
        """One part of the context, as it was handed over. Raises LookupError for a part that it does not contain."""
        part = next((part for part in self.finished.context if part.name == name), None)
        if part is None:
            raise LookupError(f"The context of run {self.run.pk} has no part {name}.")
        return enclosed(name, self._assembled(name)) if name in ASSEMBLED else part.text

    def _assembled(self, part: str) -> str:
        if part == "unsure":
            near = replace(self.finished, selected=self.finished.unsure)
            return unsure_text(self._selected(near, _contents(messages_of(self.run, near, self._found))))
        strategy, by_passages = STRATEGIES.get(self.run.strategy), self.handed_over == "passages"
        usual = passages_text if by_passages else topics_text
        makes = strategy.text_of(self.handed_over) if strategy else usual
        return makes(self._selected(self.finished, self._messages, with_passages=by_passages))

    def _selected(
        self, finished: RunFinished, messages: MessagesByTopic, *, with_passages: bool = True
    ) -> SelectedTopics:
        candidates: Mapping[str, Candidate] = self._found.named(finished.selected) if self._found else {}
        sent = self._sent_by_caller(messages)
        passages = self._passages_of(candidates) if with_passages else {}
        return SelectedTopics(typed(self.run.query).text, finished.selected, candidates, messages, sent, passages)

    def _passages_of(self, candidates: Mapping[str, Candidate]) -> PassageMessages:
        """The messages of the passage by which each topic was found, as far as it was not erased."""
        numbers = [each.passage_id for each in candidates.values()]
        listed = PassageMessage.objects.filter(owner_id=self.run.owner_id, passage__in=numbers)
        read: dict[int, list[int]] = defaultdict(list)
        for passage, message in listed.values_list("passage_id", "message_id"):
            read[passage].append(message)
        return {id: read[each.passage_id] for id, each in candidates.items()}

    def _sent_by_caller(self, messages: MessagesByTopic) -> set[int]:
        """The messages that the caller sent along with the query; in active sessions also those with the same text."""
        along = self.run.messages or ()
        names = [str(sent["id"]) for sent in along if sent.get("id")]
        texts = {str(sent.get("text") or "").strip() for sent in along}
        talk = (message for id, listed in messages.items() if is_session(id) for message in listed)
        known = {message.id for message in talk if message.text.strip() in texts}
        rows = Message.objects.of(self.run.owner_id).filter(external_id__in=names)
        return known | (set(rows.values_list("pk", flat=True)) if names else set())

    # The answer in words.

    @property
    def agent(self) -> bool:
        return self.run.strategy in PLANNING

    @property
    def words(self) -> Answered:
        return self._answered or _NO_WORDS

    @property
    def outcome(self) -> str:
        return self._answered.outcome if self._answered else "failed"

    @property
    def by(self) -> str | None:
        return None if self.outcome in ("passages", "failed") else self.words.by

    @property
    def note(self) -> str:
        return english(self.words.notes)

    @cached_property
    def citations(self) -> list[CitedMessage]:
        """The citations with their messages, except for those that were erased."""
        cited = self.words.citations
        numbers = {number for each in cited for number in (each.message, *each.passage)}
        rows = Message.objects.of(self.run.owner_id).in_bulk(numbers)
        return [
            CitedMessage(each, rows[each.message], [rows[n].external_id for n in each.passage if n in rows])
            for each in cited
            if each.message in rows
        ]

    @property
    def verified(self) -> bool | None:
        """Whether a model confirmed every statement that stayed, and no word contradicts one; None if none judged."""
        words = self.words
        if not words.statements:
            # Runs of earlier versions stored the share alone.
            return words.support >= 1 if words.judged and words.support is not None else None
        return all(each.is_verified for each in words.statements if each.kept) if words.judged else None


_NO_WORDS = Answered(text="", citations=(), outcome="refused", coverage=0.0, by="model")


def answer_of(events: Sequence[Event]) -> Answered | None:
    """The answer of a run; None for a run that wrote none, or has not reached it yet."""
    return next((event for event in reversed(events) if isinstance(event, Answered)), None)


def part_text(run: Run, name: str) -> str:
    """One part of the run's context, as it was handed over. Raises LookupError for a run that has not ended, and for a
    part that its context does not contain."""
    return EndedRun(run).part(name)


def handed_over(run: Run) -> str:
    """What of the selected topics the context holds, by the parameter ``context``; whole ones before there was any."""
    return str(run.parameters.get("context", "topics"))


def _numbers(finished: RunFinished) -> list[int]:
    wanted = (parse_topic_id(selected.id) for selected in finished.selected)
    return [number for number in wanted if number and number > 0]


def messages_of(run: Run, finished: RunFinished, found: CandidatesFound | None) -> Mapping[str, Sequence[Message]]:
    """The messages of every selected topic and active session that the run's filters permit, oldest first."""
    messages: dict[str, list[Message]] = {}
    for row in in_topics(run.owner_id, _numbers(finished), where_of(run)):
        messages.setdefault(topic_id(row.topic_id), []).append(row.message)
    sessions = session_messages(found, [selected.id for selected in finished.selected])
    for message in in_sessions(run.owner_id, sessions, where_of(run)):
        messages.setdefault(sessions[message.pk], []).append(message)
    return messages


def session_messages(found: CandidatesFound | None, ids: Iterable[str]) -> dict[int, str]:
    """The messages that the active sessions among ``ids`` had when they were found, each with the id of its session."""
    listed = found.sessions if found else {}
    return {number: id for id in ids for number in listed.get(id, ())}


def _contents(rows: Mapping[str, Sequence[Message]]) -> MessagesByTopic:
    return {id: [content(row) for row in listed] for id, listed in rows.items()}


def _head_of_part(id: str, candidate: Candidate | None, messages: Sequence[Message]) -> TopicHead:
    summary = candidate.summary if candidate else ""
    summary = f"{CURRENT_TALK}: {summary}" if is_session(id) else summary
    return TopicHead(summary, messages[0].sent_at, messages[-1].sent_at, len(messages))


def _cut(row: Message, text: str) -> Message:
    """The message with this part of its text alone; it is never saved."""
    cut = copy(row)
    cut.text = text
    return cut


def _items(chosen: Sequence[Selected], candidates: Sequence[ItemCandidate]) -> list[NamedChoice]:
    names = {candidate.id: candidate.name for candidate in candidates}
    return [NamedChoice(item, names.get(item.id, "")) for item in chosen]


def text(ended: EndedRun) -> str:
    """What the run answers as text for a terminal: first an answer in words, or passages in its place."""
    lines = [
        f"{each.selected.rank}. {each.selected.id}  {each.selected.score:.2f}  {each.selected.reason}"
        for each in ended.topics
    ]
    lines += [
        f"   {item.selected.id}  {item.selected.score:.2f}  {item.name}  {item.selected.reason}"
        for item in (*ended.people, *ended.artifacts)
    ]
    answer = ended.words.text or _passages(ended)
    nothing = ended.context if ended.finished.unsure else "Nothing relevant."
    first = [answer] if answer else [] if lines else [nothing]
    if ended.finished.fallback:
        lines.insert(0, f"The model did not choose ({ended.finished.fallback}).")
    run = ended.run
    # The embedded model costs nothing, and some endpoints do not report a cost.
    cost = f"${run.cost_usd:.4f}" if run.cost_usd else "no cost"
    lines.append(
        f"{run.turns} turns, {run.seconds:.2f} s, {run.input_tokens} + {run.output_tokens} tokens, {cost}. Run {run.pk}"
    )
    return "\n".join([*first, *lines])


def _passages(ended: EndedRun) -> str:
    """The passages that are shown in place of an answer, with the note that says why; else nothing."""
    if ended.outcome != "passages":
        return ""
    cited = [
        f"[{each.citation.n}] {each.message.author} ({each.message.sent_at:%Y-%m-%d}): {each.citation.quote}"
        for each in ended.citations
    ]
    return "\n".join([ended.note, *cited])
