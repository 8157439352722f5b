"""A staged change tried on past runs: it predicts what a search would find, and which runs would get worse."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memoryapp import curation
from memoryapp.curation import Change, Stale, effect
from memoryapp.curation.effect import Effect, RunEffect, effect_of
from memoryapp.curation.effect_verdict import Position, verdict_of
from memoryapp.engine.candidates import UnderstoodQuery
from memoryapp.engine.events import CandidatesFound, Event, QueryEnriched, RunFinished, Selected, to_payload
from memoryapp.engine.json_values import to_text
from memoryapp.engine.kinds.kind import Piece
from memoryapp.engine.memory import ANYWHERE, Where, parse_topic_id
from memoryapp.models import (
    ChatUser,
    Evaluation,
    Message,
    PassageVector,
    QueryVector,
    Run,
    RunEvent,
    Topic,
    TopicEdit,
    TopicMessage,
)
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk
from tests.search.test_retrieval import Synonyms, search
from tests.support.executing import executed

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "and so on and on " * 1_000


def vectors(owner: ChatUser) -> None:
    async_to_sync(embed_pending)(Synonyms(), owner)


def message_of(topic: Topic, at: int = 0) -> int:
    listed = TopicMessage.objects.filter(topic=topic).order_by("message__sent_at", "message")
    return list(listed.values_list("message", flat=True))[at]


def asked(
    owner: ChatUser,
    query: str,
    chosen: Sequence[Topic] = (),
    quoted: Sequence[int] = (),
    *,
    vector: bool = True,
    **columns: Any,
) -> Run:
    """A run that found all candidates, chose these topics and quoted these messages of the first."""
    found = search(owner, query, vector=vector)
    run = Run.objects.create(
        owner=owner, query=query, strategy="flash", state="finished", finished_at=timezone.now(), **columns
    )
    pieces = tuple(Piece("…", "exact", message, 0, 1) for message in quoted)
    selected = tuple(
        Selected(f"Topic:{topic.pk}", rank, "It answers.", 0.5, rank, pieces if rank == 1 else ())
        for rank, topic in enumerate(chosen, start=1)
    )
    events: list[Event] = [
        QueryEnriched(query, query, "", 0.0),
        CandidatesFound(found.candidates, found.passages, 0.0),
        RunFinished(selected, (), "", ""),
    ]
    for seq, event in enumerate(events, start=1):
        RunEvent.objects.create(
            owner=owner, run=run, seq=seq, kind=event.kind, at=timezone.now(), payload=to_payload(event)
        )
    if vector:
        row = PassageVector.objects.filter(owner=owner).select_related("profile")[0]
        QueryVector.objects.create(
            owner=owner, run=run, profile=row.profile, vector=async_to_sync(Synonyms().embed)([query])[0]
        )
    return run


def only(effect: Effect) -> RunEffect:
    [row] = effect.rows
    return row


def made(owner: ChatUser, change: Change) -> list[Topic]:
    return curation.put_in(curation.swap(owner, change, kind=TopicEdit.Kind.MERGE, actor="ada"))


@pytest.fixture
def knees(anna: ChatUser) -> list[Topic]:
    """A topic about a knee, another about the same knee in other words, and one about tax."""
    topics = talk(
        anna,
        ("Knee", ["my knee hurts", "rest the knee"]),
        ("Stairs", ["stairs are bad today", "the left side swells"]),
        ("Tax", ["tax forms arrive", "file the tax"]),
    )
    vectors(anna)
    return topics


class TestRanks:
    def test_what_is_foretold_is_what_a_search_finds_once_the_change_is_made(self, anna: ChatUser) -> None:
        topics = chatter(anna, 14)
        runs = [
            asked(
                anna, " ".join(random.Random(n).sample(WORDS, 4)), [topic], [message_of(topic, n % 4)], vector=n % 3 > 0
            )
            for n, topic in enumerate(topics)
        ]
        first, second, third, fourth, *_rest = topics
        changes = (
            lambda: curation.plan_merge(anna, [first.pk, third.pk, topics[9].pk]),
            lambda: curation.plan_split(anna, second.pk, [message_of(second, 2)]),
            lambda: curation.plan_move(anna, [message_of(fourth), message_of(topics[5], 1)], topics[6].pk),
            lambda: curation.plan_move(anna, [message_of(topics[7], 1)], None),
        )
        for plan in changes:
            before = {run.pk: rank_of(anna, run) for run in runs}
            change = plan()
            foretold = {row.run_id: row for row in effect_of(anna, change).rows}
            made(anna, change)
            after = {run.pk: rank_of(anna, run) for run in runs}
            assert {pk: row.before.rank for pk, row in foretold.items()} == before
            assert {pk: row.after.rank for pk, row in foretold.items()} == after
            chars = {run.pk: Topic.objects.get(pk=holder(run)).size_chars for run in runs}
            assert {pk: row.after.chars for pk, row in foretold.items()} == chars

    def test_a_new_summary_moves_a_topic_as_foretold(self, anna: ChatUser) -> None:
        topics = chatter(anna, 14)
        run = asked(anna, f"kayak {' '.join(WORDS[3:6])}", [topics[11]], [message_of(topics[11])])
        ranks = [rank_of(anna, run)]
        for change in (
            lambda: curation.plan_edit(anna, topics[11].pk, "The kayak that sank"),
            lambda: curation.plan_merge(anna, [topics[1].pk, topics[2].pk], "Another kayak-trip"),
        ):
            planned = change()
            (row,) = [row for row in effect_of(anna, planned).rows if row.run_id == run.pk]
            made(anna, planned)
            ranks.append(rank_of(anna, run))
            assert [row.before.rank, row.after.rank] == ranks[-2:]
        first, lifted, _overtaken = [rank or 0 for rank in ranks]
        assert lifted < first

    def test_what_the_model_is_shown_is_foretold_too(self, anna: ChatUser) -> None:
        topics = chatter(anna, 12)
        few = {"candidates": 4}
        runs = [
            asked(anna, " ".join(WORDS[n : n + 3]), [t], [message_of(t)], parameters=few) for n, t in enumerate(topics)
        ]
        change = curation.plan_merge(anna, [topic.pk for topic in topics[2:6]])
        foretold = {row.run_id: row for row in effect_of(anna, change).rows}
        assert {pk: row.before.shown for pk, row in foretold.items()} == {run.pk: is_shown(anna, run) for run in runs}
        made(anna, change)
        assert {pk: row.after.shown for pk, row in foretold.items()} == {run.pk: is_shown(anna, run) for run in runs}
        assert any(row.before.shown != row.after.shown for row in foretold.values())

    def test_nothing_is_written(self, anna: ChatUser, knees: list[Topic]) -> None:
        asked(anna, "my knee", [knees[0]])
        effect_of(anna, curation.plan_merge(anna, [knees[0].pk, knees[1].pk]))
        assert list(Topic.objects.of(anna).live().order_by("pk")) == knees
        assert not TopicEdit.objects.exclude(kind=TopicEdit.Kind.ARCHIVE).exists()


class TestVerdict:
    def test_talks_that_answer_together_are_better_in_one_topic(self, anna: ChatUser, knees: list[Topic]) -> None:
        knee, stairs, _tax = knees
        asked(anna, "my knee", [knee], [message_of(knee), message_of(stairs)], parameters={"candidates": 1})
        row = only(effect_of(anna, curation.plan_merge(anna, [knee.pk, stairs.pk])))
        assert (row.verdict, row.before.shown, row.after.rank, row.after.shown) == ("better", False, 1, True)
        assert "Of its 2 messages the model is shown the topics of 1 today, then of 2." in row.sentence

    def test_two_unrelated_long_talks_in_one_topic_are_worse_for_their_runs(self, anna: ChatUser) -> None:
        topics = talk(anna, ("Knee", ["my knee hurts", LONG]), ("Tax", ["tax forms arrive", LONG]), ("Cats", ["cats"]))
        vectors(anna)
        asked(anna, "my knee", [topics[0]], [message_of(topics[0])])
        row = only(effect_of(anna, curation.plan_merge(anna, [topics[0].pk, topics[1].pk])))
        assert (row.verdict, row.before.rank, row.after.rank) == ("worse", 1, 1)
        assert row.after.chars == topics[0].size_chars + topics[1].size_chars
        assert "Above 25,000 characters only excerpts" in row.sentence

    def test_a_long_topic_cut_into_its_subjects_is_better(self, anna: ChatUser) -> None:
        [topic] = talk(anna, ("Both", ["my knee hurts", LONG, "tax forms arrive", LONG]))
        vectors(anna)
        asked(anna, "my knee", [topic], [message_of(topic)])
        row = only(effect_of(anna, curation.plan_split(anna, topic.pk, [message_of(topic, 2)])))
        assert (row.verdict, row.before.chars, row.after.chars) == ("better", 34_029, 17_013)
        assert "handed over whole, no longer in excerpts" in row.sentence

    def test_a_talk_torn_apart_is_worse_where_a_part_is_shown_no_more(self, anna: ChatUser) -> None:
        topics = talk(
            anna,
            ("Knee", ["my knee hurts", "rest it", "stairs are bad", "cats sleep"]),
            ("Knee again", ["the knee aches", "rest the knee"]),
        )
        vectors(anna)
        asked(
            anna,
            "my knee",
            [topics[0]],
            [message_of(topics[0]), message_of(topics[0], 3)],
            parameters={"candidates": 2},
        )
        row = only(effect_of(anna, curation.plan_split(anna, topics[0].pk, [message_of(topics[0], 2)])))
        assert (row.verdict, row.before.shown, row.after.shown) == ("worse", True, False)

    def test_a_change_elsewhere_leaves_a_run_as_it_was(self, anna: ChatUser, knees: list[Topic]) -> None:
        knee, stairs, tax = knees
        asked(anna, "tax", [tax])
        row = only(effect_of(anna, curation.plan_merge(anna, [knee.pk, stairs.pk])))
        assert (row.verdict, row.before.rank) == ("same", 1)
        assert row.sentence == "The messages it rested on are in other topics. Rank 1 as today."

    def test_a_run_that_chose_no_topic_has_nothing_to_lose(self, anna: ChatUser, knees: list[Topic]) -> None:
        asked(anna, "my knee")
        row = only(effect_of(anna, curation.plan_merge(anna, [knees[0].pk, knees[1].pk])))
        assert (row.verdict, row.before.rank, row.after.rank) == ("same", None, None)
        assert row.sentence == "It chose no topic, so it has nothing to lose."

    def test_a_run_without_its_vector_is_compared_by_words_and_says_so(
        self, anna: ChatUser, knees: list[Topic]
    ) -> None:
        asked(anna, "my knee", [knees[0]], vector=False)
        effect = effect_of(anna, curation.plan_merge(anna, [knees[0].pk, knees[1].pk]))
        assert (effect.words_only, only(effect).before.rank) == (1, 1)
        assert "Compared by words alone" in only(effect).sentence

    @pytest.mark.parametrize(
        ("before", "after", "verdict"),
        [
            pytest.param({"shown": 1, "rank": 4}, {"shown": 0, "rank": 2}, "worse", id="shown-no-more"),
            pytest.param({"excerpted": 0, "rank": 9}, {"excerpted": 1, "rank": 1}, "worse", id="too-long-now"),
            pytest.param({"rank": 9}, {"rank": 2, "chars": 20_000}, "better", id="far-up"),
            pytest.param({"rank": 2}, {"rank": 1, "chars": 20_000}, "worse", id="a-step-up-and-much-to-read"),
            pytest.param({"rank": 2}, {"rank": 1, "chars": 5_500}, "better", id="a-step-up-and-little-to-read"),
            pytest.param({"chars": 400}, {"chars": 1_200}, "same", id="short-either-way"),
            pytest.param({"rank": 150}, {"rank": None}, "worse", id="out-of-the-ranked"),
        ],
    )
    def test_being_shown_weighs_most_and_a_step_in_the_list_least(
        self, before: dict[str, Any], after: dict[str, Any], verdict: str
    ) -> None:
        usual = {"messages": 1, "rank": 3, "shown": 1, "excerpted": 0, "chars": 5_000}
        assert verdict_of(Position(**{**usual, **before}), Position(**{**usual, **after}), touched=True) == verdict


SUMMARY = "The mailbox at the gate: the landlord repaired the broken mailbox after months"


@pytest.fixture
def letters(anna: ChatUser) -> list[Topic]:
    """Thirty talks, and one about a mailbox, of which neither a message nor the summary says so."""
    others = [(f"Talk {n}", [f"word{n} one two three", f"word{n} four five"]) for n in range(30)]
    topics = talk(anna, *others, ("A photo of wet letters", ["it leaks again", "the lid at the gate is fixed"]))
    async_to_sync(embed_pending)(offline_embedder(), anna)
    return topics


def recalled(owner: ChatUser, query: str) -> Run:
    """A run of the program itself, in which the embedded scorer chooses."""

    async def carried_out(run: Run) -> None:
        await executed(run)

    run = lifecycle.start(owner, query)
    async_to_sync(carried_out)(run)
    run.refresh_from_db()
    return run


@pytest.mark.usefixtures("thread_closed")
class TestEmbeddedScorer:
    QUERY = "who repaired the mailbox"

    def test_a_summary_that_makes_it_choose_is_better_and_the_promise_holds(
        self, anna: ChatUser, letters: list[Topic]
    ) -> None:
        assert recalled(anna, self.QUERY).outcome == "none"
        change = curation.plan_edit(anna, letters[-1].pk, SUMMARY)
        effect = effect_of(anna, change)
        assert (effect.better, effect.worse, effect.asked_again) == (1, 0, 1)
        assert only(effect).sentence == (
            "It chose no topic. The embedded scorer, asked again, does not choose it today; afterwards it would."
        )
        assert effect_of(anna, change) == effect
        [put] = made(anna, change)
        again = recalled(anna, self.QUERY)
        finished = RunEvent.objects.get(run=again, kind="run_finished").payload
        assert [each["id"] for each in finished["selected"]] == [f"Topic:{put.pk}"]
        back = effect_of(anna, curation.plan_edit(anna, put.pk, "A photo of wet letters"))
        assert {row.run_id: row.verdict for row in back.rows}[again.pk] == "worse"

    def test_only_so_many_questions_are_asked_again(
        self, anna: ChatUser, letters: list[Topic], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(effect, "MOST_ASKED", 1)
        for query in (self.QUERY, "who fixed the lid", "who fixed the lid"):
            recalled(anna, query)
        tried = effect_of(anna, curation.plan_edit(anna, letters[-1].pk, SUMMARY))
        assert (tried.affected, tried.asked_again) == (3, 2)


class TestRuns:
    def test_worse_ones_come_first(self, anna: ChatUser) -> None:
        topics = talk(anna, ("Knee", ["my knee hurts", LONG]), ("Tax", ["tax forms", LONG]), ("Cats", ["cats sleep"]))
        vectors(anna)
        asked(anna, "my knee", [topics[0]], [message_of(topics[0])])
        asked(anna, "cats", [topics[2]])
        effect = effect_of(anna, curation.plan_merge(anna, [topics[0].pk, topics[1].pk]))
        assert [row.verdict for row in effect.rows] == ["worse", "same"]
        assert (effect.affected, effect.better, effect.worse, effect.same) == (2, 0, 1, 1)

    def test_of_a_golden_question_the_latest_run_counts(self, anna: ChatUser, knees: list[Topic]) -> None:
        old, new = (Evaluation.objects.create(source="x", strategy="flash") for _ in range(2))
        asked(anna, "my knee", evaluation=old, evidence=[message_of(knees[0])])
        latest = asked(anna, "my knee", evaluation=new, evidence=[message_of(knees[0])])
        row = only(effect_of(anna, curation.plan_merge(anna, [knees[0].pk, knees[1].pk])))
        assert (row.run_id, row.is_golden, row.before.rank) == (latest.pk, True, 1)

    @pytest.mark.parametrize(("where", "counted"), [(ANYWHERE, 1), (Where(authors=("Anna",)), 0)])
    def test_a_run_that_was_bounded_is_left_out(
        self, anna: ChatUser, knees: list[Topic], where: Where, counted: int
    ) -> None:
        found = RunEvent.objects.get(run=asked(anna, "my knee", [knees[0]]), kind="candidates_found")
        found.payload["understood"] = json.loads(to_text(UnderstoodQuery(where=where)))
        found.save()
        assert effect_of(anna, curation.plan_merge(anna, [knees[0].pk, knees[1].pk])).affected == counted

    def test_a_run_that_saw_what_the_topic_was_made_of_counts(self, anna: ChatUser, knees: list[Topic]) -> None:
        run = asked(anna, "my knee", [knees[0]])
        [renamed] = made(anna, curation.plan_edit(anna, knees[0].pk, "My knee"))
        row = only(effect_of(anna, curation.plan_merge(anna, [renamed.pk, knees[1].pk])))
        assert (row.run_id, row.before.rank) == (run.pk, 1)

    def test_runs_that_found_none_of_the_topics_and_those_of_others_are_left_out(
        self, anna: ChatUser, boris: ChatUser, knees: list[Topic]
    ) -> None:
        asked(anna, "my knee", [knees[0]])
        theirs = talk(boris, ("Dogs", ["my knee and dogs"]), ("Owls", ["owls"]))
        vectors(boris)
        asked(boris, "dogs", [theirs[0]])
        later = talk(anna, ("Birds", ["birds sing"]), ("Songs", ["songs of birds"]))
        assert effect_of(anna, curation.plan_merge(anna, [topic.pk for topic in later])).rows == ()
        assert effect_of(boris, curation.plan_merge(boris, [topic.pk for topic in theirs])).affected == 1

    def test_a_topic_that_is_no_longer_there_is_stale(self, anna: ChatUser, knees: list[Topic]) -> None:
        change = curation.plan_merge(anna, [knees[0].pk, knees[1].pk])
        made(anna, change)
        with pytest.raises(Stale):
            effect_of(anna, change)

    def test_more_runs_take_no_more_statements(
        self, anna: ChatUser, knees: list[Topic], django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for number in range(5):
            asked(anna, f"my knee {number}", [knees[0]])
        change = curation.plan_merge(anna, [knees[0].pk, knees[1].pk])
        # Two of them read what is in no topic yet.
        with django_assert_max_num_queries(17):
            assert effect_of(anna, change).affected == 5


WORDS = [f"{first}{last}" for first in ("ba", "de", "fi", "go", "ku", "la") for last in ("rn", "st", "mp", "lk", "nd")]


def chatter(owner: ChatUser, count: int) -> list[Topic]:
    """Topics of four messages about the same few words."""
    chance = random.Random(7)
    topics = talk(owner, *((f"Talk {n}", [" ".join(chance.sample(WORDS, 6)) for _ in range(4)]) for n in range(count)))
    vectors(owner)
    return topics


def holder(run: Run) -> int:
    """Returns the topic whose message the run quoted."""
    finished = RunEvent.objects.get(run=run, kind="run_finished").payload
    topic = Message.objects.get(pk=finished["selected"][0]["excerpt"][0]["message"]).topic_id
    assert topic
    return topic


def rank_of(owner: ChatUser, run: Run) -> int | None:
    return next((found.rank for found in real(owner, run) if parse_topic_id(found.id) == holder(run)), None)


def is_shown(owner: ChatUser, run: Run) -> bool:
    return any(found.shown and parse_topic_id(found.id) == holder(run) for found in real(owner, run))


def real(owner: ChatUser, run: Run) -> Sequence[Any]:
    sizes = {"topics": run.parameters["candidates"]} if run.parameters else {}
    found = search(owner, run.query, vector=QueryVector.objects.filter(run=run).exists(), **sizes)
    return found.candidates
