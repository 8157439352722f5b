"""Invariants of curation under any sequence of changes, also from pages that were rendered earlier.

The model is a partition in plain Python. After each step the memory equals the model, a refused change has changed
nothing, and old topics lead to where their messages are. At the end everything is undone in some allowed order, which
restores the beginning."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp import curation
from memoryapp.curation import Change, CurationError, Depends, Stale
from memoryapp.engine.memory import TopicDraft
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, ImportBatch, Message, TopicEdit
from memoryapp.models.topic import edit_kinds
from tests.conftest import record, talk

pytestmark = pytest.mark.slow

Kind = TopicEdit.Kind
Plan = tuple[Kind, Change]

# Everything that a page could show of the live topics, and where every message is.
SNAPSHOT = """
SELECT 'topic', t.id, t.summary, t.locked_by_hand, t.message_count, t.size_chars, t.started_at, t.ended_at,
       t.facts_extracted, t.is_consolidated, array_agg(tm.message_id ORDER BY tm.message_id)
FROM memoryapp_topic t JOIN memoryapp_topicmessage tm ON tm.topic_id = t.id
WHERE t.owner_id = %(owner)s AND t.is_live GROUP BY t.id
UNION ALL
SELECT 'message', m.id, m.text, m.is_withdrawn, m.topic_id, NULL, m.sent_at, NULL, NULL, NULL, NULL
FROM memoryapp_message m WHERE m.owner_id = %(owner)s
ORDER BY 1, 2
"""
SIDES = """
SELECT side.side, side.topic_id, array_agg(tm.message_id) FROM memoryapp_editedtopic side
JOIN memoryapp_topicmessage tm ON tm.topic_id = side.topic_id
WHERE side.edit_id = %s GROUP BY side.side, side.topic_id ORDER BY side.topic_id
"""
HISTORY = "SELECT count(*) FROM memoryapp_topicedit WHERE owner_id = %s"


def fetch(query: str, values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@dataclass
class World:
    """A memory and its model: ``live`` maps each live topic to its messages, ``ever`` does so for all topics there ever
    were."""

    owner: ChatUser
    batch: ImportBatch
    imported: frozenset[int]
    random: Random
    archived: int
    live: dict[int, frozenset[int]] = field(default_factory=dict)
    ever: dict[int, frozenset[int]] = field(default_factory=dict)
    edits: list[TopicEdit] = field(default_factory=list)
    drawn: list[Plan] = field(default_factory=list)
    now: list[tuple[Any, ...]] = field(default_factory=list)

    def snapshot(self) -> list[tuple[Any, ...]]:
        return fetch(SNAPSHOT, {"owner": self.owner.pk})

    def agree(self) -> list[tuple[Any, ...]]:
        """Compares the memory as it is now with the model."""
        now = self.now = self.snapshot()
        live = {row[1]: frozenset(row[10]) for row in now if row[0] == "topic"}
        assert live == self.live
        where = {row[1]: row[4] for row in now if row[0] == "message" and row[4] is not None}
        assert where == {message: topic for topic, messages in self.live.items() for message in messages}
        withdrawn = {row[1] for row in now if row[0] == "message" and row[3]}
        assert withdrawn <= self.imported
        assert withdrawn.isdisjoint(where)
        found = curation.successors(self.owner.pk, self.ever)
        for topic, messages in self.ever.items():
            assert set(found[topic]) == {live for live, present in self.live.items() if present & messages}
        return now

    def pick(self, number: int, items: Any) -> Any:
        ordered = sorted(items)
        return ordered[number % len(ordered)]


@dataclass(frozen=True)
class Step:
    """One step of a person; the numbers choose among what exists at that time."""

    wish: str
    actor: str
    one: int
    two: int
    three: int


def wish_edit(world: World, step: Step) -> Plan:
    topic = world.pick(step.one, world.live)
    return "edit", curation.plan_edit(world.owner, topic, f"about {step.two} by {step.actor}")


def wish_merge(world: World, step: Step) -> Plan:
    topics = {world.pick(number, world.live) for number in (step.one, step.two, step.three)}
    return Kind.MERGE, curation.plan_merge(world.owner, topics)


def wish_split(world: World, step: Step) -> Plan:
    topic = world.pick(step.one, world.live)
    at = {world.pick(number, world.live[topic]) for number in (step.two, step.three)}
    return "split", curation.plan_split(world.owner, topic, at)


def wish_move(world: World, step: Step) -> Plan:
    archived = set().union(*world.live.values())
    moved = {world.pick(number, archived) for number in (step.one, step.one + 1, step.two)}
    to = world.pick(step.three, [0, *world.live])
    return "move", curation.plan_move(world.owner, moved, to or None)


def wish_resplit(world: World, step: Step) -> Plan:
    topic = world.pick(step.one, world.live)
    messages = sorted(world.live[topic])
    parts = [tuple(m for place, m in enumerate(messages) if (step.two >> place) % 2 == side) for side in (0, 1)]
    drafts = [TopicDraft(f"part of {topic}", part) for part in parts if part]
    return "resplit", curation.plan_resplit(world.owner, topic, drafts)


def wish_nonsense(world: World, step: Step) -> Plan:
    topic = world.pick(step.one, world.live)
    messages = sorted(world.live[topic])
    return "edit", Change((topic,), (TopicDraft("lost one", tuple(messages[1:])),))


WISHES: dict[str, Callable[[World, Step], Plan]] = {
    "edit": wish_edit,
    "merge": wish_merge,
    "split": wish_split,
    "move": wish_move,
    "resplit": wish_resplit,
    "nonsense": wish_nonsense,
}
# "draw" renders a page now, and "send" submits a rendered form, which may be stale by then.
STEPS = st.builds(
    Step,
    wish=st.sampled_from([*WISHES, "draw", "draw", "send", "undo", "undo", "undo all", "withdraw"]),
    actor=st.sampled_from(["ada", "bob"]),
    one=st.integers(0, 40),
    two=st.integers(0, 40),
    three=st.integers(0, 40),
)


def take(world: World, step: Step) -> None:
    before, known = world.now, len(world.edits)
    refused: CurationError | None = None
    try:
        act(world, step)
    except CurationError as error:
        refused = error
    if refused is not None:
        assert str(refused)
        assert world.snapshot() == before
        assert fetch(HISTORY, [world.owner.pk]) == [(world.archived + known,)]
        if isinstance(refused, Depends):
            assert refused.edits
    if len(world.edits) > known:
        world.agree()


def act(world: World, step: Step) -> None:
    if step.wish == "undo" and world.edits:
        undo(world, world.edits[step.one % len(world.edits)], step.actor)
    elif step.wish == "undo all" and world.edits:
        edit = world.edits[step.one % len(world.edits)]
        for made in curation.undo_with_dependents(world.owner, edit, actor=step.actor):
            learn(world, made)
    elif step.wish == "withdraw":
        learn(world, curation.withdraw(world.owner, world.batch, actor=step.actor))
    elif step.wish == "send" and world.drawn:
        send(world, world.drawn.pop(step.one % len(world.drawn)), step.actor)
    elif world.live:
        wished = [*WISHES.values()][step.three % len(WISHES)]
        if step.wish == "draw":
            world.drawn.append(wished(world, step))
        else:
            send(world, WISHES.get(step.wish, wished)(world, step), step.actor)


def send(world: World, plan: Plan, actor: str) -> None:
    kind, change = plan
    retired = set(change.out) - set(world.live)
    if retired:
        with pytest.raises(Stale) as stale:
            curation.swap(world.owner, change, kind=kind, actor=actor)
        assert set(stale.value.successors) == retired
        raise stale.value
    edit = curation.swap(world.owner, change, kind=kind, actor=actor)
    new = learn(world, edit)
    assert [world.live[number] for number in new] == [frozenset(draft.messages) for draft in change.put]


def undo(world: World, edit: TopicEdit, actor: str) -> None:
    learn(world, curation.undo(world.owner, edit, actor=actor))


def learn(world: World, edit: TopicEdit) -> list[int]:
    """Applies the edit to the model; returns the topics it put in."""
    sides = [(side, topic, frozenset(messages)) for side, topic, messages in fetch(SIDES, [edit.pk])]
    gone = [world.live.pop(topic) for side, topic, _messages in sides if side == "out"]
    came = {topic: messages for side, topic, messages in sides if side == "in"}
    for topic, messages in came.items():
        assert world.ever.setdefault(topic, messages) == messages
    world.live |= came
    moved = frozenset().union(*gone) ^ frozenset().union(*came.values())
    assert moved <= (world.imported if edit.batch_id else frozenset())
    world.edits.append(edit)
    return list(came)


def go_home(world: World) -> None:
    """Undoes everything in some allowed order."""
    left = _standing(world)
    while left:
        left.remove(next(edit for edit in left if undone(world, edit)))


def undone(world: World, edit: TopicEdit) -> bool:
    """Returns whether the edit could be undone; there is always one on which no other depends."""
    try:
        undo(world, edit, "home")
    except Depends:
        return False
    return True


def _standing(world: World) -> list[TopicEdit]:
    first = [edit for edit in world.edits if edit.kind != Kind.UNDO]
    stands = curation.in_effect(world.owner.pk, [edit.pk for edit in first])
    left = [edit for edit in first if stands[edit.pk]]
    world.random.shuffle(left)
    return left


@pytest.fixture
def memory(anna: ChatUser) -> Callable[[Random], World]:
    """Ten messages in four topics; four of them came with one import, which has one more in the active session."""
    talk(anna, ("Tea", ["a", "b", "c", "d"]), ("Cats", ["e", "f"]), ("Rain", ["g", "h", "i"]), ("Sun", ["j"]))
    batch = ImportBatch.objects.create(owner=anna, source="x.jsonl", format="jsonl")
    messages = list(Message.objects.of(anna).in_order())
    Message.objects.filter(pk__in=[messages[number].pk for number in (1, 4, 5, 7)]).update(batch=batch)
    add_messages(anna, [record(50, "still talking")], batch=batch)
    imported = frozenset(Message.objects.filter(batch=batch).values_list("pk", flat=True))
    rows = Message.objects.of(anna).filter(topic__isnull=False).values_list("topic", "pk")
    live: dict[int, set[int]] = {}
    for topic, message in rows:
        live.setdefault(topic, set()).add(message)
    by_topic = {topic: frozenset(messages) for topic, messages in live.items()}
    [(archived,)] = fetch(HISTORY, [anna.pk])
    return lambda random: World(anna, batch, imported, random, archived, dict(by_topic), dict(by_topic))


def lead_home(memory: Callable[[Random], World], steps: list[Step], random: Random) -> None:
    world = memory(random)
    point = transaction.savepoint()
    try:
        home = world.agree()
        for step in steps:
            take(world, step)
        go_home(world)
        assert world.agree() == home
        execute("SET CONSTRAINTS ALL IMMEDIATE")
    finally:
        transaction.savepoint_rollback(point)


FIXTURE_OF_THE_WHOLE_TEST = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
ANYTHING = {"steps": st.lists(STEPS, min_size=1, max_size=5), "random": st.randoms(use_true_random=False)}


@given(**ANYTHING)
@settings(
    max_examples=6 * settings.default.max_examples,
    deadline=None,
    database=None,
    suppress_health_check=FIXTURE_OF_THE_WHOLE_TEST,
)
def test_whatever_people_do_topics_partition_the_messages_and_undoing_it_leads_home(
    memory: Callable[[Random], World], steps: list[Step], random: Random
) -> None:
    lead_home(memory, steps, random)


@pytest.mark.thorough
@given(**{**ANYTHING, "steps": st.lists(STEPS, min_size=1, max_size=15)})
@settings(max_examples=20_000, deadline=None, database=None, suppress_health_check=FIXTURE_OF_THE_WHOLE_TEST)
def test_longer_days_lead_home_too(memory: Callable[[Random], World], steps: list[Step], random: Random) -> None:
    lead_home(memory, steps, random)


def test_every_kind_of_step_happens_and_the_memory_is_sound_after_each(memory: Callable[[Random], World]) -> None:
    random = Random(4)
    world = memory(random)
    world.agree()
    for number in range(60):
        wish = [*WISHES, "draw", "send", "undo", "undo all", "withdraw"][number % 11]
        take(world, Step(wish, "ada", *(random.randrange(41) for _place in range(3))))
        assert list(violations()) == []
    kinds = {kind for kind, _label in edit_kinds()}
    assert {edit.kind for edit in world.edits} == kinds - {"archive", "reword", "label"}
    go_home(world)
