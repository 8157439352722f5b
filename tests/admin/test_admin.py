"""Django's administration makes accounts and shows rows; what people curate it only shows."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client

from memoryapp.curation import knowledge
from memoryapp.models import ApiToken, Artifact, ChatUser, Fact, Operator, Person, Prompt, Topic, TopicEdit
from memoryapp.platform.accounts import tokens
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


class TestWhatIsOnlyShown:
    @pytest.mark.slow
    def test_every_table_is_listed_and_searched_except_the_keys_of_the_browsers(self, client: Client) -> None:
        models = apps.get_app_config("memoryapp").get_models()
        addresses = {model.__name__: f"{BASE}/{model._meta.model_name}/?q=7" for model in models}
        answers = {name: client.get(address).status_code for name, address in addresses.items()}
        assert {name for name, status in answers.items() if status != 200} == {"LoginSession", "UnmaskedText"}

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

    @pytest.mark.slow
    def test_rows_that_people_curate_are_shown_and_lead_to_where_that_is_done(
        self, anna: ChatUser, topics: list[Topic], client: Client
    ) -> None:
        person = Person.objects.create(owner=anna, display_name="Dora")
        fact = Fact.objects.create(owner=anna, content="Tea", importance=5, created_at=BEGAN)
        artifact = Artifact.objects.create(
            owner=anna, name="a.pdf", file_type="pdf", sha256="0" * 64, created_at=BEGAN, size_bytes=7
        )
        changed = knowledge.edit(anna, person, {"bio": "A vet."}, actor="ada")
        edit, memory = TopicEdit.objects.earliest("pk"), f"/memory/{anna.pk}"
        pages = {
            f"topic/{topics[0].pk}": f"/topics/{topics[0].pk}/",
            f"topicedit/{edit.pk}": f"{memory}/history/edits/{edit.pk}/",
            f"person/{person.pk}": f"{memory}/people/{person.pk}/",
            f"fact/{fact.pk}": f"{memory}/facts/{fact.pk}/",
            f"artifact/{artifact.pk}": f"{memory}/artifacts/{artifact.pk}/",
            f"knowledgeedit/{changed.pk}": f"{memory}/history/changes/{changed.pk}/",
        }
        for row, page in pages.items():
            address = f"{BASE}/{row}/change/"
            shown = page_text(client.get(address))
            assert f'<a href="{page}" class="viewsitelink">' in shown
            assert 'name="_save"' not in shown
            assert client.get(page).status_code == 200
            assert client.post(address, {"summary": "Raw", "display_name": "Raw", "name": "Raw"}).status_code == 403
            assert client.post(f"{BASE}/{row}/delete/", {"post": "yes"}).status_code == 403
            assert client.get(f"{BASE}/{row.partition('/')[0]}/add/").status_code == 403
            assert 'name="action"' not in page_text(client.get(f"{BASE}/{row.partition('/')[0]}/"))
