"""Invariant of a memory's life: whatever the program does by itself, in any order, no word of a person is lost. Random
passes of every automatic stage run between a person's changes, with models that answer well, oddly, with invalid text
or not at all."""

from typing import ClassVar

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from memoryapp.intake.invariants import violations
from memoryapp.models import ChatUser, Message, TopicMessage
from tests.examples import examples
from tests.life.world import DEEDS, DEEDS_MORE, PASSES, World

pytestmark = pytest.mark.slow

STEP = st.one_of(
    st.tuples(st.sampled_from(PASSES), st.integers(0, 9_999)),
    st.tuples(st.sampled_from(PASSES), st.integers(0, 9_999)),
    st.tuples(st.sampled_from(DEEDS + DEEDS_MORE), st.integers(0, 9_999)),
)
FIRST = (("import", 7), ("import", 8), ("archive", 5), ("re-embed", 1), ("consolidate", 3), ("extract", 4))
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def lived(steps: list[tuple[str, int]]) -> World:
    """Returns a memory after these steps; the world checks after each what no pass may do."""
    owner = ChatUser.objects.create(name="anna", consolidation="automatic", extraction="automatic")
    world = World(owner)
    for what, number in (*FIRST, *steps):
        world.step(what, number)
    listed = TopicMessage.objects.filter(owner=owner, topic__is_live=True).values_list("message", "topic")
    assert dict(listed) == {message: topic for message, topic in world.words().where.items() if topic}
    assert listed.count() == len(dict(listed))
    assert Message.objects.of(owner).values("external_id").distinct().count() == world.records
    assert list(violations(owner)) == []
    return world


@override_settings(CONSOLIDATION_SIMILARITY_THRESHOLD=0.8)
class TestLife(TestCase):
    @given(st.lists(STEP, min_size=3, max_size=8))
    @settings(max_examples=examples(24), deadline=None, suppress_health_check=CHECKS)
    def test_no_pass_loses_a_human_word(self, steps: list[tuple[str, int]]) -> None:
        lived(steps)


@pytest.mark.thorough
@override_settings(CONSOLIDATION_SIMILARITY_THRESHOLD=0.8)
class TestLongLife(TestCase):
    passes: ClassVar[int] = 0

    @given(st.lists(STEP, min_size=20, max_size=40))
    @settings(max_examples=420, deadline=None, database=None, suppress_health_check=CHECKS)
    def _live(self, steps: list[tuple[str, int]]) -> None:
        type(self).passes += lived(steps).passes

    def test_ten_thousand_passes_lose_no_human_word(self) -> None:
        self._live()
        assert self.passes >= 10_000
