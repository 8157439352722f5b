"""Runs that answered in words, made of rows."""

from __future__ import annotations

from typing import Any, Literal

from django.utils import timezone

from memoryapp.engine.events import Event, RunFinished, RunStarted, Selected, to_payload
from memoryapp.engine.kinds.react import Answered, Citation
from memoryapp.engine.notes import Note
from memoryapp.models import ChatUser, Message, Run, RunEvent, Topic

QUERY = "Which cake keeps?"


def record(run: Run, *events: Event) -> None:
    """Store these events behind those that the run has."""
    last = run.events.count()
    for seq, event in enumerate(events, start=last + 1):
        RunEvent.objects.create(
            owner=run.owner, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event)
        )


def answer_of(
    topic: Topic,
    *quotes: str,
    outcome: Literal["answered", "softened", "refused"] = "answered",
    text: str = "",
) -> Answered:
    """An answer that cites the topic's messages in their order, a quote of each."""
    messages = Message.objects.filter(topic=topic).in_order()
    cited = tuple(
        Citation(n, f"Topic:{topic.pk}", message.pk, quote)
        for n, (quote, message) in enumerate(zip(quotes, messages, strict=False), start=1)
    )
    answer = text or " ".join(f"{each.quote} [{each.n}]." for each in cited)
    return Answered(answer, cited, outcome, 0.82, "extracts", notes=(Note("extracts_only"),))


def answered_run(owner: ChatUser, topic: Topic, *quotes: str, strategy: str = "plain", **given: Any) -> Run:
    """A run that has ended with such an answer."""
    run = Run.objects.create(owner=owner, query=QUERY, strategy=strategy, state=Run.State.FINISHED, selected_count=1)
    selected = (Selected(f"Topic:{topic.pk}", 1, "", 0.5, 1),)
    answer = answer_of(topic, *quotes, **given)
    record(run, RunStarted(strategy, QUERY, {}, "", "", "p"), answer, RunFinished(selected, (), ""))
    return run
