"""What the assistant said, compared with what a run chose: quoted, in other words, named, or not used."""

from typing import Any

import pytest
from django.test import Client

from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.events import CandidatesFound, Event, RunFinished, Selected
from memoryapp.insight.browsing.topics import topic_runs
from memoryapp.insight.delivery import DeliveryError, deliver, recall_outcome
from memoryapp.insight.explain import why_not
from memoryapp.models import ChatUser, Run, Topic
from tests.conftest import candidate, talk
from tests.runs.stored_events import store
from tests.support.browsing import HTMX

TALK = [
    (
        "The cake",
        ["Which cake did Dasha bake?", "Dasha baked a honey cake with lemon and poppy seeds for the birthday"],
    ),
    ("The knee", ["My meniscus hurts after ten kilometres", "The doctor advised ice and three weeks without running"]),
    ("The trip", ["We fly to Kyoto on the twentieth of March", "The tickets cost ninety thousand"]),
]


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, *TALK)


def person(number: int, name: str) -> ItemCandidate:
    return ItemCandidate(f"Person:{number}", 1, 1, 0.5, 1.0, 1.0, 0.5, name, name, True)


def finished_run(owner: ChatUser, topics: list[Topic], query: str = "what was it?", **ended: Any) -> Run:
    run = Run.objects.create(owner=owner, query=query, strategy="flash", state="finished")
    found = CandidatesFound(
        tuple(candidate(t, n) for n, t in enumerate(topics, 1)), 6, 0.1, people=(person(3, "Dasha Orlova"),)
    )
    selected = tuple(Selected(f"Topic:{t.pk}", n, "so", 0.8, n) for n, t in enumerate(topics, 1))
    end: Event = RunFinished(
        selected, (), **{"fallback": "", "people": (Selected("Person:3", 1, "", 0.5, 1),), **ended}
    )
    store(run, [found, end])
    return run


def test_what_is_quoted_what_is_in_other_words_and_what_is_ignored(anna: ChatUser, topics: list[Topic]) -> None:
    cake, knee, trip = (f"Topic:{topic.pk}" for topic in topics)
    run = finished_run(anna, topics)
    found = deliver(run, "Dasha baked a honey cake with lemon. As for the knee: no running for three weeks, and ice.")
    assert [(use.id, use.how) for use in found.uses] == [(cake, "quoted"), (knee, "reworded")]
    assert found.unused == (trip, "Person:3")
    run.refresh_from_db()
    assert [use["id"] for use in run.delivered["uses"]] == [cake, knee]


def test_words_of_the_question_are_nobodys(anna: ChatUser, topics: list[Topic]) -> None:
    run = finished_run(anna, topics, "Which cake did Dasha bake?")
    assert deliver(run, "I do not know which cake Dasha baked.").used == ()


def test_a_wrong_number_is_no_use_of_the_memory(anna: ChatUser, topics: list[Topic]) -> None:
    run = finished_run(anna, topics)
    assert deliver(run, "The doctor advised 9 weeks.").used == ()


def test_a_person_is_used_when_named(anna: ChatUser, topics: list[Topic]) -> None:
    run = finished_run(anna, topics)
    assert deliver(run, "Ask Dasha Orlova.").used == ("Person:3",)


def test_a_later_answer_takes_the_place_of_an_earlier_one(anna: ChatUser, topics: list[Topic]) -> None:
    run = finished_run(anna, topics)
    deliver(run, "Dasha baked a honey cake with lemon.")
    deliver(run, "Nothing comes to mind.")
    run.refresh_from_db()
    assert (run.delivered["text"], run.delivered["uses"]) == ("Nothing comes to mind.", [])


def test_why_not_tells_what_the_assistant_did_not_use(anna: ChatUser, topics: list[Topic]) -> None:
    run = finished_run(anna, topics)
    cake, knee = (f"Topic:{topic.pk}" for topic in topics[:2])
    assert why_not(run, topic=knee).stage == "chosen"
    deliver(run, "Dasha baked a honey cake with lemon.")
    assert [why_not(run, topic=id).stage for id in (cake, knee)] == ["chosen", "not_used"]


def test_a_failed_recall_is_told_from_an_empty_one() -> None:
    outcomes = [
        recall_outcome(RunFinished((), (), fallback)) for fallback in ("", "timeout", "no_candidates", "crashed")
    ]
    assert outcomes == ["nothing", "failed", "nothing", "failed"]


def test_an_answer_that_cannot_be_compared_is_a_sentence(anna: ChatUser, topics: list[Topic]) -> None:
    going = Run.objects.create(owner=anna, query="x", strategy="flash")
    for run, text in ((going, "It was."), (finished_run(anna, topics), "  ")):
        with pytest.raises(DeliveryError):
            deliver(run, text)


def test_a_person_pastes_the_answer_on_the_page_of_the_run(
    anna: ChatUser, topics: list[Topic], as_debugger: Client, as_viewer: Client
) -> None:
    run = finished_run(anna, topics)
    address, body = f"/runs/{run.pk}/delivered/", {"text": "Dasha baked a honey cake with lemon."}
    assert as_viewer.post(address, body).status_code == 403
    part = as_debugger.post(address, body, headers=HTMX)
    assert (part.status_code, b"quoted" in part.content, b"<html" in part.content) == (200, True, False)
    assert as_debugger.post(address, {"text": ""}, headers=HTMX).status_code == 422
    assert as_debugger.post(address, body).status_code == 302
    page = as_viewer.get(f"/runs/{run.pk}/").content.decode()
    assert "Dasha baked a honey cake with lemon." in page


def test_topics_count_the_answers_that_used_them(anna: ChatUser, topics: list[Topic], as_viewer: Client) -> None:
    for text in ("Dasha baked a honey cake with lemon.", "Nothing comes to mind."):
        deliver(finished_run(anna, topics), text)
    assert [topic_runs(topic).used for topic in topics] == [1, 0, 0]
    for address in (f"/topics/{topics[0].pk}/", f"/topics/{topics[0].pk}/peek/"):
        page = as_viewer.get(address).content.decode()
        assert "candidate 2×" in page
        assert "used 1×" in page
