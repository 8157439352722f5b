"""What a run cites, and whether it refuses.

A run that answers in words (the event ``answered``) cites messages, and says whether it refuses. Where no model wrote
an answer, each passage that it shows is one citation, and it neither answers nor refuses. For any other run the
excerpts of the selected topics count as citations: those in the run, or else the exchange of each topic with most of
the query's rarer words, as ``memoryapp.engine.context`` hands it over. An exchange is one citation. Such a run refuses
when it ends as its strategy intended and selects nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoryapp.content.reading import content
from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.memory import MessageContent, parse_topic_id
from memoryapp.engine.outline import Outline
from memoryapp.engine.text.excerpts import best_exchanges
from memoryapp.engine.text.passages import exchanges
from memoryapp.models import Message, Run, RunEvent

# About the length of a passage, so that a topic is cited by one exchange or a few short ones.
EXCERPT_CHARS = 600
ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Citations:
    """``places`` has an entry for each citation: the numbers of the messages that it refers to. ``passages`` says that
    they are shown in place of an answer."""

    places: tuple[frozenset[int], ...]
    refused: bool
    passages: bool = False

    @property
    def messages(self) -> frozenset[int]:
        return frozenset().union(*self.places)


def cited(run: Run, outline: Outline) -> Citations:
    """The citations in the run's answer, or those of its selection."""
    rows = RunEvent.objects.filter(run=run, kind=ANSWERED).order_by("-seq")
    answer = rows.values_list("payload", flat=True).first()
    if answer is not None:
        return _of_answer(answer)
    if outline.finished is None:
        return Citations((), refused=False)
    return _of_choice(run, outline.finished)


def _of_answer(answer: Mapping[str, Any]) -> Citations:
    is_passages = answer["outcome"] == "passages"
    places = tuple(frozenset(each["passage"] if is_passages else (each["message"],)) for each in answer["citations"])
    return Citations(places, refused=answer["outcome"] == "refused", passages=is_passages)


def _of_choice(run: Run, finished: RunFinished) -> Citations:
    messages: dict[int, list[MessageContent]] = defaultdict(list)
    numbers = [number for topic in finished.selected if (number := parse_topic_id(topic.id)) is not None]
    for row in Message.objects.of(run.owner).filter(topic__in=numbers).in_order():
        messages[row.topic_id or 0].append(content(row))
    places = [
        place
        for topic in finished.selected
        for place in _excerpted(run.query, topic, messages.get(parse_topic_id(topic.id) or 0, ()))
    ]
    chosen = finished.selected or finished.people or finished.artifacts
    return Citations(tuple(places), refused=not chosen and not finished.fallback)


def _excerpted(query: str, topic: Selected, messages: Sequence[MessageContent]) -> list[frozenset[int]]:
    """The exchanges of a selected topic that contain its excerpt."""
    numbers = {piece.message for piece in topic.excerpt} - {None}
    if not numbers and messages:
        numbers = {piece.message for piece in best_exchanges(query, messages, EXCERPT_CHARS)}
    runs = [frozenset(message.id for message in run) for run in exchanges(messages)]
    return [run for run in runs if run & numbers]
