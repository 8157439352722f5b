"""The least certainty of the embedded scorer: what it trades in a memory, and how a person sets it."""

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from memoryapp.insight.evaluation.threshold import trade_of
from memoryapp.models import ChatUser, GoldenQuestion, Message, Operator, Run
from memoryapp.runs import lifecycle
from tests.conftest import signed_in, talk
from tests.support.executing import executed

ANSWERED, UNANSWERED = "What did the dentist say about the tooth?", "Who repaired the elevator downtown?"


@pytest.fixture
def memory(transactional_db: None) -> ChatUser:
    owner = ChatUser.objects.create(name="vera", display_name="Vera")
    talk(
        owner,
        ("Dentist", ["The dentist said the tooth needs a root canal", "When?"]),
        ("Cake", ["I baked a honey cake", "With walnuts?"]),
    )
    evidence = [Message.objects.of(owner).get(text__startswith="The dentist").pk]
    for question, holding in ((ANSWERED, evidence), (UNANSWERED, []), ("Never asked?", [])):
        GoldenQuestion.objects.create(
            owner=owner, collection="mine", question=question, evidence=holding, made_by="vera"
        )
    return owner


async def _execute(run: Run) -> None:
    await executed(run)


def asked(owner: ChatUser, question: str) -> list[str]:
    """The topics that a run of the embedded scorer chooses, now."""
    owner.refresh_from_db()
    run = lifecycle.start(owner, question)
    async_to_sync(_execute)(run)
    run.refresh_from_db()
    return [each["id"] for each in run.events.get(kind="run_finished").payload["selected"]]


def test_a_memory_shows_and_sets_what_its_least_certainty_trades(memory: ChatUser, as_admin: Client) -> None:
    assert "evaluate a set" in as_admin.get("/evaluations/threshold/").content.decode()
    assert len(asked(memory, ANSWERED)) == 1
    assert asked(memory, UNANSWERED) == []
    trade = trade_of(memory)
    usual = next(point for point in trade.points if point.least == trade.in_force)
    assert (trade.answerable, trade.unanswerable, trade.unasked) == (1, 1, 1)
    assert (usual.kept, usual.right, usual.refused) == (1, 1, 1)
    assert [point.refused for point in trade.points] == sorted(point.refused for point in trade.points)
    page = as_admin.get("/evaluations/threshold/").content.decode()
    assert "50 %, as for everybody" in page

    sent = as_admin.post("/evaluations/threshold/", {"owner": memory.pk, "least": "100"}, follow=True)
    assert "In force here: 100 %" in sent.content.decode()
    assert asked(memory, ANSWERED) == []
    assert "100" in as_admin.get(f"/memory/{memory.pk}/settings/").content.decode()
    # What was asked stays comparable: the certainty is that of the question, whatever is in force.
    assert trade_of(ChatUser.objects.get(pk=memory.pk)).points == trade.points

    for wrong in ("101", "-1", "half"):
        refused = as_admin.post("/evaluations/threshold/", {"owner": memory.pk, "least": wrong}, follow=True)
        assert "a whole number from 0 to 100" in refused.content.decode()
    assert ChatUser.objects.get(pk=memory.pk).least_certainty == 100
    as_admin.post("/evaluations/threshold/", {"owner": memory.pk, "least": ""})
    assert len(asked(ChatUser.objects.get(pk=memory.pk), ANSWERED)) == 1


def test_only_who_may_curate_sets_it_and_only_of_a_memory_that_they_see(
    anna: ChatUser, boris: ChatUser, viewer: Operator, as_admin: Client
) -> None:
    assert signed_in(viewer).post("/evaluations/threshold/", {"owner": anna.pk, "least": "70"}).status_code == 403
    assert signed_in(viewer).get(f"/evaluations/threshold/?owner={boris.pk}").status_code == 404
    assert as_admin.post("/evaluations/threshold/", {"owner": "999999", "least": "70"}).status_code == 404
    assert not ChatUser.objects.filter(least_certainty__isnull=False).exists()
