"""Rows of runs that compared vectors or answered in words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from django.utils import timezone

from memoryapp.engine.events import CandidatesFound, Event, RunFinished, RunStarted, Selected, to_payload
from memoryapp.engine.kinds.react import Answered, Citation
from memoryapp.engine.notes import Note
from memoryapp.models import ChatUser, Message, Run, RunEvent, Topic
from tests.conftest import candidate

QUERY = "Which cake keeps?"
PROFILE = "some/model@3"
COSINES = (0.92, 0.88, 0.85, 0.67, 0.55, 0.52, 0.40, 0.35)


def record(run: Run, *events: Event) -> None:
    """Stores these events after those that the run has."""
    last = run.events.count()
    for seq, event in enumerate(events, start=last + 1):
        RunEvent.objects.create(
            owner=run.owner, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event)
        )


def answer_of(
    topic: Topic, *quotes: str, outcome: Literal["answered", "softened", "refused"] = "answered", text: str = ""
) -> Answered:
    """Returns an answer that cites the topic's messages in their order, with a quotation of each."""
    messages = Message.objects.filter(topic=topic).in_order()
    cited = tuple(
        Citation(n, f"Topic:{topic.pk}", message.pk, quote)
        for n, (quote, message) in enumerate(zip(quotes, messages, strict=False), start=1)
    )
    answer = text or " ".join(f"{each.quote} [{each.n}]." for each in cited)
    return Answered(answer, cited, outcome, 0.82, "extracts", notes=(Note("extracts_only"),))


def answered_run(owner: ChatUser, topic: Topic, *quotes: str, strategy: str = "plain", **given: Any) -> Run:
    """Returns a run that has ended with such an answer."""
    run = Run.objects.create(owner=owner, query=QUERY, strategy=strategy, state=Run.State.FINISHED, selected_count=1)
    selected = (Selected(f"Topic:{topic.pk}", 1, "", 0.5, 1),)
    answer = answer_of(topic, *quotes, **given)
    record(run, RunStarted(strategy, QUERY, {}, "", "", "p"), answer, RunFinished(selected, (), ""))
    return run


def compared_run(
    owner: ChatUser, topics: Sequence[Topic], *chosen: int, profile: str = PROFILE, **fields: object
) -> Run:
    """Returns an ended run: it found the topics with these cosines, and its model chose those at these places."""
    found = tuple(
        replace(candidate(topic, rank), cosine=cosine)
        for rank, (topic, cosine) in enumerate(zip(topics, COSINES, strict=True), start=1)
    )
    selected = tuple(Selected(f"Topic:{topics[place].pk}", 1, "", 0.5, 1) for place in chosen)
    run = Run.objects.create(
        owner=owner, strategy="flash", query="what?", state="finished", selected_count=len(selected), **fields
    )
    started = RunStarted("flash", "what?", {}, "", "", profile)
    record(run, started, CandidatesFound(found, 9, 0.1), RunFinished(selected, (), ""))
    return run
