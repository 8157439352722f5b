"""Merges and splits suggested to people: which and why, never twice, and to one person at a time."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memoryapp import curation
from memoryapp.curation import suggestions
from memoryapp.curation.suggestions import SuggestionDecided
from memoryapp.engine.memory import TopicDraft
from memoryapp.intake.archiving import put_topics
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, Message, Person, Suggestion, Topic, TopicMessage
from memoryapp.models.operator import Operator, Role
from memoryapp.upkeep import tasks
from tests.conftest import BEGAN, operator, record, talk
from tests.curation.placed_topics import (
    accepted,
    choose,
    merged,
    only,
    place,
    placed,
    proposed,
    renamed,
    sample,
    two_subjects,
)

Kind, State = Suggestion.Kind, Suggestion.State

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def scale(settings: Any) -> None:
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.8


@pytest.fixture
def ada(anna: ChatUser) -> Operator:
    return operator("ada", Role.CURATOR, anna)


@pytest.fixture
def bob(anna: ChatUser) -> Operator:
    return operator("bob", Role.CURATOR, anna)


class TestMerges:
    def test_near_topics_are_proposed_nearest_first_and_once(self, anna: ChatUser) -> None:
        far, one, near, other = placed(anna, 180, 0, 5, 30)
        assert suggestions.suggest(anna) == 3
        assert [each.topics for each in suggestions.opened(anna)] == [
            [one.pk, near.pk], [near.pk, other.pk], [one.pk, other.pk],
        ]  # fmt: skip
        assert suggestions.suggest(anna) == 0
        assert not any(far.pk in each.topics for each in suggestions.opened(anna))

    def test_the_days_between_topics_are_days_of_the_calendar(self, anna: ChatUser) -> None:
        evening = BEGAN.replace(hour=23)
        for number, at in enumerate((evening, evening + timedelta(hours=2))):
            add_messages(anna, [record(number, "said", at=at)])
            [message] = Message.objects.of(anna).filter(topic=None)
            [topic] = put_topics(anna, [TopicDraft(f"Topic {number}", (message.pk,))], actor="test")
            place(topic, 0)
        suggestions.suggest(anna)
        assert only(anna).evidence["days_apart"] == 1

    def test_how_many_topics_are_like_each_is_measured(self, anna: ChatUser) -> None:
        before = sample("topics_consolidation_candidates_count"), sample("topics_consolidation_candidates_sum")
        placed(anna, 180, 0, 5, 30)
        suggestions.suggest(anna)
        after = sample("topics_consolidation_candidates_count"), sample("topics_consolidation_candidates_sum")
        assert (after[0] - before[0], after[1] - before[1]) == (4, 6)

    def test_only_what_would_be_too_long_together_is_not_merged(self, anna: ChatUser, settings: Any) -> None:
        settings.MAX_MERGED_SIZE_CHARS, settings.SPLIT_THRESHOLD_CHARS = 100, 80
        placed(anna, 0, 1, texts=["x" * 60])
        assert proposed(anna) == []
        settings.MAX_MERGED_SIZE_CHARS = 180
        placed(anna, 90, 91, texts=["y" * 90])
        sizes = [sorted(Topic.objects.get(pk=pk).size_chars for pk in pair) for pair in proposed(anna)]
        assert sorted(sizes) == [[60, 60], [90, 90]]

    def test_shared_people_and_choices_lift_what_is_nearly_near_enough(self, anna: ChatUser) -> None:
        Person.objects.create(owner=anna, display_name="Petrov", aliases=["Petya"])
        one, other = placed(anna, 0, 38, texts=["Petya called", "What did he want?"])
        far, _farther = placed(anna, 120, 158)
        choose(anna, one, other)
        choose(anna, one, far)
        found = only(anna)
        assert found.topics == [one.pk, other.pk]
        assert found.evidence["people"] == ["Petrov"]
        assert (found.evidence["together"], found.evidence["runs"], found.evidence["size_chars"]) == (1, 2, 58)
        reasons = suggestions.reasons(found)
        assert reasons[0] == "They lie near each other, and what they share adds to it: similarity 0.79."
        assert reasons[1:] == [
            "Both speak of Petrov.",
            "1 of the last 2 runs chose both.",
            "1 day lies between them.",
            "Merged they have 58 characters.",
        ]

    def test_a_choice_counts_for_what_the_chosen_topic_has_become(self, anna: ChatUser) -> None:
        one, other = placed(anna, 0, 20)
        choose(anna, one, other)
        new = renamed(anna, one, 0)
        found = only(anna)
        assert (sorted(found.topics), found.evidence["together"]) == (sorted([other.pk, new.pk]), 1)

    def test_topics_edited_by_hand_are_proposed_and_not_changed(self, anna: ChatUser) -> None:
        one, other = placed(anna, 0, 10)
        mine = renamed(anna, one, 0)
        assert sorted(only(anna).topics) == sorted([other.pk, mine.pk])
        assert list(Topic.objects.of(anna).live().order_by("pk")) == [other, mine]

    def test_a_memory_has_its_own_suggestions(self, anna: ChatUser, boris: ChatUser) -> None:
        placed(anna, 0)
        theirs = placed(boris, 5, 6)
        assert proposed(anna) == []
        assert proposed(boris) == [[topic.pk for topic in theirs]]

    def test_there_are_never_more_open_than_there_is_room_for(
        self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("memoryapp.curation.suggestions.making.MOST_OPEN", 2)
        one, other, third, _fourth = placed(anna, 0, 1, 3, 6)
        assert proposed(anna) == [[one.pk, other.pk], [other.pk, third.pk]]
        assert suggestions.suggest(anna) == 0

    @pytest.mark.slow
    def test_a_memory_too_large_for_one_go_is_gone_through_and_then_left_alone(
        self, anna: ChatUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("memoryapp.curation.suggestions.making.MOST_PAIRS", 7 * 2)
        topics = placed(anna, 0, 60, 120, 180, 240, 300, 5)
        left = []
        while suggestions.with_unchecked().exists():
            suggestions.suggest(anna)
            left.append(Topic.objects.filter(consolidation_checked=False).count())
        assert left == [5, 3, 1, 0]
        # The oldest is near the latest, which was compared three calls earlier.
        assert [each.topics for each in suggestions.opened(anna)] == [[topics[0].pk, topics[-1].pk]]

    def test_without_vectors_nothing_is_proposed(self, anna: ChatUser) -> None:
        talk(anna, ("One", ["a", "b"]), ("Other", ["c", "d"]))
        assert suggestions.suggest(anna) == 0


class TestNever:
    def test_a_rejected_pair_is_not_proposed_again(self, anna: ChatUser) -> None:
        placed(anna, 0, 5)
        suggestions.decide(only(anna), State.NEVER, actor="ada")
        assert proposed(anna) == []
        assert suggestions.progress(anna) == suggestions.QueueProgress(open=0, decided=1)

    @pytest.mark.parametrize("edited", [0, 1], ids=["the-older", "the-newer"])
    def test_nor_when_one_of_both_was_edited_since(self, anna: ChatUser, edited: int) -> None:
        topics = placed(anna, 0, 5)
        suggestions.decide(only(anna), State.NEVER, actor="ada")
        renamed(anna, topics[edited], 2)
        assert proposed(anna) == []
        third, *_rest = placed(anna, 4)
        assert all(third.pk in pair for pair in proposed(anna))
        assert len(proposed(anna)) == 2

    def test_nor_is_a_rejected_split(self, anna: ChatUser, settings: Any) -> None:
        settings.SPLIT_THRESHOLD_CHARS = 100
        topic = two_subjects(anna)
        suggestions.decide(only(anna), State.NEVER, actor="ada")
        renamed(anna, topic, 0)
        assert proposed(anna) == []


class TestSplits:
    def test_a_topic_about_two_things_is_cut_between_them(self, anna: ChatUser) -> None:
        topic = two_subjects(anna)
        place(talk(anna, ("Other", ["a", "b"]))[0], 90)
        found = only(anna)
        border = list(TopicMessage.objects.filter(topic=topic).order_by("message").values_list("message", flat=True))[8]
        assert (found.kind, found.topics, found.evidence["at"]) == (Kind.SPLIT, [topic.pk], [border])
        assert found.evidence["gain"] == pytest.approx(1, abs=0.01)
        assert found.evidence["parts"][0][0] == found.evidence["parts"][1][0] == 8
        reasons = suggestions.reasons(found)
        assert reasons[0] == "Its parts are no more similar than different topics are: similarity 0.00, usually 0.71."
        assert reasons[-1] == "Parts: 8 + 8 messages."
        change = curation.plan_split(anna, topic.pk, found.evidence["at"])
        assert [len(draft.messages) for draft in change.put] == [8, 8]

    def test_what_is_too_long_is_cut_until_no_part_is(self, anna: ChatUser, settings: Any) -> None:
        settings.SPLIT_THRESHOLD_CHARS = 150
        topic = two_subjects(anna)
        found = only(anna)
        assert found.topics == [topic.pk]
        assert len(found.evidence["parts"]) > 2
        assert all(chars <= 150 for _messages, chars in found.evidence["parts"])
        assert "above 150 only excerpts are handed over" in suggestions.reasons(found)[0]

    def test_talk_taken_up_again_after_long_is_cut_at_the_pause(self, anna: ChatUser) -> None:
        topic = two_subjects(anna, 0, 60, pause=timedelta(days=9))
        place(talk(anna, ("Other", ["a", "b"]))[0], 110)
        found = only(anna)
        assert (found.topics, found.evidence["pause_seconds"]) == ([topic.pk], 9 * 86_400 + 60)
        assert "The talk paused for 9 days there." in suggestions.reasons(found)

    def test_a_pause_in_talk_about_one_thing_is_no_reason(self, anna: ChatUser) -> None:
        two_subjects(anna, 0, 10, pause=timedelta(days=9))
        place(talk(anna, ("Other", ["a", "b"]))[0], 100)
        assert proposed(anna) == []

    def test_what_a_person_put_together_is_cut_only_when_it_is_too_long(self, anna: ChatUser, settings: Any) -> None:
        place(talk(anna, ("Near", ["a", "b"]))[0], 30)
        mine = renamed(anna, two_subjects(anna), 0)
        assert [mine.pk] not in proposed(anna)
        settings.SPLIT_THRESHOLD_CHARS = 150
        assert [mine.pk] in proposed(anna)

    @pytest.mark.parametrize("actor", ["ada", "merger"])
    def test_what_a_merge_made_within_its_bound_is_not_cut_again(
        self, anna: ChatUser, settings: Any, actor: str
    ) -> None:
        settings.SPLIT_THRESHOLD_CHARS, settings.MAX_MERGED_SIZE_CHARS = 150, 250
        one, other = placed(anna, 0, 60, texts=["x" * 60, "y" * 60])
        plan = curation.plan_merge(anna, [one.pk, other.pk], "Both")
        edit = curation.swap(anna, plan, kind="merge", actor=actor, by_hand=actor == "ada")
        [made] = curation.put_in(edit)
        place(made, 0)
        assert made.size_chars == 240
        assert proposed(anna) == []
        again = renamed(anna, made, 0)
        assert proposed(anna) == []
        settings.MAX_MERGED_SIZE_CHARS = 200
        assert proposed(anna) == [[again.pk]]


class TestQueue:
    def test_whoever_looks_holds_it_and_the_next_person_gets_another(
        self, anna: ChatUser, ada: Operator, bob: Operator
    ) -> None:
        placed(anna, 0, 1, 90, 92)
        suggestions.suggest(anna)
        first = suggestions.next_open(anna, ada.user)
        second = suggestions.next_open(anna, bob.user)
        assert first
        assert second
        assert first.pk != second.pk
        assert suggestions.lease(first, bob.user) == ada.user
        assert suggestions.holder(suggestions.opened(anna)[0]) == ada.user
        assert suggestions.next_open(anna, ada.user, after=first) == first

    def test_a_hold_lapses_unless_it_is_renewed(self, anna: ChatUser, ada: Operator, bob: Operator) -> None:
        placed(anna, 0, 1)
        found = only(anna)
        assert suggestions.lease(found, ada.user) == ada.user
        Suggestion.objects.update(held_at=timezone.now() - timedelta(seconds=60))
        assert suggestions.lease(found, ada.user) == ada.user
        assert suggestions.lease(found, bob.user) == ada.user
        Suggestion.objects.update(held_at=timezone.now() - timedelta(minutes=3))
        found.refresh_from_db()
        assert suggestions.holder(found) is None
        assert suggestions.next_open(anna, bob.user) == found
        suggestions.release(found, ada.user)
        assert suggestions.lease(found, ada.user) == bob.user
        suggestions.release(found, bob.user)
        assert suggestions.lease(found, ada.user) == ada.user

    def test_after_the_last_comes_the_first(self, anna: ChatUser, ada: Operator) -> None:
        placed(anna, 0, 1, 90, 92)
        suggestions.suggest(anna)
        best, last = suggestions.opened(anna)
        assert suggestions.next_open(anna, ada.user) == best
        assert suggestions.next_open(anna, ada.user, after=best) == last
        assert suggestions.next_open(anna, ada.user, after=last) == best

    def test_the_second_to_decide_learns_who_was_first(self, anna: ChatUser, ada: Operator) -> None:
        placed(anna, 0, 1)
        found = only(anna)
        assert suggestions.decide(found, State.NEVER, actor="ada").decided_by == "ada"
        with pytest.raises(SuggestionDecided, match="ada decided about this already: never"):
            suggestions.decide(found, State.ACCEPTED, actor="bob")
        assert suggestions.lease(found, ada.user) is None

    def test_what_was_accepted_closes_what_else_was_proposed_of_its_topics(self, anna: ChatUser) -> None:
        one, other, third = placed(anna, 0, 1, 10)
        suggestions.suggest(anna)
        first = suggestions.opened(anna)[0]
        edit = merged(anna, one, other)
        suggestions.decide(first, State.ACCEPTED, actor="ada", edit=edit)
        assert list(suggestions.opened(anna)) == []
        with pytest.raises(SuggestionDecided, match="outdated"):
            suggestions.decide(Suggestion.objects.filter(state=State.OUTDATED)[0], State.NEVER, actor="ada")
        curation.undo(anna, edit, actor="ada")
        assert [each.topics for each in suggestions.opened(anna)] == [
            [one.pk, other.pk], [other.pk, third.pk], [one.pk, third.pk],
        ]  # fmt: skip

    def test_a_decision_whose_edit_stands_is_not_open_again(self, anna: ChatUser) -> None:
        one, other = placed(anna, 0, 1)
        found = only(anna)
        suggestions.decide(found, State.ACCEPTED, actor="ada", edit=merged(anna, one, other))
        with pytest.raises(SuggestionDecided, match="ada decided about this already: accepted"):
            suggestions.reopen(found)
        assert Suggestion.objects.get().state == State.ACCEPTED

    def test_it_is_open_again_while_its_edit_is_undone_and_accepted_when_it_is_done_again(self, anna: ChatUser) -> None:
        one, other = placed(anna, 0, 1)
        edit = merged(anna, one, other)
        found = accepted(anna, edit, one, other)
        states = []
        last = edit
        for _ in range(4):
            last = curation.undo(anna, last, actor="bob")
            found.refresh_from_db()
            states.append(found.state)
        assert states == [State.OPEN, State.ACCEPTED] * 2
        assert (found.decided_by, found.edit) == ("ada", edit)
        assert suggestions.progress(anna) == suggestions.QueueProgress(open=0, decided=1)

    @pytest.mark.slow
    def test_whichever_way_its_edit_was_undone(self, anna: ChatUser) -> None:
        one, other, third, fourth = placed(anna, 0, 1, 90, 92)
        first, second = merged(anna, one, other), merged(anna, third, fourth)
        found = [accepted(anna, first, one, other), accepted(anna, second, third, fourth)]
        [merge] = curation.put_in(first)
        renamed(anna, merge, 0)
        assert len(curation.undo_with_dependents(anna, first, actor="bob")) == 2
        assert list(suggestions.opened(anna)) == [found[0]]
        curation.undo_between(anna, "ada", second.at, timezone.now(), actor="bob")
        assert set(suggestions.opened(anna)) == set(found)

    def test_topics_that_another_edit_took_since_leave_it_outdated_not_accepted(self, anna: ChatUser) -> None:
        one, other = placed(anna, 0, 1)
        edit = merged(anna, one, other)
        found = accepted(anna, edit, one, other)
        curation.undo(anna, edit, actor="bob")
        again = renamed(anna, one, 0)
        suggestions.suggest(anna)
        found.refresh_from_db()
        assert found.state == State.OUTDATED
        curation.undo(anna, curation.lineage(again).edits[0], actor="bob")
        found.refresh_from_db()
        assert found.state == State.OPEN

    def test_never_stays_never_whatever_is_undone(self, anna: ChatUser) -> None:
        one, other = placed(anna, 0, 1)
        found = only(anna)
        edit = merged(anna, one, other)
        Suggestion.objects.update(state=State.NEVER)
        curation.undo(anna, edit, actor="bob")
        found.refresh_from_db()
        assert found.state == State.NEVER
        assert suggestions.reopen(found).state == State.OPEN

    def test_topics_changed_elsewhere_leave_the_queue_and_come_back_with_an_undo(
        self, anna: ChatUser, ada: Operator
    ) -> None:
        one, other = placed(anna, 0, 1)
        found = only(anna)
        edit = merged(anna, one, other)
        assert suggestions.next_open(anna, ada.user) is None
        curation.undo(anna, edit, actor="ada")
        assert list(suggestions.opened(anna)) == [found]
        assert suggestions.suggest(anna) == 0
        assert suggestions.next_open(anna, ada.user) == found

    def test_a_page_of_suggestions_takes_two_queries(
        self, anna: ChatUser, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        placed(anna, 0, 1, 2, 3)
        suggestions.suggest(anna)
        with django_assert_num_queries(2):
            rows = list(suggestions.opened(anna))
            topics = suggestions.topics_of(rows)
            holders = [(topics[each.topics[0]].summary, suggestions.holder(each)) for each in rows]
        assert len(holders) == 6


class TestSweep:
    def test_new_topics_are_looked_at_once(self, anna: ChatUser, boris: ChatUser) -> None:
        placed(anna, 0, 1)
        talk(boris, ("No vector", ["a", "b"]))
        assert list(suggestions.with_unchecked()) == [anna]
        tasks.suggest_due()
        assert suggestions.progress(anna).open == 1
        assert list(suggestions.with_unchecked()) == []

    def test_one_memory_that_fails_keeps_nobody_waiting(
        self, anna: ChatUser, boris: ChatUser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        placed(anna, 0, 1)
        placed(boris, 0, 1)
        suggest = suggestions.suggest

        def failing(owner: ChatUser) -> int:
            if owner == anna:
                raise DatabaseError("gone")
            return suggest(owner)

        monkeypatch.setattr(suggestions, "suggest", failing)
        tasks.suggest_due()
        assert f"the work for chat user {anna.pk} failed" in caplog.text
        assert suggestions.progress(boris).open == 1
