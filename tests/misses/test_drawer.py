"""What is lost can be put right in the drawer of a candidate: edited, pinned, and the run forked, by plain buttons."""

import pytest
from django.test import Client

from memoryapp.models import ChatUser, Person, Role, Topic
from memoryapp.search import items
from tests.conftest import operator, signed_in
from tests.misses.forgetful import forgetful, missed

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def owner() -> ChatUser:
    owner = forgetful()
    Person.objects.create(owner=owner, display_name="Dr Sokolova", bio="The dentist.")
    items.refresh(owner)
    return owner


def test_a_topic_is_edited_and_pinned_in_the_drawer_and_the_run_stays_open(owner: ChatUser, as_admin: Client) -> None:
    run = missed(owner).run
    assert run
    topic = Topic.objects.get(summary__startswith="Winter")
    drawer = as_admin.get(f"/runs/{run.pk}/topics/{topic.pk}/", headers=HTMX).content.decode()
    for button in ("Edit", "Pin it", "Fork the run"):
        assert button in drawer
    assert topic.summary in drawer
    back = {"next": f"/runs/{run.pk}/"}
    answer = as_admin.post(f"/memory/{owner.pk}/how/topic/{topic.pk}/", {"recall": "pinned", **back})
    assert (answer.status_code, answer.url) == (302, f"/runs/{run.pk}/")
    assert "Recall as usual" in as_admin.get(f"/runs/{run.pk}/topics/{topic.pk}/", headers=HTMX).content.decode()
    sent = {"op": "edit", "topics": str(topic.pk), "summary": "The dentist on Thursday", "commit": "1", **back}
    answer = as_admin.post(f"/memory/{owner.pk}/change/", sent)
    assert (answer.status_code, answer.url) == (302, f"/runs/{run.pk}/")
    retired = as_admin.get(f"/runs/{run.pk}/topics/{topic.pk}/", headers=HTMX).content.decode()
    assert "Pin it" not in retired, "an earlier topic is not changed any more"
    assert "Fork the run" in retired


def test_a_person_is_edited_and_pinned_in_the_drawer(owner: ChatUser, as_admin: Client) -> None:
    run = missed(owner, "When does Dr Sokolova see me?").run
    assert run
    person = Person.objects.get()
    drawer = as_admin.get(f"/runs/{run.pk}/items/Person:{person.pk}/", headers=HTMX).content.decode()
    assert f"/memory/{owner.pk}/people/{person.pk}/edit/" in drawer
    assert "Pin it" in drawer


def test_who_may_only_look_gets_no_button_that_changes(owner: ChatUser) -> None:
    run = missed(owner).run
    assert run
    vera = signed_in(operator("vera", Role.VIEWER, owner))
    topic = Topic.objects.get(summary__startswith="Winter")
    drawer = vera.get(f"/runs/{run.pk}/topics/{topic.pk}/", headers=HTMX).content.decode()
    assert "Pin it" not in drawer
    assert 'name="commit"' not in drawer


def test_nobody_is_led_to_another_site(owner: ChatUser, as_admin: Client) -> None:
    topic = Topic.objects.get(summary__startswith="Winter")
    sent = {"recall": "pinned", "next": "https://evil.example/"}
    assert as_admin.post(f"/memory/{owner.pk}/how/topic/{topic.pk}/", sent).url == f"/topics/{topic.pk}/"
