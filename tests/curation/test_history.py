"""The history: everything in one list, filtered, paged, a preview of every undo, and imports withdrawn."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryapp import curation
from memoryapp.curation import (
    blame,
    history,
    knowledge,
    plan_edit,
    plan_merge,
    plan_move,
    plan_split,
    put_in,
    swap,
    undo,
)
from memoryapp.curation.history import Narrowing
from memoryapp.models import ChatUser, ImportBatch, KnowledgeEdit, Message, Operator, Person, Topic, TopicEdit
from rerankui.frame.filters import HistoryFilter
from tests.conftest import signed_in, talk
from tests.support.api_client import Program, token_for
from tests.support.browsing import cost, get, link, message_ids, topic_of


@pytest.fixture
def client(curator: Operator) -> Client:
    return signed_in(curator)


def address(owner: ChatUser, rest: str = "") -> str:
    return f"/memory/{owner.pk}/history/{rest}"


def live(owner: ChatUser) -> list[tuple[int, str]]:
    return list(Topic.objects.of(owner).live().order_by("pk").values_list("pk", "summary"))


# The history: everything in one list, filtered, paged, and a preview of every undo.


Noun = KnowledgeEdit.Noun


def edited(owner: ChatUser, topic: Topic, summary: str, *, actor: str = "ada", reason: str = "") -> TopicEdit:
    change = curation.plan_edit(owner, topic.pk, summary)
    return curation.swap(owner, change, kind="edit", actor=actor, reason=reason)


def renamed(owner: ChatUser, person: Person, bio: str, *, actor: str = "ada") -> KnowledgeEdit:
    person.refresh_from_db()
    return knowledge.edit(owner, person, {"bio": bio}, actor=actor)


def listed(page: str) -> list[str]:
    """Returns the entries from the top, as ``edit-5`` or ``change-7``."""
    return re.findall(r'<li class="entry-row" id="([^"]+)"', page)


class TestList:
    def test_topics_and_people_stand_in_one_list_newest_first(self, anna: ChatUser, client: Client) -> None:
        topic = talk(anna, ("Cats", ["A cat?"]))[0]
        dora = Person.objects.create(owner=anna, display_name="Dora")
        one = renamed(anna, dora, "A vet.")
        two = edited(anna, topic, "Cats and dogs", reason="more precise")
        three = renamed(anna, dora, "A cook.")
        page = get(client, address(anna))
        archived = TopicEdit.objects.get(kind="archive")
        by_people = [f"change-{three.pk}", f"edit-{two.pk}", f"change-{one.pk}"]
        assert listed(page) == by_people
        whole = get(client, address(anna, f"?actor={HistoryFilter.EVERYBODY}"))
        assert listed(whole) == [*by_people, f"edit-{archived.pk}"]
        assert "more precise" in page
        assert "Dora" in page

    @pytest.mark.slow
    def test_what_the_program_did_is_folded_into_a_line_that_leads_to_it(self, anna: ChatUser, client: Client) -> None:
        topic, _dogs = talk(anna, ("Cats", ["A cat?"]), ("Dogs", ["A dog?"]))
        page = get(client, address(anna))
        assert "The program archived on its own 2 times" in page
        assert "Nobody changed anything yet" in page
        [way] = re.findall(r'class="machines">.*?<a href="([^"]+)"', page, re.DOTALL)
        assert len(listed(get(client, address(anna, way)))) == 2
        edit = edited(anna, topic, "Cats and dogs")
        assert listed(get(client, address(anna))) == [f"edit-{edit.pk}"]
        assert len(listed(get(client, address(anna, f"?q=Topic:{topic.pk}")))) == 2

    def test_what_lies_between_two_pages_is_folded_on_the_older_one(
        self, anna: ChatUser, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rerankui.history.history.PAGE_SIZE", 1)
        first = edited(anna, talk(anna, ("Cats", ["A cat?"]))[0], "Lions")
        talk(anna, ("Dogs", ["A dog?"]))
        second = edited(anna, Topic.objects.get(summary="Dogs"), "Wolves")
        newest = get(client, address(anna))
        assert (listed(newest), newest.count('class="folded"')) == ([f"edit-{second.pk}"], 0)
        oldest = get(client, address(anna, link(newest, "next") or ""))
        assert (listed(oldest), oldest.count('class="folded"')) == ([f"edit-{first.pk}"], 2)

    def test_a_merge_is_shown_beside_each_of_its_sources(self, anna: ChatUser, client: Client) -> None:
        cats, dogs = talk(anna, ("Cats eat fish", ["A cat?"]), ("Dogs eat bones", ["A dog?"]))
        change = curation.plan_merge(anna, [cats.pk, dogs.pk], "Cats eat fish and bones")
        curation.swap(anna, change, kind=TopicEdit.Kind.MERGE, actor="ada")
        [entry] = re.findall(r'<div class="reworded">.*?</div>', get(client, address(anna)), re.DOTALL)
        first, second = entry.split('<p class="reworded-label">')[1:]
        assert first.startswith(f"Topic:{cats.pk}<")
        assert "<ins> and bones</ins>" in first
        assert second.startswith(f"Topic:{dogs.pk}<")
        assert "<del>Dogs</del>" in second

    def test_a_move_tells_how_many_messages_changed_their_topic(self, anna: ChatUser, client: Client) -> None:
        long, short = talk(anna, ("Long", [f"message {n}" for n in range(28)]), ("Short", ["a", "b"]))
        ids = list(long.message_set.in_order().values_list("pk", flat=True))
        change = curation.plan_move(anna, ids[:3], short.pk)
        edit = curation.swap(anna, change, kind="move", actor="ada")
        page = get(client, address(anna))
        assert ">3 messages<" in page
        assert "<del>" not in page
        assert "<ins>" not in page
        curation.undo(anna, edit, actor="ada")
        assert get(client, address(anna)).count(">3 messages<") == 2

    @pytest.mark.slow
    def test_it_is_narrowed_by_what_kind_who_when_and_about(self, anna: ChatUser, client: Client) -> None:
        topic = talk(anna, ("Cats", ["A cat?"]))[0]
        dora = Person.objects.create(owner=anna, display_name="Dora")
        change = renamed(anna, dora, "A vet.", actor="bob")
        edit = edited(anna, topic, "Dogs", actor="ada", reason="because")
        only_edit, only_change = [f"edit-{edit.pk}"], [f"change-{change.pk}"]
        tomorrow = (timezone.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
        for query, found in {
            "?noun=person": only_change,
            "?kind=edit&noun=topic": only_edit,
            "?actor=bob": only_change,
            f"?q=Person:{dora.pk}": only_change,
            f"?q=Topic:{curation.put_in(edit)[0].pk}": only_edit,
            "?q=becau": only_edit,
            f"?since={tomorrow}": [],
            f"?until={tomorrow}&actor=ada": only_edit,
            "?actor=nobody": None,
            "?since=never&after=x,y,z": None,
            "?kind=archive": [f"edit-{TopicEdit.objects.get(kind='archive').pk}"],
        }.items():
            shown = listed(get(client, address(anna, query)))
            assert shown == found if found is not None else len(shown) == 2, query

    @pytest.mark.slow
    def test_pages_leave_nothing_out_and_tell_nothing_twice(self, anna: ChatUser, client: Client) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora")
        topic = talk(anna, ("Cats", ["A cat?"]))[0]
        for number in range(30):
            renamed(anna, dora, f"Bio {number}")
            topic = curation.put_in(edited(anna, topic, f"Cats {number}"))[0]
        first = get(client, address(anna))
        rest = get(client, address(anna) + str(link(first, "next")))
        whole = listed(first) + listed(rest)
        assert len(listed(first)) == 50
        assert len(whole) == len(set(whole)) == 60
        assert link(rest, "next") is None
        assert listed(get(client, address(anna) + str(link(rest, "prev")))) == listed(first)

    def test_entries_of_one_moment_are_paged_as_well(self, anna: ChatUser) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora")
        for number in range(4):
            renamed(anna, dora, f"Bio {number}")
        talk(anna, ("Cats", ["A cat?"]), ("Dogs", ["A dog?"]))
        moment = timezone.now()
        KnowledgeEdit.objects.update(at=moment)
        archived = list(TopicEdit.objects.values_list("pk", flat=True))
        cursor, seen = None, []
        while True:
            page = history.page(anna, Narrowing(), 2, after=cursor)
            seen += [entry.cursor for entry in page.entries]
            if not page.has_after:
                break
            cursor = page.entries[-1].cursor
        assert seen == sorted(seen, reverse=True)
        assert len(set(seen)) == len(seen) == 4 + len(archived)
        back = history.page(anna, Narrowing(), 3, before=seen[-1])
        assert [entry.cursor for entry in back.entries] == seen[-4:-1]
        assert (back.has_before, back.has_after) == (True, True)

    @pytest.mark.slow
    def test_a_longer_history_costs_no_more_queries(self, anna: ChatUser, client: Client) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora")
        topic = talk(anna, ("Cats", ["A cat?"]))[0]
        renamed(anna, dora, "A vet.")
        topic = curation.put_in(edited(anna, topic, "Dogs"))[0]
        before = cost(client, address(anna))
        for number in range(8):
            curation.undo(anna, edited(anna, topic, f"Cats {number}"), actor="ada")
            knowledge.undo(anna, renamed(anna, dora, f"Bio {number}"), actor="ada")
        assert cost(client, address(anna)) <= before

    def test_what_was_undone_is_struck_with_by_whom_and_can_be_done_again(self, anna: ChatUser, client: Client) -> None:
        edit = edited(anna, talk(anna, ("Cats", ["A cat?"]))[0], "Dogs")
        back = curation.undo(anna, edit, actor="bob")
        page = get(client, address(anna))
        rows = dict(zip(listed(page), page.split('<li class="entry-row"')[1:], strict=True))
        assert f"edit-{edit.pk}" not in rows, "a change and its undo are one row"
        row = rows[f"edit-{back.pk}"]
        assert "is-undone" in row
        assert "undone by bob" in row
        assert address(anna, f"edits/{edit.pk}/") not in row
        assert "Redo" in row


class TestUndo:
    @pytest.mark.slow
    def test_it_is_looked_at_first_and_done_with_a_reason(self, anna: ChatUser, client: Client) -> None:
        topic = talk(anna, ("Cats", ["A cat?"]))[0]
        before = live(anna)
        edit = edited(anna, topic, "Dogs")
        page = get(client, address(anna, f"edits/{edit.pk}/"))
        assert "Comes back" in page
        assert live(anna)[0][1] == "Dogs"
        answer = client.post(address(anna, f"edits/{edit.pk}/"), {"reason": "wrong"}, follow=True)
        assert live(anna) == before
        made = TopicEdit.objects.get(undoes=edit)
        assert (made.actor, made.reason) == ("cora", "wrong")
        assert "Undone: edited" in answer.content.decode()
        assert "Redo" in answer.content.decode()

    @pytest.mark.slow
    def test_what_stands_on_it_is_named_and_undone_too_when_that_was_seen(self, anna: ChatUser, client: Client) -> None:
        topic = talk(anna, ("Cats", ["A cat?"]))[0]
        before = live(anna)
        edit = edited(anna, topic, "Dogs")
        later = edited(anna, curation.put_in(edit)[0], "Birds", reason="prettier")
        path = address(anna, f"edits/{edit.pk}/")
        page = get(client, path)
        assert "prettier" in page
        assert "1 later change depends on it" in page
        assert client.post(path).status_code == 409
        assert live(anna)[0][1] == "Birds"
        client.post(path, {"seen": f"t{later.pk}"})
        assert live(anna) == before

    def test_what_came_in_between_is_shown_instead_of_undone(self, anna: ChatUser, client: Client) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora")
        change = renamed(anna, dora, "A vet.")
        later = renamed(anna, dora, "A cook.")
        path = address(anna, f"changes/{change.pk}/")
        last = renamed(anna, dora, "A poet.", actor="bob")
        answer = client.post(path, {"seen": f"k{later.pk}"})
        assert answer.status_code == 409
        assert f'value="k{last.pk},k{later.pk}"' in answer.content.decode()
        assert Person.objects.get().bio == "A poet."
        client.post(path, {"seen": f"k{last.pk},k{later.pk}"})
        assert Person.objects.get().bio == ""

    def test_changes_of_other_fields_and_what_was_undone_do_not_stand_in_the_way(self, anna: ChatUser) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora")
        change = renamed(anna, dora, "A vet.")
        later = renamed(anna, dora, "A cook.")
        knowledge.undo(anna, later, actor="ada")
        last = renamed(anna, dora, "A poet.")
        dora.refresh_from_db()
        knowledge.edit(anna, dora, {"username": "dora"}, actor="ada")
        assert knowledge.dependents(change) == [last]
        knowledge.undo_with_dependents(anna, change, actor="ada")
        dora.refresh_from_db()
        assert (dora.bio, dora.username) == ("", "dora")

    @pytest.mark.slow
    def test_archiving_and_what_is_undone_have_no_button(self, anna: ChatUser, client: Client) -> None:
        edit = edited(anna, talk(anna, ("Cats", ["A cat?"]))[0], "Dogs")
        archived = TopicEdit.objects.get(kind="archive")
        assert "Archiving is not undone" in get(client, address(anna, f"edits/{archived.pk}/"))
        curation.undo(anna, edit, actor="bob")
        assert "undone already" in get(client, address(anna, f"edits/{edit.pk}/"))
        assert client.post(address(anna, f"edits/{edit.pk}/")).status_code == 409

    def test_anothers_edit_is_not_there(self, anna: ChatUser, boris: ChatUser, client: Client) -> None:
        edit = edited(boris, talk(boris, ("Cats", ["A cat?"]))[0], "Dogs")
        for owner in (anna, boris):
            assert client.post(address(owner, f"edits/{edit.pk}/")).status_code == 404
        assert live(boris)[0][1] == "Dogs"


class TestRange:
    def seen(self, page: str) -> dict[str, str]:
        return {
            name: re.findall(rf'type="hidden" name="{name}" value="([^"]*)"', page)[-1]
            for name in ("by", "since", "until", "seen")
        }

    @pytest.mark.slow
    def test_all_of_somebodys_changes_are_listed_and_undone_at_once(self, anna: ChatUser, client: Client) -> None:
        cats, dogs = talk(anna, ("Cats", ["A cat?"]), ("Dogs", ["A dog?"]))
        dora = Person.objects.create(owner=anna, display_name="Dora")
        before = live(anna)
        edited(anna, curation.put_in(edited(anna, cats, "Cats 2"))[0], "Cats 3")
        renamed(anna, dora, "A vet.")
        kept = edited(anna, dogs, "Dogs 2", actor="bob")
        path = address(anna, "range/")
        page = get(client, f"{path}?by=ada")
        assert "3 changes would be undone" in page
        assert client.post(path, self.seen(page)).status_code == 302
        assert live(anna)[0] == before[0]
        assert Person.objects.get().bio == ""
        assert curation.in_effect(anna.pk, [kept.pk]) == {kept.pk: True}
        again = get(client, f"{path}?by=cora")
        client.post(path, self.seen(again))
        assert Person.objects.get().bio == "A vet."

    @pytest.mark.slow
    def test_others_edits_on_top_are_named_and_nothing_is_undone(self, anna: ChatUser, client: Client) -> None:
        edit = edited(anna, talk(anna, ("Cats", ["A cat?"]))[0], "Dogs")
        edited(anna, curation.put_in(edit)[0], "Birds", actor="bob", reason="sings")
        page = get(client, address(anna, "range/?by=ada"))
        assert "These changes prevent it" in page
        assert "sings" in page
        data = {"by": "ada", "seen": f"t{edit.pk}"}
        assert client.post(address(anna, "range/"), data).status_code == 409
        assert live(anna)[0][1] == "Birds"

    def test_something_new_is_looked_at_before_it_is_undone(self, anna: ChatUser, client: Client) -> None:
        cats, dogs = talk(anna, ("Cats", ["A cat?"]), ("Dogs", ["A dog?"]))
        edited(anna, cats, "Cats 2")
        sent = self.seen(get(client, address(anna, "range/?by=ada")))
        later = edited(anna, dogs, "Dogs 2")
        sent["until"] = (later.at + timedelta(seconds=1)).isoformat()
        answer = client.post(address(anna, "range/"), sent)
        assert answer.status_code == 409
        assert "check it again" in answer.content.decode()
        assert sorted(summary for _pk, summary in live(anna)) == ["Cats 2", "Dogs 2"]


# An import is withdrawn after a preview with its numbers, and an undo restores it.


class TestWithdraw:
    @pytest.fixture
    def batch(self, anna: ChatUser) -> ImportBatch:
        """An import with a topic of its own, a part of another topic, and a message that is in no topic yet."""
        batch = ImportBatch.objects.create(owner=anna, source="chat.jsonl", format="jsonl", added=4)
        talk(anna, ("Cats", ["A cat?", "Yes"]), ("Dogs", ["A dog?", "Also"]))
        numbers = list(Message.objects.of(anna).in_order().values_list("pk", flat=True))
        Message.objects.filter(pk__in=[*numbers[:2], numbers[2]]).update(batch=batch)
        loose: Any = {"role": "user", "sent_at": timezone.now(), "text": "Later", "content_hash": "-"}
        Message.objects.create(owner=anna, external_id="loose", batch=batch, **loose)
        return batch

    @pytest.mark.slow
    def test_an_import_is_undone_with_its_numbers_first_and_comes_back(
        self, anna: ChatUser, batch: ImportBatch, client: Client
    ) -> None:
        before = live(anna)
        path = f"/memory/{anna.pk}/imports/{batch.pk}/withdraw/"
        page = get(client, path)
        figures = [int(n) for n in re.findall(r"<b>(\d+)</b>", page)]
        assert figures == [4, 1, 1, 1]
        ImportBatch.objects.filter(pk=batch.pk).update(added=30_000)
        assert "brought 30,000 messages" in get(client, path)
        assert live(anna) == before
        assert client.post(path, {"reason": "wrong chat"}).status_code == 302
        assert [summary for _pk, summary in live(anna)] == ["Dogs"]
        assert Message.objects.of(anna).filter(is_withdrawn=True).count() == 4
        assert "has no messages" in get(client, path)
        edit = TopicEdit.objects.get(kind="withdraw")
        client.post(address(anna, f"edits/{edit.pk}/"))
        assert live(anna) == before
        assert Message.objects.of(anna).filter(is_withdrawn=True).count() == 0

    def test_imports_are_listed_with_what_became_of_them(
        self, anna: ChatUser, batch: ImportBatch, client: Client, as_viewer: Client
    ) -> None:
        page = get(client, f"/memory/{anna.pk}/imports/")
        assert "chat.jsonl" in page
        assert f"imports/{batch.pk}/withdraw/" in page
        assert "withdraw/" not in get(as_viewer, f"/memory/{anna.pk}/imports/")
        assert as_viewer.post(f"/memory/{anna.pk}/imports/{batch.pk}/withdraw/").status_code == 403


# Blame: the edit that put each message into a topic, and the one that wrote its summary.


Kind = TopicEdit.Kind


def deeds(topic: Topic) -> list[tuple[str, str]]:
    """Each message of the topic with the kind of the edit that put it in, and who made it."""
    ids = message_ids(topic)
    found = blame(topic).put_in(ids)
    return [(found[number].edit.kind, found[number].edit.actor) for number in ids if found[number].edit]


@pytest.fixture
def talks(anna: ChatUser) -> tuple[Topic, Topic]:
    return topic_of(anna, "Cake", ["a", "b", "c", "d"]), topic_of(anna, "Tea", ["e", "f"], day=1)


def test_a_merge_puts_in_what_the_smaller_topic_gave(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    [party] = put_in(
        swap(anna, plan_merge(anna, [topic.pk for topic in talks]), kind=Kind.MERGE, actor="cora", reason="one party")
    )
    merged = [("archive", "test")] * 4 + [("merge", "cora")] * 2
    assert deeds(party) == merged
    [later] = put_in(swap(anna, plan_edit(anna, party.pk, "A party"), kind="edit", actor="ada"))
    assert deeds(later) == merged, "another summary moves no message"
    versions = blame(later).versions
    assert [(each.summary, each.step.edit.actor) for each in versions if each.step.edit] == [
        ("A party", "ada"),
        (party.summary, "cora"),
        ("Cake", "test"),
    ]
    assert versions[0].before == party.summary


def test_the_larger_part_of_a_split_goes_on_and_the_smaller_begins(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    ids = message_ids(talks[0])
    first, second = put_in(swap(anna, plan_split(anna, talks[0].pk, [ids[3]]), kind="split", actor="cora"))
    assert deeds(first) == [("archive", "test")] * 3
    assert deeds(second) == [("split", "cora")]


def test_a_moved_message_is_of_the_move_and_an_undo_leaves_no_trace(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    cake, tea = talks
    edit = swap(anna, plan_move(anna, message_ids(tea)[:1], cake.pk), kind="move", actor="cora")
    now = next(topic for topic in put_in(edit) if topic.message_count == 5)
    assert deeds(now) == [("archive", "test")] * 4 + [("move", "cora")]
    undo(anna, edit, actor="ada")
    cake.refresh_from_db()
    assert cake.is_live
    assert deeds(cake) == [("archive", "test")] * 4


def test_the_page_names_edits_with_their_reasons_at_a_fixed_cost(
    anna: ChatUser, talks: tuple[Topic, Topic], as_viewer: Client, as_stranger: Client
) -> None:
    [party] = put_in(
        swap(anna, plan_merge(anna, [topic.pk for topic in talks]), kind=Kind.MERGE, actor="cora", reason="one party")
    )
    page = get(as_viewer, f"/topics/{party.pk}/blame/")
    assert "one party" in page
    merge = TopicEdit.objects.get(kind=Kind.MERGE)
    assert f"/memory/{anna.pk}/history/?q=Topic:{party.pk}#edit-{merge.pk}" in page
    assert len(re.findall('class="blame-group"', page)) == 2
    assert f'href="/topics/{party.pk}/blame/"' in get(as_viewer, f"/topics/{party.pk}/")
    before = cost(as_viewer, f"/topics/{party.pk}/blame/")
    for number in range(4):
        [party] = put_in(swap(anna, plan_edit(anna, party.pk, f"Party {number}"), kind="edit", actor="cora"))
    assert cost(as_viewer, f"/topics/{party.pk}/blame/") == before
    assert as_stranger.get(f"/topics/{party.pk}/blame/").status_code == 404


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_closed")
def test_programs_read_the_same(anna: ChatUser, talks: tuple[Topic, Topic]) -> None:
    cake, tea = talks
    [party] = put_in(swap(anna, plan_merge(anna, [cake.pk, tea.pk]), kind=Kind.MERGE, actor="cora", reason="one party"))
    answer = Program(token_for(anna, scopes=("read",))).get(f"/v1/topics/{party.pk}/blame").json()
    assert [message["edit"]["kind"] for message in answer["messages"]] == ["archive"] * 4 + ["merge"] * 2
    assert answer["messages"][-1]["edit"]["reason"] == "one party"
    assert [each["summary"] for each in answer["summaries"]] == [party.summary, "Cake"]
