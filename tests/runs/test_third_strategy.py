"""A strategy needs one module, its event kinds and their partials: made-up ones run, are shown and are sent like all
others."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.core.management import call_command

from memoryapp.engine.emit import Emit
from memoryapp.engine.events import KINDS, Event, QueryEnriched, RunFinished, RunStarted, Selected, from_payload
from memoryapp.engine.kinds.kind import EventKind, ToolWork
from memoryapp.engine.memory import topic_id
from memoryapp.engine.notes import Note, Notes, english
from memoryapp.engine.parameters import Parameters, number
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.strategy import Ports, Strategy, StrategyRequest
from memoryapp.engine.text.lexical import Floats
from memoryapp.insight.compare.comparison import states_of_runs
from memoryapp.models import Operator, Run, RunEvent
from memoryapp.platform.telemetry.spans import RunSpans
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.parameters import ParameterError
from rerankui.frame.forms import RecallForm
from rerankui.runs import fragments
from rerankui.runs.fragments import Seen
from tests.conftest import signed_in
from tests.support.answers import document_of
from tests.support.browsing import flat
from tests.support.executing import QUERY, events_of, memory_of_three, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


@dataclass(frozen=True, slots=True)
class PassagesScored(EventKind, lane="candidates", look="tool", then="read", told="rank", is_before_wait=True):
    kind: ClassVar[str] = "passages_scored"
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    messages: tuple[str, ...]
    scored: tuple[str, ...]
    note: str = ""
    notes: Notes = ()

    def tool_work(self) -> ToolWork:
        return ToolWork("score_passages", 0.5, "")

    def marks(self) -> dict[str, str]:
        return dict.fromkeys(self.scored, "read")


@dataclass(frozen=True, slots=True)
class FirstParameters(Parameters):
    passages: int = number(3, 1, 9)


def by_meaning(cosine: Floats, words: Any, foreign: Any) -> Floats:
    return np.nan_to_num(cosine)


async def recall(request: StrategyRequest[FirstParameters], ports: Ports, emit: Emit) -> RunFinished:
    """Selects the topic whose passage has the best score, among the nearest by meaning alone."""
    search = await ports.search(QueryEnriched(request.query, request.query, note="not_wanted", seconds=0.0))
    emit(search.line)
    found = await search.find(fusion=by_meaning, passages=request.parameters.passages)
    emit(found.event)
    texts = [passage.text for passage in found.passages]
    scores = (await ports.rerank_scores(request.query, texts)).scores
    best = found.passages[int(np.argmax(scores))]
    messages = [message.text for message in await ports.read_messages(best.messages)]
    (topic,) = await ports.read_topics(best.topics)
    scored, notes = (topic_id(topic.id),), (Note("late_search"),)
    emit(cast("Event", PassagesScored(tuple(texts), tuple(scores), tuple(messages), scored, notes=notes)))
    chosen = Selected(topic_id(topic.id), 1, "its passage answers best", best.score, 1)
    return RunFinished((chosen,), (), "", "", baseline=found.baseline)


FIRST = Strategy("first", recall, FirstParameters)


@pytest.fixture(autouse=True)
def registered(settings: LazySettings, tmp_path: Path) -> Iterator[None]:
    """Adds a third strategy: its value in the registry, its event kind, and the partial of that kind."""
    partial = tmp_path / "partials" / "events" / "passages_scored.html"
    partial.parent.mkdir(parents=True)
    partial.write_text("<p>{{ view.event.scores|length }} passages scored</p>")
    (engine,) = settings.TEMPLATES
    settings.TEMPLATES = [{**engine, "DIRS": [*engine["DIRS"], tmp_path]}]
    STRATEGIES[FIRST.name], KINDS[PassagesScored.kind] = FIRST, PassagesScored
    yield
    del STRATEGIES[FIRST.name], KINDS[PassagesScored.kind]


async def executed(run: Run) -> list[Any]:
    async with open_clients() as clients:
        await lifecycle.execute(run.pk, clients)
    return await events_of(run)


async def test_it_starts_runs_and_is_stored_like_all_others() -> None:
    run = await start(await memory_of_three(), strategy="first", parameters={"passages": 2})
    events = await executed(run)
    await run.arefresh_from_db()
    kinds = ["run_started", "query_enriched", "candidates_found", "passages_scored", "run_finished"]
    assert [event.kind for event in events] == kinds
    assert [kind async for kind in RunEvent.objects.filter(run=run).values_list("kind", flat=True)] == kinds
    started, found, scored, finished = events[0], events[2], events[3], events[-1]
    assert isinstance(started, RunStarted)
    assert (started.strategy, started.model, started.prompt_version) == ("first", "", "")
    assert started.parameters["passages"] == run.parameters["passages"] == len(scored.texts) == 2
    assert all(0 < score < 1 for score in scored.scores)
    assert scored.messages[0] in scored.texts[0] + scored.texts[1]
    assert [c.rank for c in found.candidates] == [c.vector_rank for c in found.candidates]
    assert (run.state, run.fallback, run.selected_count) == (Run.State.FINISHED, "", 1)
    assert "vLLM" in found.named(finished.selected)[finished.selected[0].id].summary
    document = await sync_to_async(document_of)(run)
    assert "gpu_memory_utilization" in document["context"]


async def test_its_page_shows_its_own_event(admin: Operator) -> None:
    run = await start(await memory_of_three(), strategy="first")
    await executed(run)
    page = await sync_to_async(lambda: signed_in(admin).get(f"/runs/{run.pk}/"))()
    assert page.status_code == 200
    assert "3 passages scored" in page.content.decode()
    assert "its passage answers best" in page.content.decode()


async def test_its_own_event_is_drawn_as_its_kind_says_on_page_and_socket(admin: Operator) -> None:
    run = await start(await memory_of_three(), strategy="first")
    [scored] = (await executed(run))[3].scored
    page = (await sync_to_async(lambda: signed_in(admin).get(f"/runs/{run.pk}/"))()).content.decode()
    frame = (await sync_to_async(fragments.frame)(run.pk, seen=Seen(3), language="en")).html
    assert 'beforeend:#lane-candidates"><article id="event-4"' in flat(frame)
    for html in (page, frame):
        [article] = [each for each in html.split("<article")[1:] if 'data-kind="passages_scored"' in each]
        assert 'class="event event-tool' in article
        assert f'data-marks="{{&quot;{scored}&quot;: &quot;read&quot;}}"' in article
        assert 'data-going="Reading topics…"' in article


async def test_programs_get_its_own_event_and_comparisons_what_it_says_of_candidates() -> None:
    run = await start(await memory_of_three(), strategy="first")
    event = (await executed(run))[3]
    async with open_clients() as clients:
        [sent] = [text async for text in followers.texts(clients.pool, run.pk) if text.kind == event.kind]
    assert from_payload(sent.kind, json.loads(sent.stored)).progress() == {"step": "rank"}
    payload = json.loads(sent.payload)
    assert (payload["scores"], payload["note"]) == (list(event.scores), english([Note("late_search")]))
    await RunEvent.objects.filter(run=run, kind="run_finished").adelete()
    states = (await sync_to_async(states_of_runs)(run.owner_id, [run.pk]))[run.pk].states
    assert [states[id] for id in event.scored] == ["read"]


async def test_telemetry_gets_a_span_of_its_own_event() -> None:
    run = await start(await memory_of_three(), strategy="first")
    await executed(run)
    timed = [(item.at, item.event) for item in await sync_to_async(followers.stored)(run.pk)]
    spans = RunSpans(str(run.pk), "dasha", QUERY, "first", run.created_at, "", timed).spans()
    [scored] = [span for span in spans if span.name == "execute_tool score_passages"]
    assert (scored.ended, scored.ended - scored.began) == (timed[3][0], timedelta(seconds=0.5))


async def test_its_parameters_have_the_bounds_that_it_declares() -> None:
    memory = await memory_of_three()
    with pytest.raises(ParameterError, match="passages must be between 1 and 9, not 10"):
        await start(memory, strategy="first", parameters={"passages": 10})
    with pytest.raises(
        ParameterError, match="The strategy “first” has no parameter “max_topics”. It takes: .*passages"
    ):
        await start(memory, strategy="first", parameters={"max_topics": 4})
    run = await start(memory, strategy="first", parameters={"passages": 4})
    assert (await executed(run))[0].parameters["passages"] == 4
    assert "passages" not in (await start(memory)).parameters


async def test_a_model_that_is_switched_off_does_not_concern_it(settings: LazySettings) -> None:
    settings.RERANKER_ENABLED = False
    run = await start(await memory_of_three(), strategy="first")
    assert (await executed(run))[-1].fallback == ""


async def test_the_form_and_the_command_offer_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert ("first", "first") in (await sync_to_async(RecallForm)()).fields["strategy"].choices
    memory = await memory_of_three()
    await sync_to_async(call_command)("recall", QUERY, user=memory.name, strategy="first")
    assert "its passage answers best" in capsys.readouterr().out
