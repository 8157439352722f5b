"""What a run's events say, indexed for questions about one candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import CandidatesFound, Event, ModelReplied, RunFinished, TopicsRead, TurnStarted
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.kinds.filter import Filtered
from memoryapp.engine.kinds.react import Answered, ToolUsed
from memoryapp.engine.kinds.values import ReadTopic
from memoryapp.engine.memory import parse_item_id
from memoryapp.engine.outline import Outline, answered_from
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.strategy import NEAREST
from memoryapp.engine.text.answers import answer_in_words, parse_answer, parse_ids
from memoryapp.models import Run
from memoryapp.runs.followers import StoredEvent

# By kind of item, the parameters that bound how many are shown and how many are selected.
SHOWN = {"Topic": "candidates", "Person": "people_candidates", "Artifact": "artifact_candidates"}
CHOSEN = {"Topic": "max_topics", "Person": "max_people", "Artifact": "max_artifacts"}


def kind_of(id: str) -> str:
    """``Topic``, ``Person`` or ``Artifact``; an active session is shown and selected as a topic is."""
    parsed = parse_item_id(id)
    return parsed[0] if parsed and parsed[0] in SHOWN else "Topic"


@dataclass
class Story:
    """A finished run and its events in order."""

    run: Run
    stored: Sequence[StoredEvent]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def events(self) -> list[Event]:
        return [item.event for item in self.stored]

    @cached_property
    def outline(self) -> Outline:
        return Outline.of(self.events)

    @property
    def found(self) -> CandidatesFound | None:
        return self.outline.found

    @property
    def never(self) -> tuple[str, ...]:
        """What somebody had decided never to recall when the run began."""
        return next((event.never for event in self.events if isinstance(event, DecisionsApplied)), ())

    @property
    def finished(self) -> RunFinished | None:
        return self.outline.finished

    @property
    def answers(self) -> bool:
        """Whether the strategy ends with words."""
        strategy = STRATEGIES.get(self.run.strategy)
        return strategy is not None and strategy.answers

    @property
    def by_meaning(self) -> bool:
        """Whether candidates are ordered by cosine alone."""
        strategy = STRATEGIES.get(self.run.strategy)
        return strategy is not None and strategy.ranking is NEAREST

    @property
    def chooses_nearest(self) -> bool:
        """Whether the first of that order are chosen, up to a limit."""
        return self.by_meaning and CHOSEN["Topic"] in self.parameters

    def seq(self, *kinds: type[Any]) -> int:
        """The number of the last event of these kinds; 0 without one."""
        return max((item.seq for item in self.stored if isinstance(item.event, kinds)), default=0)

    def candidate(self, id: str) -> Candidate | ItemCandidate | None:
        return self.outline.topic(id) or self.outline.item(id)

    def read_unranked(self, id: str) -> Candidate | None:
        """A topic whose passages an answer was composed of although it is not among those that are ranked."""
        if id not in self.answered_from or kind_of(id) != "Topic":
            return None
        return Candidate(id, 0, 0, 0.0, 0.0, 0.0, 0.0, "", 0, 0, "", "", shown=True)

    def shown(self, id: str) -> Sequence[Candidate | ItemCandidate]:
        """The shown candidates of the same kind."""
        if self.found is None:
            return ()
        kinds: Mapping[str, Sequence[Candidate | ItemCandidate]] = {
            "Topic": self.found.candidates,
            "Person": self.found.people,
            "Artifact": self.found.artifacts,
        }
        return [each for each in kinds[kind_of(id)] if each.shown]

    @cached_property
    def read(self) -> Mapping[str, int]:
        """The topics that the model read, with the number of the event."""
        read = ((topic.id, item.seq) for item in self.stored for topic in _read(item.event))
        return dict(read)

    @cached_property
    def omitted(self) -> Mapping[str, tuple[ReadTopic, int]]:
        """The topics that did not fit, with the number of the event."""
        rows = (item for item in self.stored if isinstance(item.event, TopicsRead))
        return {topic.id: (topic, item.seq) for item in rows for topic in item.event.omitted}  # type: ignore[union-attr]

    @cached_property
    def requested(self) -> frozenset[str]:
        """The topics that the model asked to read."""
        calls = [call for event in self.events if isinstance(event, ModelReplied) for call in event.tool_calls]
        asked = {id for call in calls for id in parse_ids(call.arguments) or ()}
        return frozenset(asked | set(self.finished.requested if self.finished else ()))

    @cached_property
    def picks(self) -> tuple[str, ...]:
        """What the model's last answer names, in its order; empty where it was not used."""
        if self.finished is None or self.finished.fallback or not self.outline.replies:
            return ()
        text = self.outline.replies[-1].text
        return tuple(pick.id for pick in parse_answer(text) or answer_in_words(text) or ())

    @cached_property
    def cut(self) -> Mapping[str, tuple[Filtered, int]]:
        """What each stage of a filter removed, with the number of the event."""
        rows = ((item.event, item.seq) for item in self.stored if isinstance(item.event, Filtered))
        return {id: (event, seq) for event, seq in rows for id in event.removed}

    @cached_property
    def answered_from(self) -> frozenset[str]:
        """The topics whose passages were read for an answer."""
        return answered_from(self.events)

    @cached_property
    def composed(self) -> frozenset[str]:
        """The topics whose messages were sources of the answer, as far as its tools say so."""
        used = [event for event in self.events if isinstance(event, ToolUsed) and event.tool == "compose_context"]
        return frozenset(id for event in used for id in event.topics)

    @property
    def answer(self) -> Answered | None:
        return next((event for event in self.events if isinstance(event, Answered)), None)

    @property
    def answer_prompt(self) -> str:
        """What the model was sent to answer in words; empty when no model was asked."""
        turns = [event for event in self.events if isinstance(event, TurnStarted)]
        begun = [turn for turn in turns if turn.prompt_version.startswith("answer")]
        return "\n".join(message.content for turn in begun for message in turn.prompt)


def _read(event: Event) -> Sequence[ReadTopic]:
    return event.read if isinstance(event, TopicsRead) else ()
