"""A run with an event of every kind, stored like a finished run."""

from django.utils import timezone

from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    PromptMessage,
    QueryEnriched,
    Retried,
    RunFinished,
    RunStarted,
    Selected,
    SteppedDown,
    ToolCall,
    TopicsRead,
    TurnStarted,
    to_payload,
)
from memoryapp.engine.kinds.kind import Piece, ReadTopic
from memoryapp.models import Message, Run, RunEvent, Topic
from memoryapp.runs import followers
from memoryapp.runs.journal import finished_columns
from tests.conftest import candidate


def store_as_columns(run: Run) -> None:
    """Stores the run's topics that were not shown as versions up to 0.16 did."""
    row = RunEvent.objects.get(run=run, kind="candidates_found")
    shown = [each for each in row.payload["candidates"] if each["shown"]]
    others = [each for each in row.payload["candidates"] if not each["shown"]]
    names = others[0].keys() - {"line", "shown", "found_by", "terms", "parts"}
    below = {name: [each[name] for each in others] for name in names}
    parts = {name: [each["parts"].get(name, 0.0) for each in others] for name in others[0]["parts"]}
    terms = {each["id"]: each["terms"] for each in others if each["terms"]}
    row.payload |= {"candidates": shown, "below": {**below, "terms": terms, "parts": parts}}
    row.save()


def found_in(events: list[Event]) -> tuple[int, CandidatesFound]:
    """Returns the index of the candidates among the events, and the event."""
    return next((place, event) for place, event in enumerate(events) if isinstance(event, CandidatesFound))


def every_event(first: Topic, second: Topic, message: Message) -> list[Event]:
    """Returns one event of each kind, as a run with faults would have them."""
    one, two = f"Topic:{first.pk}", f"Topic:{second.pk}"
    piece = Piece(message.text[:5], "exact", message.pk, 0, 5)
    absent = Piece("never said", "absent")
    return [
        RunStarted("flash", "vllm?", {"max_topics": 15}, "flash-1", "peer", "embedded/use@512"),
        QueryEnriched("vllm?", "vllm H100", "", 0.1, 10, 5, 0.0001, "peer"),
        CandidatesFound((candidate(first, 1), candidate(second, 2)), 4, 0.02),
        TurnStarted(1, "forced", "none", (PromptMessage("system", "choose"),)),
        Retried(1, "503 from the endpoint", 0.5, input_tokens=77, output_tokens=3, cost_usd=0.0031),
        SteppedDown("tool_choice", "auto", "the endpoint knows no forced call"),
        ModelReplied(
            1,
            "",
            "hm",
            (ToolCall("c1", "get_topics_content", f'{{"ids": [{first.pk}, {second.pk}]}}'),),
            9,
            1,
            0.0,
            0.4,
            "peer",
        ),
        TopicsRead(1, "c1", (ReadTopic(one, 60, 2), ReadTopic(two, 60, 2)), (), ("Topic:999999",), 120),
        TurnStarted(2, "auto", "json_schema", ()),
        ModelReplied(2, '{"topics": []}', "", (), 20, 4, 0.0002, 0.6, "peer", "stop"),
        RunFinished(
            (Selected(one, 1, "it says so", 0.8, 2, (piece, absent), "model"),),
            (two,),
            "",
            "",
            (one, two),
            ("Topic:7",),
            (two, one),
        ),
    ]


def store(run: Run, events: list[Event], *, after: int = 0) -> None:
    RunEvent.objects.bulk_create(
        RunEvent(owner=run.owner, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event))
        for seq, event in enumerate(events, start=after + 1)
    )
    if isinstance(events[-1], RunFinished):
        stored = [item.event for item in followers.stored(run.pk)]
        Run.objects.filter(pk=run.pk).update(**finished_columns(stored, events[-1]), finished_at=timezone.now())
