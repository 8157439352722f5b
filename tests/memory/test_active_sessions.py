"""What was just said is found at once, and what a run met of it is explained."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from memoryapp import erasure
from memoryapp.engine.events import CandidatesFound, TopicsRead
from memoryapp.importers.record import MessageRecord
from memoryapp.insight.delivery import deliver
from memoryapp.insight.explain import why_not
from memoryapp.intake.archiving import archive
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.memory.sessions import limits
from memoryapp.models import ChatUser, ImportBatch, Message, Passage, PassageVector, Run
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import Clients
from memoryapp.upkeep import tasks
from tests.intake.test_archiving import in_pairs
from tests.support.answers import document_of
from tests.support.executing import events_of, memory_of_three, start

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

FACT = "The code of the cellar door is 4711, the one with the blue frame."
ASKED = "What is the code of the cellar door?"


def speak(
    owner: ChatUser, *texts: str, session: str = "", began: datetime | None = None, batch: ImportBatch | None = None
) -> list[Message]:
    """Messages of user and assistant in turn, a minute apart, the last one now."""
    at = began or timezone.now() - timedelta(minutes=len(texts))
    number = Message.objects.of(owner).count()
    records = [
        MessageRecord(
            user="",
            external_id=f"now{number + place}",
            role="assistant" if place % 2 else "user",
            author="bot" if place % 2 else "Anna",
            sent_at=at + timedelta(minutes=place),
            text=text,
            session=session,
        )
        for place, text in enumerate(texts)
    ]
    add_messages(owner, records, batch=batch)
    return list(Message.objects.of(owner).filter(external_id__in=[each.external_id for each in records]).in_order())


async def asked(owner: ChatUser, clients: Clients, query: str = ASKED, **given: Any) -> tuple[Run, list[Any]]:
    run = await start(owner, query, **given)
    await lifecycle.execute(run.pk, clients)
    await sync_to_async(run.refresh_from_db)()
    return run, await events_of(run)


def found(events: Sequence[Any]) -> CandidatesFound:
    return next(event for event in events if isinstance(event, CandidatesFound))


def ids(events: Sequence[Any]) -> list[str]:
    return [candidate.id for candidate in found(events).candidates]


async def speak_now(owner: ChatUser, *texts: str, **given: Any) -> list[Message]:
    return await sync_to_async(speak)(owner, *texts, **given)


@pytest.mark.parametrize("strategy", ["flash", "filter", "vector", "react", "plain"])
async def test_a_fact_from_one_session_is_found_from_another(clients: Clients, strategy: str) -> None:
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT, "Noted.", session="one")
    await speak_now(anna, "Good morning!", "Good morning.", session="two")
    await sync_to_async(tasks.index_talk)()
    run, events = await asked(anna, clients, strategy=strategy)
    session = f"Session:{first.pk}"
    assert ids(events)[0] == session
    candidate = found(events).candidates[0]
    assert (candidate.message_count, candidate.summary) == (2, FACT)
    assert "Current talk, not yet in a topic" in candidate.line
    assert list(found(events).sessions[session]) == [first.pk, first.pk + 1]
    document = await sync_to_async(document_of)(run)
    assert document["topics"][0]["id"] == session, document["topics"]
    assert document["topics"][0]["message_count"] == 2
    assert FACT in document["context"]


async def test_words_find_it_before_any_vector(clients: Clients) -> None:
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT)
    assert not await sync_to_async(PassageVector.objects.filter(passage__messages=first).exists)()
    _run, events = await asked(anna, clients, strategy="flash")
    assert ids(events)[0] == f"Session:{first.pk}"
    read = next(event for event in events if isinstance(event, TopicsRead))
    assert f"Session:{first.pk}" in [topic.id for topic in read.read]


async def test_once_archived_it_is_found_as_topics_and_the_old_run_stays(clients: Clients) -> None:
    """Nothing is found twice, before or after; passages and their vectors stay what they are."""
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT, "Noted.", "And the shed?", "It has no lock.")
    await sync_to_async(tasks.index_talk)()
    before = await sync_to_async(lambda: set(Passage.objects.filter(messages=first).values_list("pk", flat=True)))()
    run, _events = await asked(anna, clients)
    then = await sync_to_async(document_of)(run)
    archived = await sync_to_async(archive)(anna, in_pairs, limits(anna), now=True)
    assert (archived.sessions, archived.topics) == (1, 2)
    assert (
        before
        == await sync_to_async(lambda: set(Passage.objects.filter(messages=first).values_list("pk", flat=True)))()
    )
    _run, events = await asked(anna, clients)
    first = await sync_to_async(Message.objects.get)(pk=first.pk)
    assert ids(events)[0] == f"Topic:{first.topic_id}"
    assert not [id for id in ids(events) if id.startswith("Session:")]
    assert await sync_to_async(document_of)(run) == then
    assert await sync_to_async(lambda: list(violations(anna)))() == []


async def test_what_the_caller_has_in_its_window_is_not_handed_back(clients: Clients) -> None:
    """By id or by text; nor is the question, which clients store before they ask."""
    anna = await memory_of_three()
    earlier = await speak_now(anna, FACT, "Noted.")
    await speak_now(anna, ASKED, session="two")
    window = [{"id": "", "role": "user", "text": FACT}, {"id": earlier[1].external_id, "text": "…"}]
    run, events = await asked(anna, clients, messages=window)
    assert not [id for id in ids(events) if id.startswith("Session:")]
    assert FACT not in (await sync_to_async(document_of)(run))["context"]
    run, events = await asked(anna, clients, messages=[])
    assert [id for id in ids(events) if id.startswith("Session:")] == [f"Session:{earlier[0].pk}"]
    await sync_to_async(tasks.index_talk)()
    one = [{"id": earlier[1].external_id, "role": "assistant", "text": "Noted."}]
    run, events = await asked(anna, clients, messages=one, strategy="vector")
    document = await sync_to_async(document_of)(run, ["messages"])
    assert FACT in document["context"]
    assert "Noted." not in document["context"]
    assert [each["text"] for each in document["topics"][0]["messages"]] == [FACT]


async def test_the_current_talk_can_be_left_out(clients: Clients) -> None:
    anna = await memory_of_three()
    await speak_now(anna, FACT)
    _run, events = await asked(anna, clients, parameters={"fresh": "no"})
    assert not [id for id in ids(events) if id.startswith("Session:")]
    _run, events = await asked(anna, clients)
    assert ids(events)[0].startswith("Session:")


async def test_filters_hold_for_the_current_talk(clients: Clients) -> None:
    anna = await memory_of_three()
    (first,) = await speak_now(anna, FACT)
    since = f"{first.sent_at:%Y-%m-%d}"
    _run, events = await asked(anna, clients, parameters={"author": "Anna", "since": since})
    assert ids(events) == [f"Session:{first.pk}"]
    _run, events = await asked(anna, clients, parameters={"author": "bot", "since": since})
    assert ids(events) == []


async def test_a_long_session_is_cut_around_what_matched(clients: Clients) -> None:
    anna = await memory_of_three()
    filler = [f"Chapter {n}: " + "the ship sailed on and on over the quiet sea. " * 12 for n in range(60)]
    talked = await speak_now(anna, *filler[:30], FACT, "Noted.", *filler[30:])
    run, events = await asked(anna, clients, strategy="flash")
    assert ids(events)[0] == f"Session:{talked[0].pk}"
    context = (await sync_to_async(document_of)(run))["context"]
    assert FACT in context
    assert f"of {len(talked)} messages" in context
    assert len(context) < 25_000


async def test_a_file_gets_its_passages_from_the_worker(clients: Clients) -> None:
    anna = await memory_of_three()
    batch = await sync_to_async(ImportBatch.objects.create)(owner=anna, source="chat.jsonl", format="jsonl")
    first, *_ = await speak_now(anna, FACT, "Noted.", batch=batch)
    await sync_to_async(tasks.index_talk)()
    assert await sync_to_async(PassageVector.objects.filter(passage__messages=first).count)() == 1
    _run, events = await asked(anna, clients)
    assert ids(events)[0] == f"Session:{first.pk}"


async def test_an_erased_message_leaves_the_run_that_found_it(clients: Clients) -> None:
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT, "Noted.", "And the shed?", "It has no lock.")
    run, _events = await asked(anna, clients)

    def erased() -> None:
        target = erasure.Target(anna.pk, (first.pk,))
        erasure.finish(erasure.begin(target, "ada"), wait=timedelta(seconds=10))

    await sync_to_async(erased)()
    document = await sync_to_async(document_of)(run)
    assert "the one with" not in str(document)
    assert "the one with" not in str(await events_of(run))
    _run, events = await asked(anna, clients)
    assert f"Session:{first.pk}" not in ids(events)
    assert await sync_to_async(lambda: list(violations(anna)))() == []


# What a run met in an active session is explained, and its use told, under the id of that session.


@pytest.mark.parametrize("strategy", ["flash", "filter", "vector"])
async def test_it_is_explained_before_and_after_it_was_archived(clients: Clients, strategy: str) -> None:
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT, "Noted.", session="one")
    other, *_ = await speak_now(anna, "Good morning!", "Good morning.", session="two")
    await sync_to_async(tasks.index_talk)()
    run, events = await asked(anna, clients, strategy=strategy)
    session, beside = f"Session:{first.pk}", f"Session:{other.pk}"
    given: list[dict[str, Any]] = [{"topic": session}, {"message": first.external_id}, {"text": FACT}]
    for archived in (False, True):
        if archived:
            await sync_to_async(archive)(anna, in_pairs, limits(anna), now=True)
        for each in given:
            answer = await sync_to_async(why_not)(run, **each)
            assert (answer.stage, answer.topic) == ("chosen", session), (archived, each)
        left = await sync_to_async(why_not)(run, topic=beside)
        assert left.stage not in ("unknown", "in_session")
        assert (left.topic == beside) == (beside in [candidate.id for candidate in found(events).candidates])


async def test_an_answer_that_quotes_it_uses_it(clients: Clients) -> None:
    anna = await memory_of_three()
    first, *_ = await speak_now(anna, FACT, "Noted.")
    run, _events = await asked(anna, clients)
    delivered = await sync_to_async(deliver)(run, "It is 4711, the one with the blue frame.")
    assert f"Session:{first.pk}" in delivered.used
    answer = await sync_to_async(why_not)(run, topic=f"Session:{first.pk}")
    assert (answer.stage, answer.numbers["used"]) == ("chosen", "quoted")
