"""Topics edited, merged, split, moved and withdrawn: the results, and which changes are refused."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memoryapp import curation
from memoryapp.curation import ByHand, Change, CurationError, Stale
from memoryapp.curation.change import MOST_SUMMARY_CHARS, MOST_TOPICS
from memoryapp.curation.topic_writer import opening
from memoryapp.engine.memory import TopicDraft
from memoryapp.intake.archiving import AlreadyArchived, put_topics
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, ImportBatch, Message, Topic, TopicEdit, TopicMessage
from tests.conftest import contents, record, talk
from tests.search.test_vectors import Hashing

Kind = TopicEdit.Kind


def messages(topic: Topic | int) -> list[int]:
    listed = TopicMessage.objects.filter(topic=topic).order_by("message__sent_at", "message")
    return list(listed.values_list("message", flat=True))


def partition(owner: ChatUser) -> dict[str, list[int]]:
    return {topic.summary: messages(topic) for topic in Topic.objects.of(owner).live()}


def made(owner: ChatUser, change: Change, kind: TopicEdit.Kind = "edit", **more: Any) -> TopicEdit:
    return curation.swap(owner, change, kind=kind, actor="ada", **more)


def batch_of(owner: ChatUser, *numbers: int) -> ImportBatch:
    batch = ImportBatch.objects.create(owner=owner, source="x.jsonl", format="jsonl")
    add_messages(owner, [record(number, f"message {number}") for number in numbers], batch=batch)
    return batch


class TestEdit:
    def test_a_new_summary_is_another_topic_over_the_same_messages(self, anna: ChatUser, topics: list[Topic]) -> None:
        tea, cats, more = topics
        edit = made(anna, curation.plan_edit(anna, tea.pk, " Green tea "), reason="clearer")
        [new] = curation.put_in(edit)
        assert (new.summary, new.locked_by_hand, messages(new)) == ("Green tea", True, messages(tea))
        assert (new.started_at, new.ended_at, new.size_chars) == (tea.started_at, tea.ended_at, tea.size_chars)
        assert curation.taken_out(edit) == [tea]
        assert (edit.kind, edit.actor, edit.reason) == ("edit", "ada", "clearer")
        tea.refresh_from_db()
        assert (tea.is_live, tea.summary) == (False, "Tea")
        assert set(Topic.objects.live()) == {new, cats, more}
        assert list(violations()) == []

    @pytest.mark.parametrize(
        ("summary", "sentence"),
        [("  ", "needs a summary"), ("x" * (MOST_SUMMARY_CHARS + 1), "at most 2000"), ("Tea", "says that already")],
    )
    def test_a_summary_that_says_nothing_new_is_refused(
        self, anna: ChatUser, topics: list[Topic], summary: str, sentence: str
    ) -> None:
        with pytest.raises(CurationError, match=sentence):
            curation.plan_edit(anna, topics[0].pk, summary)

    def test_another_memorys_topic_is_not_there(self, boris: ChatUser, topics: list[Topic]) -> None:
        with pytest.raises(CurationError, match=f"no topic Topic:{topics[0].pk} in this memory"):
            curation.plan_edit(boris, topics[0].pk, "Mine")

    def test_the_second_of_two_editors_learns_where_the_messages_are(self, anna: ChatUser, topics: list[Topic]) -> None:
        mine = curation.plan_edit(anna, topics[0].pk, "Mine")
        [theirs] = curation.put_in(made(anna, curation.plan_edit(anna, topics[0].pk, "Theirs")))
        before = partition(anna)
        with pytest.raises(Stale, match=f"Topic:{topics[0].pk} is retired.*in Topic:{theirs.pk} now") as refused:
            made(anna, mine)
        assert refused.value.successors == {topics[0].pk: (theirs.pk,)}
        assert partition(anna) == before
        with pytest.raises(Stale):
            curation.plan_edit(anna, topics[0].pk, "Again")

    def test_a_reason_that_is_too_long_changes_nothing(self, anna: ChatUser, topics: list[Topic]) -> None:
        before = partition(anna)
        with pytest.raises(CurationError, match="reason is too long"):
            made(anna, curation.plan_edit(anna, topics[0].pk, "Mine"), reason="x" * 501)
        assert partition(anna) == before


class TestMerge:
    def test_what_lies_between_is_untouched(self, anna: ChatUser, topics: list[Topic]) -> None:
        tea, cats, more = topics
        [new] = curation.put_in(made(anna, curation.plan_merge(anna, [more.pk, tea.pk]), Kind.MERGE))
        assert new.summary == "Tea; More tea"
        assert messages(new) == messages(tea) + messages(more)
        assert partition(anna) == {"Tea; More tea": messages(new), "Cats": messages(cats)}
        assert (new.message_count, new.started_at, new.ended_at) == (6, tea.started_at, more.ended_at)
        assert list(violations()) == []

    @pytest.mark.parametrize("pick", [lambda ids: ids[:1], lambda ids: [ids[0], ids[0]], lambda ids: []])
    def test_a_merge_needs_two_topics(
        self, anna: ChatUser, topics: list[Topic], pick: Callable[[list[int]], list[int]]
    ) -> None:
        with pytest.raises(CurationError, match="at least two different topics"):
            curation.plan_merge(anna, pick([topic.pk for topic in topics]))

    def test_too_many_topics_are_refused_before_they_are_looked_up(self, anna: ChatUser) -> None:
        with pytest.raises(CurationError, match=f"At most {MOST_TOPICS} topics"):
            curation.plan_merge(anna, range(MOST_TOPICS + 1))

    def test_topics_of_two_people_do_not_merge(self, anna: ChatUser, boris: ChatUser, topics: list[Topic]) -> None:
        his = talk(boris, ("Dogs", ["Any?", "None."]))[0]
        with pytest.raises(CurationError, match=f"no topic Topic:{his.pk}"):
            curation.plan_merge(anna, [topics[0].pk, his.pk])

    @pytest.mark.slow
    def test_the_cost_in_queries_does_not_grow(self, anna: ChatUser, django_assert_max_num_queries: Any) -> None:
        many = talk(anna, *((f"Topic {number}", ["a", "b", "c"]) for number in range(20)))
        with django_assert_max_num_queries(14):
            made(anna, curation.plan_merge(anna, [topic.pk for topic in many]), Kind.MERGE)


class TestSplit:
    def test_parts_begin_at_the_messages_chosen(self, anna: ChatUser, topics: list[Topic]) -> None:
        one, two, three, four = messages(topics[0])
        change = curation.plan_split(anna, topics[0].pk, [four, two], ["Which", "", "Effect"])
        parts = curation.put_in(made(anna, change, "split"))
        assert [messages(part) for part in parts] == [[one], [two, three], [four]]
        assert [part.summary for part in parts] == ["Which", "Why green?", "Effect"]
        assert list(violations()) == []

    def test_the_first_part_keeps_the_summary_and_the_others_begin_in_the_users_words(self, anna: ChatUser) -> None:
        texts = ["Which tea?", "Green.", "| a | b |\n|---|---|", "**Why** green?"]
        [topic] = talk(anna, ("What was said of tea", texts))
        change = curation.plan_split(anna, topic.pk, [messages(topic)[2]])
        kept, other = (draft.summary for draft in change.put)
        assert kept == "What was said of tea"
        assert "|" not in other
        assert "**" not in other

    def test_titles_may_come_from_the_embedder(self, anna: ChatUser, topics: list[Topic]) -> None:
        at = [messages(topics[0])[2]]
        change = curation.plan_split(anna, topics[0].pk, at, summarise=curation.extractive(Hashing()))
        assert all(draft.summary for draft in change.put)

    def test_wishes_that_make_no_parts_are_refused(self, anna: ChatUser, topics: list[Topic]) -> None:
        tea, cats, _more = topics
        first, second, *_rest = messages(tea)
        for at, summaries, sentence in (
            ([], [], "Say at which"),
            ([first], [], "would be empty"),
            ([messages(cats)[0]], [], f"not in Topic:{tea.pk}"),
            ([second], ["one"], "2 parts and 1 summaries"),
        ):
            with pytest.raises(CurationError, match=sentence):
                curation.plan_split(anna, tea.pk, at, summaries)

    def test_a_split_anew_holds_each_message_once(self, anna: ChatUser, topics: list[Topic]) -> None:
        one, two, three, four = messages(topics[0])
        drafts = [TopicDraft("Odd", (one, three)), TopicDraft("Even", (two, four))]
        made(anna, curation.plan_resplit(anna, topics[0].pk, drafts), "resplit")
        assert partition(anna)["Odd"] == [one, three]
        assert list(violations()) == []
        for refused in (drafts[:1], [drafts[0], drafts[0]], [TopicDraft("Cats", tuple(messages(topics[1])))]):
            with pytest.raises(CurationError):
                curation.plan_resplit(anna, topics[1].pk, refused)

    def test_the_segmenter_proposes_and_changes_nothing(self, anna: ChatUser, topics: list[Topic]) -> None:
        before = partition(anna)
        drafts = curation.propose_split(anna, topics[0].pk, Hashing(), 20)
        assert [number for draft in drafts for number in draft.messages] == messages(topics[0])
        assert len(drafts) > 1
        assert partition(anna) == before

    def test_a_talk_is_called_by_its_first_words(self) -> None:
        assert opening(contents("", " Which\ntea? ")) == "Which tea?"
        assert opening(contents("")) == "…"
        long = opening(contents("many words " * 20))
        assert len(long) <= 91
        assert long.endswith("words…") or long.endswith("many…")


class TestMove:
    def test_messages_of_several_topics_move_to_one_and_an_emptied_topic_is_gone(
        self, anna: ChatUser, topics: list[Topic]
    ) -> None:
        tea, cats, more = topics
        moved = [*messages(tea)[:2], *messages(more)]
        rest = messages(tea)[2:]
        made(anna, curation.plan_move(anna, moved, cats.pk), "move")
        assert partition(anna) == {"Tea": rest, "Cats": sorted([*messages(cats), *moved])}
        assert list(violations()) == []

    def test_messages_move_to_a_topic_of_their_own(self, anna: ChatUser, topics: list[Topic]) -> None:
        tea, cats, _more = topics
        moved = [messages(tea)[3], messages(cats)[0]]
        made(anna, curation.plan_move(anna, moved, None, "Both"), "move")
        assert sorted(partition(anna)["Both"]) == sorted(moved)
        assert list(violations()) == []

    def test_moves_that_lead_nowhere_are_refused(self, anna: ChatUser, boris: ChatUser, topics: list[Topic]) -> None:
        tea, cats, _more = topics
        add_messages(anna, [record(99, "now")])
        active = Message.objects.active().get().pk
        theirs = messages(talk(boris, ("Dogs", ["Any?"]))[0])
        wishes: list[tuple[Sequence[int], int | None, str]] = [
            ([], cats.pk, "Say which"),
            (messages(cats), cats.pk, f"in Topic:{cats.pk} already"),
            (messages(cats), None, "nothing to move"),
            ([active], cats.pk, f"Message {active} is in no topic"),
            (theirs, cats.pk, "no message"),
            (messages(tea), 10**9, "no topic"),
        ]
        for moved, to, sentence in wishes:
            with pytest.raises(CurationError, match=sentence):
                curation.plan_move(anna, moved, to)


class TestLaw:
    def test_changes_that_break_the_partition_change_nothing(self, anna: ChatUser, topics: list[Topic]) -> None:
        tea, cats, _more = topics
        mine, theirs = tuple(messages(tea)), tuple(messages(cats))
        before = partition(anna)
        for put in (
            (TopicDraft("Less", mine[1:]),),
            (TopicDraft("More", mine + theirs),),
            (TopicDraft("Twice", mine), TopicDraft("Again", mine[:1])),
            (TopicDraft("Whole", mine), TopicDraft("Empty", ())),
            (),
        ):
            with pytest.raises(CurationError):
                made(anna, Change((tea.pk,), put))
        assert partition(anna) == before
        assert TopicEdit.objects.exclude(kind=Kind.ARCHIVE).count() == 0

    def test_an_automatic_change_spares_what_a_person_made(self, anna: ChatUser, topics: list[Topic]) -> None:
        [mine] = curation.put_in(made(anna, curation.plan_edit(anna, topics[0].pk, "Mine")))
        change = curation.plan_merge(anna, [mine.pk, topics[1].pk])
        with pytest.raises(ByHand, match=f"Topic:{mine.pk} was edited by hand") as refused:
            made(anna, change, Kind.MERGE, by_hand=False)
        assert refused.value.topics == (mine.pk,)
        made(anna, change, Kind.MERGE)

    def test_an_automatic_change_that_a_person_took_back_is_not_made_again(
        self, anna: ChatUser, topics: list[Topic]
    ) -> None:
        change = curation.plan_merge(anna, [topics[0].pk, topics[1].pk])
        automatic = made(anna, change, Kind.MERGE, by_hand=False)
        assert not curation.put_in(automatic)[0].locked_by_hand
        curation.undo(anna, automatic, actor="ada")
        assert curation.settled_by_hand(anna.pk, [topic.pk for topic in topics]) == (topics[0].pk, topics[1].pk)
        with pytest.raises(ByHand):
            made(anna, change, Kind.MERGE, by_hand=False)

    def test_an_archive_takes_no_withdrawn_messages(self, anna: ChatUser) -> None:
        batch = batch_of(anna, 1, 2)
        curation.withdraw(anna, batch, actor="ada")
        ids = tuple(Message.objects.of(anna).in_order().values_list("pk", flat=True))
        with pytest.raises(AlreadyArchived):
            put_topics(anna, [TopicDraft("x", ids)], actor="archive")


class TestWithdraw:
    def test_topics_keep_what_others_brought(self, anna: ChatUser) -> None:
        first, second = batch_of(anna, 1, 2), batch_of(anna, 3, 4, 5)
        one, two, three, four, five = Message.objects.of(anna).in_order().values_list("pk", flat=True)
        put_topics(anna, [TopicDraft("Both", (one, two, three)), TopicDraft("Second", (four,))], actor="archive")
        before = partition(anna)
        edit = curation.withdraw(anna, second, actor="ada", reason="wrong file")
        assert partition(anna) == {"Both": [one, two]}
        assert not Message.objects.active().exists()
        assert set(Message.objects.filter(is_withdrawn=True).values_list("pk", flat=True)) == {three, four, five}
        assert list(violations()) == []
        with pytest.raises(CurationError, match="no messages that could be withdrawn"):
            curation.withdraw(anna, second, actor="ada")
        back = curation.undo(anna, edit, actor="ada")
        assert partition(anna) == before
        assert list(Message.objects.active().values_list("pk", flat=True)) == [five]
        curation.undo(anna, back, actor="ada")
        assert partition(anna) == {"Both": [one, two]}
        assert not Message.objects.active().exists()
        curation.withdraw(anna, first, actor="ada")
        assert not Topic.objects.live().exists()
        assert list(violations()) == []

    def test_what_was_archived_since_is_not_withdrawn_by_a_redo(self, anna: ChatUser) -> None:
        batch = batch_of(anna, 1, 2)
        back = curation.undo(anna, curation.withdraw(anna, batch, actor="ada"), actor="ada")
        ids = tuple(Message.objects.of(anna).in_order().values_list("pk", flat=True))
        put_topics(anna, [TopicDraft("x", ids)], actor="archive")
        with pytest.raises(CurationError, match="withdraw the import again"):
            curation.undo(anna, back, actor="ada")
        curation.withdraw(anna, batch, actor="ada")
        assert not Topic.objects.live().exists()

    def test_another_memorys_import_is_not_there(self, anna: ChatUser, boris: ChatUser) -> None:
        with pytest.raises(CurationError, match="no such import"):
            curation.withdraw(anna, batch_of(boris, 1), actor="ada")
