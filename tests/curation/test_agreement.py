"""Merges and splits never contradict each other: what one would undo, the other does not suggest."""

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp import curation
from memoryapp.curation import suggestions
from memoryapp.models import ChatUser, Message, Passage, PassageVector, Topic
from tests.conftest import talk
from tests.curation.placed_topics import place, profile, turned, two_subjects

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def scale(settings: Any) -> None:
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.8


def spoken(owner: ChatUser, angles: list[float], name: str) -> Topic:
    """A topic of an exchange in each direction; its vector is their mean, as search makes it."""
    [topic] = talk(owner, (name, [f"{name} {n}" for n in range(2 * len(angles))]))
    passages = Passage.objects.filter(messages__topic=topic).distinct().order_by("pk")
    assert len(passages) == len(angles)
    for passage, degrees in zip(passages, angles, strict=True):
        PassageVector.objects.create(
            owner=owner, passage=passage, profile=profile(), dimensions=2, vector=turned(degrees)
        )
    place(topic, sum(angles) / len(angles))
    return topic


def test_what_the_splitter_would_cut_is_not_suggested_as_one(anna: ChatUser) -> None:
    both = [0.0] * 6 + [100.0] * 6
    one, other = spoken(anna, both, "one"), spoken(anna, both, "other")
    place(talk(anna, ("Far", ["a", "b"]))[0], 170)
    suggestions.suggest(anna)
    found = {(each.kind, *each.topics) for each in suggestions.opened(anna)}
    assert found == {("split", one.pk), ("split", other.pk)}


def test_what_a_split_took_apart_is_not_suggested_as_one_even_reworded(anna: ChatUser, settings: Any) -> None:
    settings.SPLIT_THRESHOLD_CHARS = 150
    topic = two_subjects(anna, 0, 10)
    change = curation.plan_split(
        anna, topic.pk, [list(Message.objects.filter(topic=topic).in_order().values_list("pk", flat=True))[8]]
    )
    one, other = curation.put_in(curation.swap(anna, change, kind="split", actor="ada"))
    place(one, 0)
    place(other, 10)
    settings.SPLIT_THRESHOLD_CHARS = 25_000
    suggestions.suggest(anna)
    assert not suggestions.opened(anna)
    [new] = curation.put_in(
        curation.swap(anna, curation.plan_edit(anna, one.pk, "Another wording"), kind="edit", actor="ada")
    )
    place(new, 0)
    suggestions.suggest(anna)
    assert not suggestions.opened(anna)


number_of = count()
angles = st.lists(st.sampled_from([0.0, 20.0, 40.0, 80.0, 120.0]), min_size=6, max_size=14)


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(angles, min_size=2, max_size=4))
def test_no_suggestion_undoes_another(talks: list[list[float]]) -> None:
    owner = ChatUser.objects.create(name=f"talker {next(number_of)}")
    for number, own in enumerate(talks):
        spoken(owner, own, f"talk {number}")
    suggestions.suggest(owner)
    found = list(suggestions.opened(owner))
    cut = {each.topics[0] for each in found if each.kind == "split"}
    assert not any(cut & set(each.topics) for each in found if each.kind == "merge")
    for each in found[:1]:
        is_split = each.kind == "split"
        plan = curation.plan_split(owner, each.topics[0], each.evidence["at"]) if is_split else None
        edit = curation.swap(
            owner, plan or curation.plan_merge(owner, each.topics, "Both"), kind=str(each.kind), actor="ada"
        )
        made = curation.put_in(edit)
        for topic in made:
            place(topic, 0.0)
        suggestions.suggest(owner)
        assert not any({topic.pk for topic in made} == set(again.topics) for again in suggestions.opened(owner))
