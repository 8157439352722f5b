"""From the miss to the repair that stays: why, what was tried, what is made and taken back, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from memoryapp import curation, erasure
from memoryapp.curation import knowledge
from memoryapp.curation.effect import effect_of
from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.inbox import waiting_in
from memoryapp.erasure import Target
from memoryapp.insight.misses import keeping, misses, remedies
from memoryapp.insight.misses.days import days_of
from memoryapp.insight.misses.misses import MissError, MissHolders
from memoryapp.models import ChatUser, Message, Miss, NightlyRun, Run, Topic
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import tasks
from tests.misses.forgetful import DENTIST, QUESTION, ended, forgetful, missed

pytestmark = pytest.mark.django_db(transaction=True)


def offered(miss: Miss) -> dict[str, remedies.Offer]:
    why = misses.explain(miss)
    return {each.remedy: each for each in remedies.offers(miss, why, asks_model=True)} if why else {}


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("You said:\nWhen is it?\nChatGPT said:\nI do not know.", "When is it?", "I do not know."),
        (
            "User: hi\nAssistant: hello\nUser: When is it?\nAssistant: No idea.\nSorry.",
            "When is it?",
            "No idea.\nSorry.",
        ),
        ("**Пользователь:** Когда врач?\n**Ассистент:** Не знаю.", "Когда врач?", "Не знаю."),
        ("When is it?\nI do not know.", "When is it?", "I do not know."),
        ("appointments this week", "appointments this week", ""),
        ("I do not know.\nReally not.", "", "I do not know.\nReally not."),
        ("Assistant: I do not know.", "", "I do not know."),
    ],
)
def test_a_pasted_chat_is_read_as_its_last_question_and_the_answer_to_it(text: str, question: str, answer: str) -> None:
    assert misses.read_pasted(text) == (question, answer)


def test_a_miss_without_a_run_is_asked_again_and_explained_before_anybody_looks() -> None:
    owner = forgetful()
    miss = missed(owner)
    assert waiting_in(owner).misses == 1
    tasks.explain_misses()
    miss.refresh_from_db()
    assert (miss.stage, miss.lost) == ("not_chosen", f"Topic:{Topic.objects.get(summary__startswith='Winter').pk}")
    assert list(Message.objects.filter(pk__in=miss.evidence).values_list("text", flat=True)) == [DENTIST]
    assert misses.report(owner, QUESTION, expected=DENTIST, by="ada").pk == miss.pk
    again = misses.report(owner, QUESTION, expected="the bank", by="ada")
    assert again.run_id == miss.run_id, "a run of the same question is not asked once more"


def test_an_earlier_moment_is_asked_of_the_memory_of_then() -> None:
    owner = forgetful()
    then = timezone.now() - timedelta(days=90)
    miss = misses.report(owner, QUESTION, moment=then, by="ada")
    assert miss.run
    assert miss.run.changes == {"as_of": then.isoformat()}
    with pytest.raises(MissError):
        misses.report(owner, QUESTION, moment=timezone.now() + timedelta(days=1), by="ada")
    with pytest.raises(MissError):
        misses.report(owner, "  ", by="ada")


def test_a_pinned_topic_is_found_again_kept_and_opened_by_its_undo() -> None:
    owner = forgetful()
    miss = missed(owner)
    offer = offered(miss)["pin"]
    remedies.apply(miss, offer.remedy, offer.values, actor="ada")
    keeping.keep(miss, "ada")
    assert miss.golden
    assert (
        miss.golden.evidence == miss.evidence == list(Message.objects.filter(text=DENTIST).values_list("pk", flat=True))
    )
    assert NightlyRun.objects.get().collection == "Misses"
    ended(miss.again)
    assert misses.settle(miss) is True
    assert miss.state == Miss.State.KEPT
    with pytest.raises(MissError):
        remedies.apply(miss, offer.remedy, offer.values, actor="ada")
    misses.undo(miss, actor="ada")
    assert (miss.state, miss.remedy) == (Miss.State.OPEN, "")
    assert not Topic.objects.exclude(recall="").exists()


def test_a_repair_undone_in_the_history_opens_the_miss_again() -> None:
    owner = forgetful()
    miss = missed(owner)
    offer = offered(miss)["pin"]
    remedies.apply(miss, offer.remedy, offer.values, actor="ada")
    assert miss.change
    knowledge.undo(owner, miss.change, actor="boris")
    assert not misses.stands(miss)
    tasks.explain_misses()
    miss.refresh_from_db()
    assert miss.state == Miss.State.OPEN


def test_what_the_memory_lacks_is_added_and_found_and_withdrawn_by_the_undo() -> None:
    owner = forgetful()
    miss = missed(
        owner, "When does the plumber come to mend the boiler?", "The plumber comes on Friday to mend the boiler"
    )
    found = offered(miss)
    assert (miss.stage, miss.evidence) == ("unknown", [])
    assert {"message", "fact"} <= found.keys()
    with pytest.raises(MissError):
        keeping.keep(miss, "ada")
    remedies.apply(miss, "message", {"text": found["message"].text}, actor="ada")
    async_to_sync(embed_pending)(offline_embedder())
    ended(miss.again)
    assert misses.settle(miss) is True
    assert Message.objects.get(pk__in=miss.evidence).text == "The plumber comes on Friday to mend the boiler"
    misses.undo(miss, actor="ada")
    assert Message.objects.filter(is_withdrawn=True).count() == 2
    # Nothing says it any more, so no night can look for it.
    offered(miss)
    assert miss.evidence == []
    with pytest.raises(MissError):
        keeping.keep(miss, "ada")


def test_a_pinned_fact_is_found_again() -> None:
    owner = forgetful()
    miss = missed(owner, "When does the plumber come?", "The plumber comes on Friday")
    found = offered(miss)
    remedies.apply(miss, "fact", {"text": found["fact"].text}, actor="ada")
    ended(miss.again)
    assert misses.settle(miss) is True
    misses.undo(miss, actor="ada")
    assert owner.fact_set.count() == 0


def test_a_second_button_pressed_at_the_same_time_makes_nothing() -> None:
    miss = missed(forgetful())
    pin = offered(miss)["pin"]
    same = Miss.objects.get(pk=miss.pk)
    remedies.apply(miss, "pin", pin.values, actor="ada")
    with pytest.raises(MissError, match="decided already"):
        remedies.apply(same, "pin", pin.values, actor="bob")
    assert Run.objects.filter(query=QUESTION).count() == 2


def test_only_for_who_may_make_it_a_model_writes_a_summary(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    miss = missed(forgetful())
    why = misses.explain(miss)
    asked: list[Topic] = []
    settings.LLM_BASE_URL = "http://model.invalid/v1"
    monkeypatch.setattr(proposals, "summary_written", lambda _owner, topic, _text: asked.append(topic) or DENTIST)
    assert why
    remedies.offers(miss, why, asks_model=False)
    assert asked == []
    remedies.offers(miss, why, asks_model=True)
    assert len(asked) == 1


def test_evidence_that_a_run_was_given_stays() -> None:
    owner = forgetful()
    given = list(Message.objects.filter(text__startswith="Which cake").values_list("pk", flat=True))
    run = lifecycle.start(owner, QUESTION, evidence=given)
    ended(run)
    misses.explain(misses.report(owner, QUESTION, expected=DENTIST, run=run, by="ada"))
    run.refresh_from_db()
    assert run.evidence == given


def test_what_does_not_help_leaves_the_miss_open() -> None:
    owner = forgetful()
    miss = missed(owner, "When does the plumber come?", "The plumber comes on Friday")
    misses.explain(miss)
    remedies.apply(miss, "again", {"text": ""}, actor="ada")
    ended(miss.again)
    assert misses.settle(miss) is False
    assert miss.state == Miss.State.OPEN


def test_for_what_was_erased_nothing_is_offered() -> None:
    owner = forgetful()
    message = Message.objects.get(text=DENTIST)
    erasure.finish(erasure.begin(Target(owner.pk, (message.pk,)), "ada"))
    miss = missed(owner, "Which appointments are there?")
    assert offered(miss) == {}
    assert miss.stage == "erased"


def test_the_effect_of_a_change_counts_what_should_have_been_found() -> None:
    """The run chose other topics, so without the evidence a change that helps it would have no effect."""
    owner = forgetful()
    miss = missed(owner, "Which tyres does the doctor for teeth like?", DENTIST)
    misses.explain(miss)
    topic = Topic.objects.get(summary__startswith="Winter")
    change = curation.plan_move(owner, miss.evidence, None, DENTIST)
    (row,) = [each for each in effect_of(owner, change).rows if each.run_id == miss.run_id]
    assert row.before.chars == topic.size_chars
    assert row.after.chars == len(DENTIST)


def test_a_topic_is_found_in_another_language() -> None:
    owner = forgetful()
    miss = missed(owner, expected="стоматолог принимает меня в четверг в девять")
    holders = MissHolders(miss)
    assert holders.by_words == []
    assert Topic.objects.get(summary__startswith="Winter") in (holders.by_meaning or ())


@pytest.mark.parametrize(
    ("remedy", "values"),
    [
        ("pin", {"id": "Topic:999999"}),
        ("pin", {"id": ["x"]}),
        ("pin", {}),
        ("summary", {"topic": "Topic:1", "text": ""}),
        ("merge", {"topics": 7}),
        ("merge", {"topics": ["Topic:1", "Topic:2", "Topic:3"]}),
        ("fork", {"turn": float("inf"), "changes": {}}),
        ("fork", {"changes": {"parameters": {"candidates": -5}}}),
        ("fork", {"changes": "x"}),
        ("message", {"text": " "}),
        ("fact", {"text": ""}),
        ("nothing", {}),
    ],
)
def test_values_that_no_remedy_offered_change_nothing(remedy: str, values: dict[str, Any]) -> None:
    owner, other = forgetful(), ChatUser.objects.create(name="boris")
    miss = missed(owner)
    misses.explain(miss)
    before = (Message.objects.count(), Run.objects.count(), list(Topic.objects.values_list("pk", "recall", "is_live")))
    with pytest.raises(MissError):
        remedies.apply(miss, remedy, values, actor="ada")
    miss.refresh_from_db()
    assert (miss.state, miss.remedy) == (Miss.State.OPEN, "")
    after = (Message.objects.count(), Run.objects.count(), list(Topic.objects.values_list("pk", "recall", "is_live")))
    assert after == before
    assert not other.miss_set.exists()


def test_the_days_say_how_many_where_and_how_long() -> None:
    owner = forgetful()
    open_one, repaired = missed(owner), missed(owner, expected="The plumber comes on Friday")
    for miss in (open_one, repaired):
        misses.explain(miss)
    remedies.apply(repaired, "fact", {"text": "The plumber comes on Friday"}, actor="ada")
    Miss.objects.filter(pk=open_one.pk).update(at=timezone.now() - timedelta(days=3))
    Miss.objects.filter(pk=repaired.pk).update(at=timezone.now() - timedelta(hours=2))
    misses.dismiss(misses.report(owner, "Is it so?", by="ada"))
    found = days_of([owner], now=timezone.now(), zone=timezone.get_current_timezone())
    assert (found.total, found.open, found.median_hours) == (2, 1, 2.0)
    assert found.by_remedy == [("fact", 1)]
    assert [(each.stage, each.misses, round(each.hours)) for each in found.costliest] == [
        ("not_chosen", 1, 72),
        ("unknown", 1, 2),
    ]
    assert sum(counts.total() for _day, counts in found.days) == 2
