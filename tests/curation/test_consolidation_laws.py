"""Invariants of consolidation under random passes between people's changes. Whatever a model answers and whoever edits
meanwhile, the live topics partition the messages, every summary that a person wrote stays until a person changes it,
and undoing all that the merger did restores the topics of before."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp import curation
from memoryapp.curation import MERGER, CurationError, history, suggestions
from memoryapp.curation.suggestions.consolidation import consolidate
from memoryapp.engine.agents.ask import UnreadableAnswer
from memoryapp.engine.chat.protocol import LLMError
from memoryapp.intake.invariants import violations
from memoryapp.models import AgentCall, ChatUser, Message, Suggestion, Topic, TopicEdit, TopicMessage, TopicVector
from tests.conftest import talk
from tests.curation.merger_passes import Merger, rested, verdict
from tests.curation.placed_topics import place
from tests.examples import examples

pytestmark = pytest.mark.slow

Mode = ChatUser.Consolidation
ANGLES = 8
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pass", "pass", "pass", "edit", "merge", "split", "undo", "never", "mode"]), st.integers(0, 40)
    ),
    min_size=1,
    max_size=8,
)


def partition(owner: ChatUser) -> dict[int, int | None]:
    return dict(Message.objects.of(owner).values_list("pk", "topic"))


def by_hand(owner: ChatUser) -> dict[int, str]:
    """Returns the live topics that people wrote, with their summaries."""
    return dict(Topic.objects.of(owner).live().filter(locked_by_hand=True).values_list("pk", "summary"))


class World:
    """A memory whose topics are near each other, and a model whose behaviour changes."""

    def __init__(self, owner: ChatUser, random: Random) -> None:
        self.owner, self.random = owner, random
        self.merger = Merger(self.answer)

    def answer(self, question: str) -> str:
        mood = self.random.choice(["yes", "yes", "yes", "no", "rubbish", "away"])
        if mood == "away":
            raise LLMError("away")
        return {"yes": verdict(summary=f"question {len(question)}"), "no": verdict(should_merge=False)}.get(mood, "?")

    def live(self) -> list[Topic]:
        return list(Topic.objects.of(self.owner).live().order_by("pk"))

    def place_all(self) -> None:
        """Makes vectors for topics that have none yet, in a few directions."""
        placed = TopicVector.objects.filter(owner=self.owner).values("topic")
        for topic in Topic.objects.of(self.owner).live().exclude(pk__in=placed):
            place(topic, 4 * (topic.pk % ANGLES))

    def step(self, what: str, number: int) -> None:
        topics = self.live()
        topic = topics[number % len(topics)]
        match what:
            case "pass":
                self.do_pass()
            case "edit":
                self.swap("edit", curation.plan_edit(self.owner, topic.pk, f"by hand {number}"))
            case "merge":
                pair = [topic.pk, topics[(number + 1) % len(topics)].pk]
                self.swap(TopicEdit.Kind.MERGE, curation.plan_merge(self.owner, pair, f"merged by hand {number}"))
            case "split":
                second = list(TopicMessage.objects.filter(topic=topic).order_by("message").values_list("message"))[1:2]
                at = [message for (message,) in second]
                self.swap("split", curation.plan_split(self.owner, topic.pk, at, ["half", "other half"]))
            case "undo":
                edits = list(TopicEdit.objects.filter(owner=self.owner).exclude(kind="archive").order_by("-pk")[:5])
                if edits:
                    curation.undo(self.owner, edits[number % len(edits)], actor="ada")
            case "never":
                self.never(number)
            case "mode":
                self.owner.consolidation = list(Mode)[number % 3]
                self.owner.save(update_fields=["consolidation"])

    def swap(self, kind: TopicEdit.Kind, change: curation.Change) -> None:
        curation.swap(self.owner, change, kind=kind, actor="ada")

    def never(self, number: int) -> None:
        found = list(suggestions.opened(self.owner).filter(kind="merge"))
        if found:
            suggestions.decide(found[number % len(found)], Suggestion.State.NEVER, actor="ada")

    def do_pass(self) -> None:
        """Runs one automatic pass, which must not change what people wrote."""
        mine, first = by_hand(self.owner), TopicEdit.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        apart = self.kept_apart()
        self.place_all()
        suggestions.suggest(self.owner)
        try:
            consolidate(self.owner, self.merger.open)
        except (LLMError, UnreadableAnswer):
            rested()
        assert by_hand(self.owner) == mine
        made = TopicEdit.objects.filter(owner=self.owner, pk__gt=first)
        assert set(made.values_list("actor", "kind")) <= {(MERGER, "merge")}
        assert not made.filter(reason="").exists()
        assert not made.filter(call=None).exists()
        where = partition(self.owner)
        assert not any(where[one] == where[other] for one, other in apart)

    def kept_apart(self) -> list[tuple[int, int]]:
        """Returns the messages of pairs of topics whose merge a person rejected, and which are separate now."""
        where, found = partition(self.owner), []
        rejected = Suggestion.objects.filter(owner=self.owner, kind="merge", state="never")
        for one, other in rejected.values_list("topics__0", "topics__1"):
            sides = [
                list(TopicMessage.objects.filter(topic=side).values_list("message", flat=True)) for side in (one, other)
            ]
            found += [(a, b) for a in sides[0] for b in sides[1] if where[a] != where[b]]
        return found

    def check(self) -> None:
        listed = TopicMessage.objects.filter(owner=self.owner, topic__is_live=True)
        assert dict(listed.values_list("message", "topic")) == partition(self.owner)


def live_through(world: World, steps: list[tuple[str, int]]) -> None:
    for what, number in steps:
        try:
            with transaction.atomic():
                world.step(what, number)
        except CurationError:
            continue
        finally:
            world.check()


def lead_home(world: World) -> None:
    """Runs passes for one night over what people left, and undoes all of it."""
    world.owner.consolidation = Mode.AUTOMATIC
    world.owner.save(update_fields=["consolidation"])
    before, since = partition(world.owner), timezone.now()
    for _ in range(3):
        world.do_pass()
        world.check()
    made = TopicEdit.objects.filter(owner=world.owner, actor=MERGER, at__gte=since).count()
    if made:
        history.undo_between(world.owner, MERGER, since, timezone.now(), actor="ada")
    assert partition(world.owner) == before


@pytest.fixture
def memory(anna: ChatUser) -> Callable[[Random], World]:
    """Sixteen messages in eight topics that are all near each other."""
    talk(anna, *((f"Topic {number}", [f"question {number}", f"answer {number}"]) for number in range(8)))
    return lambda random: World(anna, random)


def go(memory: Callable[[Random], World], steps: list[tuple[str, int]], random: Random) -> None:
    point = transaction.savepoint()
    try:
        world = memory(random)
        world.owner.refresh_from_db()
        live_through(world, [("mode", 0), *steps])
        lead_home(world)
        calls = AgentCall.objects.filter(owner=world.owner, outcome="")
        assert len(set(calls.values_list("key", flat=True))) == calls.count()
        assert list(violations()) == []
    finally:
        transaction.savepoint_rollback(point)


ANYTHING: dict[str, Any] = {"steps": STEPS, "random": st.randoms(use_true_random=False)}
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(**ANYTHING)
@settings(max_examples=examples(12), deadline=None, database=None, suppress_health_check=CHECKS)
def test_passes_lose_no_human_word_and_undoing_them_leads_home(
    memory: Callable[[Random], World], steps: list[tuple[str, int]], random: Random
) -> None:
    go(memory, steps, random)


@pytest.mark.thorough
@given(**ANYTHING)
@settings(max_examples=2_000, deadline=None, database=None, suppress_health_check=CHECKS)
def test_many_more_passes_do_so_too(
    memory: Callable[[Random], World], steps: list[tuple[str, int]], random: Random
) -> None:
    go(memory, steps, random)
