"""Django's administration changes topics, people, facts and artifacts through the domain's functions, and shows
refusals as sentences."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin as administration
from django.contrib.auth.models import User
from django.test import Client

from memoryapp import curation
from memoryapp.accounts import tokens
from memoryapp.models import (
    ApiToken,
    Artifact,
    ChatUser,
    Fact,
    KnowledgeEdit,
    Operator,
    Person,
    Prompt,
    Topic,
    TopicEdit,
)
from tests.conftest import BEGAN, signed_in, talk

BASE = "/admin/memoryapp"
PASSWORD = "a-long-enough-word"


@pytest.fixture
def client(db: None) -> Client:
    made = Client()
    made.force_login(User.objects.create_superuser("root", password=PASSWORD))
    return made


def page_text(answer: Any) -> str:
    return answer.content.decode()


def act(client: Client, model: str, action: str, *rows: Any) -> str:
    data = {"action": action, "_selected_action": [row.pk for row in rows]}
    return page_text(client.post(f"{BASE}/{model}/", data, follow=True))


def summaries(owner: ChatUser) -> list[str]:
    return sorted(Topic.objects.of(owner).live().values_list("summary", flat=True))


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, ("Cats", ["A cat?", "Yes"]), ("Dogs", ["A dog?", "No"]))


class TestAccounts:
    @pytest.mark.parametrize("role", ["viewer", "curator"])
    def test_a_new_account_gets_the_role_that_its_page_shows(self, admin: Operator, role: str) -> None:
        """The form selects the first role; the account gets it if nobody selects another one."""
        client, address = signed_in(admin), "/admin/auth/user/add/"
        assert '<option value="viewer" selected>' in page_text(client.get(address))
        account = {"username": "nina", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
        rows = {"operator-TOTAL_FORMS": 1, "operator-INITIAL_FORMS": 0, "operator-0-role": role}
        client.post(address, account | rows)
        assert Operator.objects.get(user__username="nina").role == role

    def test_an_account_that_is_no_operator_stays_none_when_it_is_saved(self, admin: Operator) -> None:
        user = User.objects.create_user("nina", password=PASSWORD)
        rows = {"operator-TOTAL_FORMS": 1, "operator-INITIAL_FORMS": 0, "operator-0-role": "viewer"}
        rows |= {"operator-0-user": user.pk, "username": "nina", "is_active": "on"}
        rows |= {"date_joined_0": "2026-03-02", "date_joined_1": "09:00:00"}
        signed_in(admin).post(f"/admin/auth/user/{user.pk}/change/", rows | {"first_name": "Nina"})
        user.refresh_from_db()
        assert (user.first_name, Operator.objects.filter(user=user).exists()) == ("Nina", False)


class TestTopics:
    def test_a_summary_is_changed_by_a_swap_that_can_be_undone(
        self, anna: ChatUser, topics: list[Topic], client: Client
    ) -> None:
        address = f"{BASE}/topic/{topics[0].pk}/change/"
        assert 'name="summary"' in page_text(client.get(address))
        answer = client.post(address, {"summary": "Cats of Anna", "reason": "whose"}, follow=True)
        assert f"Topic:{topics[0].pk} was replaced by" in page_text(answer)
        assert summaries(anna) == ["Cats of Anna", "Dogs"]
        edit = TopicEdit.objects.get(kind="edit")
        assert (edit.actor, edit.reason) == ("root", "whose")
        act(client, "topicedit", "undo", edit)
        assert summaries(anna) == ["Cats", "Dogs"]

    def test_a_text_that_cannot_be_is_refused_and_kept(
        self, anna: ChatUser, topics: list[Topic], client: Client
    ) -> None:
        answer = client.post(f"{BASE}/topic/{topics[0].pk}/change/", {"summary": "long " * 1000, "reason": ""})
        assert answer.status_code == 200
        assert "has at most" in page_text(answer)
        assert "long long" in page_text(answer)
        assert summaries(anna) == ["Cats", "Dogs"]

    def test_a_retired_topic_is_only_read(self, anna: ChatUser, topics: list[Topic], client: Client) -> None:
        curation.swap(anna, curation.plan_edit(anna, topics[0].pk, "Cats 2"), kind=TopicEdit.Kind.EDIT, actor="ada")
        address = f"{BASE}/topic/{topics[0].pk}/change/"
        assert 'name="summary"' not in page_text(client.get(address))
        assert client.post(address, {"summary": "Cats 3"}).status_code == 403

    def test_topics_are_merged_and_their_last_edit_undone(
        self, anna: ChatUser, topics: list[Topic], client: Client
    ) -> None:
        assert "Merged 2 topics into" in act(client, "topic", "merge_selected", *topics)
        assert summaries(anna) == ["Cats; Dogs"]
        act(client, "topic", "undo_last_edit", Topic.objects.live().get())
        assert summaries(anna) == ["Cats", "Dogs"]

    def test_topics_of_two_chat_users_are_not_merged(
        self, anna: ChatUser, boris: ChatUser, topics: list[Topic], client: Client
    ) -> None:
        theirs = talk(boris, ("Birds", ["A bird?"]))[0]
        assert "several chat users" in act(client, "topic", "merge_selected", topics[0], theirs)
        assert "at least two" in act(client, "topic", "merge_selected", topics[0])
        assert summaries(anna) == ["Cats", "Dogs"]

    @pytest.mark.slow
    def test_a_long_topic_is_split_anew_and_a_short_one_left(
        self, anna: ChatUser, topics: list[Topic], client: Client, settings: Any
    ) -> None:
        settings.SPLIT_THRESHOLD_CHARS = 1000
        cats = [f"My cat number {n} eats fish and sleeps on the warm stove all day long." * 3 for n in range(8)]
        cars = [f"Engine {n} of the car needs oil, a belt and two new spark plugs soon." * 3 for n in range(8)]
        long = talk(anna, ("Cats and cars", cats + cars))[0]
        page = act(client, "topic", "split_anew", long, topics[0])
        assert f"Topic:{long.pk} was split into" in page
        assert "would leave it whole" in page
        assert TopicEdit.objects.get(kind="resplit").actor == "root"

    @pytest.mark.slow
    def test_an_undo_that_something_stands_on_is_refused_with_a_sentence(
        self, anna: ChatUser, topics: list[Topic], client: Client
    ) -> None:
        change = curation.plan_edit(anna, topics[0].pk, "Cats 2")
        first = curation.swap(anna, change, kind=TopicEdit.Kind.EDIT, actor="ada")
        again = curation.plan_edit(anna, curation.put_in(first)[0].pk, "Cats 3")
        second = curation.swap(anna, again, kind=TopicEdit.Kind.EDIT, actor="ada")
        assert "undone first" in act(client, "topicedit", "undo", first)
        assert summaries(anna) == ["Cats 3", "Dogs"]
        act(client, "topicedit", "undo", first, second)
        assert summaries(anna) == ["Cats", "Dogs"]
        archived = TopicEdit.objects.filter(kind="archive")[0]
        assert "Archiving is not undone" in act(client, "topicedit", "undo", archived)

    def test_a_raw_write_is_refused_by_the_database_with_a_sentence(
        self, anna: ChatUser, topics: list[Topic], client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = administration.site.get_model_admin(Topic)
        monkeypatch.setattr(page, "save_model", lambda request, obj, form, change: obj.save())
        answer = client.post(f"{BASE}/topic/{topics[0].pk}/change/", {"summary": "Raw", "reason": ""}, follow=True)
        assert answer.status_code == 200
        assert "never changes in what it says" in page_text(answer)
        assert summaries(anna) == ["Cats", "Dogs"]


class TestKnowledge:
    @pytest.mark.slow
    def test_a_person_is_added_edited_and_deleted_with_history(self, anna: ChatUser, client: Client) -> None:
        sent = {"owner": anna.pk, "display_name": "Dora", "aliases": "[]", "circle": "Other", "bio": "", "username": ""}
        client.post(f"{BASE}/person/add/", sent)
        dora = Person.objects.get()
        client.post(f"{BASE}/person/{dora.pk}/change/", {**sent, "bio": "A vet.", "aliases": '["Dorotea"]'})
        dora.refresh_from_db()
        assert (dora.bio, dora.aliases) == ("A vet.", ["Dorotea"])
        client.post(f"{BASE}/person/{dora.pk}/delete/", {"post": "yes"})
        assert not Person.objects.exists()
        kinds = list(KnowledgeEdit.objects.order_by("pk").values_list("kind", "actor"))
        assert kinds == [("create", "root"), ("edit", "root"), ("delete", "root")]
        act(client, "knowledgeedit", "undo", KnowledgeEdit.objects.get(kind="delete"))
        assert Person.objects.get().bio == "A vet."

    @pytest.mark.slow
    def test_what_cannot_be_is_refused_in_the_form(self, anna: ChatUser, client: Client) -> None:
        dora = Person.objects.create(owner=anna, display_name="Dora")
        sent = {"display_name": "Dora", "aliases": '{"a": 1}', "circle": "Other", "bio": "", "username": ""}
        address = f"{BASE}/person/{dora.pk}/change/"
        assert "list of texts" in page_text(client.post(address, sent))
        assert Person.objects.filter(display_name="Dora").exists()
        assert not KnowledgeEdit.objects.exists()

    @pytest.mark.slow
    def test_people_are_merged_and_several_deleted_each_with_its_undo(self, anna: ChatUser, client: Client) -> None:
        one = Person.objects.create(owner=anna, display_name="Dora", mention_count=2)
        two = Person.objects.create(owner=anna, display_name="Dorotea", mention_count=3)
        assert "Merged 1 person into Dorotea" in act(client, "person", "merge_selected", one, two)
        assert Person.objects.get().aliases == ["Dora"]
        act(client, "knowledgeedit", "undo", KnowledgeEdit.objects.get())
        data = {"action": "delete_selected", "_selected_action": [one.pk, two.pk], "post": "yes"}
        client.post(f"{BASE}/person/", data)
        assert not Person.objects.exists()
        assert KnowledgeEdit.objects.filter(kind="delete").count() == 2

    def test_facts_and_artifacts_keep_what_nobody_edits(self, anna: ChatUser, client: Client) -> None:
        artifact = Artifact.objects.create(
            owner=anna, name="a.pdf", file_type="pdf", sha256="0" * 64, created_at=BEGAN, size_bytes=7
        )
        assert client.get(f"{BASE}/artifact/add/").status_code == 403
        lists = {"keywords": '["invoice"]', "entities": "[]", "rag_hints": "[]"}
        client.post(
            f"{BASE}/artifact/{artifact.pk}/change/", {"name": "b.pdf", "summary": "", "size_bytes": 9, **lists}
        )
        artifact.refresh_from_db()
        assert (artifact.name, artifact.size_bytes, artifact.keywords) == ("b.pdf", 7, ["invoice"])
        sent = {"relation": "likes", "category": "food", "content": "Tea", "type": "status", "importance": 5}
        client.post(f"{BASE}/fact/add/", {"owner": anna.pk, **sent})
        assert Fact.objects.get().content == "Tea"
        assert KnowledgeEdit.objects.count() == 2


class TestWhatIsOnlyShown:
    def test_the_list_of_tokens_says_how_one_is_made_while_there_is_none(self, client: Client) -> None:
        assert "manage.py create_token" in page_text(client.get(f"{BASE}/apitoken/"))
        russian = page_text(client.get(f"{BASE}/apitoken/", headers={"accept-language": "ru"}))
        assert "Токен создаёт команда" in russian
        assert "0 токены" not in russian
        tokens.make("bot", [ApiToken.Scope.READ])
        assert "manage.py create_token" not in page_text(client.get(f"{BASE}/apitoken/"))
        assert "manage.py create_token" not in page_text(client.get(f"{BASE}/apitoken/?q=nobody"))

    def test_the_list_of_prompts_says_who_put_them_in_force_and_when(self, client: Client) -> None:
        Prompt.objects.create(
            name="rerank", language="en", version=1, made_by="ada", in_force=True, forced_by="grace", forced_at=BEGAN
        )
        page = page_text(client.get(f"{BASE}/prompt/"))
        assert "grace" in page
        assert "column-forced_at" in page

    @pytest.mark.parametrize(("language", "words"), [("en", "Topics: 2"), ("ru", "Топики: 2")])
    @pytest.mark.usefixtures("topics")
    def test_the_number_of_rows_agrees_with_their_name(self, client: Client, language: str, words: str) -> None:
        page = page_text(client.get(f"{BASE}/topic/", headers={"accept-language": language}))
        assert words in page.split('class="paginator"')[1].split("</p>")[0]
        assert f"{words[:-1]}0" in page_text(
            client.get(f"{BASE}/topic/?q=zebra", headers={"accept-language": language})
        )

    @pytest.mark.parametrize("model", ["prompt", "run", "person", "suggestion"])
    def test_an_empty_list_counts_in_good_russian(self, client: Client, model: str) -> None:
        page = page_text(client.get(f"{BASE}/{model}/", headers={"accept-language": "ru"}))
        assert re.search(r"[А-Я][а-я ]+: 0", page.split('class="paginator"')[1].split("</p>")[0])
