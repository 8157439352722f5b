"""Grades of candidates: on messages through every edit, by several operators, and as golden questions."""

import json
import math
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import Client

from memoryapp import curation
from memoryapp.insight.evaluation import judgements
from memoryapp.insight.evaluation.judgements import GoldenError, GradeError
from memoryapp.insight.evaluation.questions import read_questions
from memoryapp.models import ChatUser, GoldenQuestion, Grade, Message, Operator, Run, Topic, TopicEdit
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.search.vectors import embed_pending
from tests.conftest import signed_in
from tests.explain.planted import Memory, executed, seeded
from tests.support.browsing import HTMX

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def memory() -> Memory:
    made = await sync_to_async(seeded)(3)
    await embed_pending(offline_embedder())
    return made


@pytest.fixture
async def run(memory: Memory) -> Run:
    return await executed(memory.owner, strategy="vector")


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob")


def id_of(topic: Topic) -> str:
    return f"Topic:{topic.pk}"


def own(run: Run, user: User) -> dict[str, int]:
    known = judgements.grades_of(run, user).opinions
    return {id: opinion.own for id, opinion in known.items() if opinion.own is not None}


async def test_a_grade_follows_its_messages_through_merge_split_and_move(memory: Memory, run: Run, ada: User) -> None:
    good, bad, other = memory.garden[:3]

    def edited() -> tuple[Topic, Topic]:
        judgements.grade(run, ada, 2, topic=id_of(good))
        judgements.grade(run, ada, 0, topic=id_of(bad))
        change = curation.plan_merge(memory.owner, [good.pk, other.pk])
        curation.swap(memory.owner, change, kind=TopicEdit.Kind.MERGE, actor="ada")
        merged = Topic.objects.of(memory.owner).live().latest("pk")
        message = Message.objects.filter(topic=bad).in_order()[0]
        moving = curation.plan_move(memory.owner, [message.pk], merged.pk)
        curation.swap(memory.owner, moving, kind="move", actor="ada")
        return (Topic.objects.of(memory.owner).live().filter(topicmessage__message=message).get(), merged)

    now, _merged = await sync_to_async(edited)()
    await embed_pending(offline_embedder())
    again = await executed(memory.owner, strategy="vector")
    found = await sync_to_async(own)(again, ada)
    assert found[id_of(now)] == 2
    assert sorted(found.values()) == [0, 2]


async def test_operators_who_disagree_are_shown_and_the_last_word_of_each_counts(
    memory: Memory, run: Run, ada: User, bob: User
) -> None:
    topic = id_of(memory.garden[0])

    def judged() -> None:
        judgements.grade(run, ada, 0, topic=topic)
        judgements.grade(run, bob, 0, topic=topic)
        assert judgements.grades_of(run, ada).disputed == 0
        judgements.grade(run, ada, 2, topic=topic)
        known = judgements.grades_of(run, bob)
        assert known.opinions[topic].by_name == {"ada": 2, "bob": 0}
        assert (known.disputed, known.graded, known.opinions[topic].own) == (1, 1, 0)
        judgements.grade(run, ada, None, topic=topic)
        assert own(run, ada) == {}
        assert judgements.grades_of(run, bob).opinions[topic].by_name == {"bob": 0}

    await sync_to_async(judged)()


async def test_grades_count_for_the_same_query_of_the_same_memory_alone(memory: Memory, run: Run, ada: User) -> None:
    same = await executed(memory.owner, strategy="filter")
    otherwise = await executed(memory.owner, strategy="vector", query="a garden in May")
    stranger = await sync_to_async(seeded)(5)
    theirs = await executed(stranger.owner, strategy="vector")

    def judged() -> None:
        judgements.grade(run, ada, 2, topic=id_of(memory.garden[0]))
        assert own(same, ada) == {id_of(memory.garden[0]): 2}
        assert own(otherwise, ada) == own(theirs, ada) == {}

    await sync_to_async(judged)()


async def test_what_cannot_be_graded_is_refused_and_the_next_grade_works(memory: Memory, run: Run, ada: User) -> None:
    def refused() -> None:
        for topic, value in (("Topic:99999", 2), ("x", 1), (id_of(memory.garden[0]), 7)):
            with pytest.raises(GradeError):
                judgements.grade(run, ada, value, topic=topic)
        with pytest.raises(GradeError):
            judgements.grade_message(run, ada, 2, message=10**9)
        assert not Grade.objects.exists()
        judgements.grade(run, ada, 1, topic=id_of(memory.garden[0]))
        assert own(run, ada) == {id_of(memory.garden[0]): 1}

    await sync_to_async(refused)()


def test_the_gain_is_that_of_the_graded_in_their_order() -> None:
    assert judgements.ndcg(["a", "x", "b", "c"], {"a": 2, "b": 0, "c": 1}) == pytest.approx(
        (3 + 1 / math.log2(4)) / (3 + 1 / math.log2(3))
    )
    assert judgements.ndcg(["b", "a"], {"a": 2, "b": 2}) == 1
    assert judgements.ndcg(["a"], {"a": 0}) is judgements.ndcg([], {}) is None


async def test_a_judged_run_becomes_a_golden_question_that_the_command_reads(
    memory: Memory, run: Run, tmp_path: Path, admin: Operator
) -> None:
    ada = admin.user

    def saved() -> None:
        with pytest.raises(GoldenError):
            judgements.from_grades(run, "garden", "ada")
        judgements.grade(run, ada, 2, topic=id_of(memory.garden[0]))
        judgements.grade(run, ada, 0, topic=id_of(memory.garden[1]))
        made = judgements.from_grades(run, "garden", "ada")
        assert judgements.from_grades(run, "garden", "ada").pk == made.pk
        graded = Grade.objects.filter(value=2).values_list("message", flat=True)
        assert set(made.evidence) == set(graded)
        file = tmp_path / "golden.jsonl"
        client = signed_in(admin)
        file.write_text(client.get("/golden/garden/?format=jsonl").content.decode())
        (question,) = read_questions(file).asked
        assert (question.user, question.question) == (memory.owner.name, run.query)
        assert set(question.evidence) == set(
            Message.objects.filter(pk__in=graded).values_list("external_id", flat=True)
        )

    await sync_to_async(saved)()


async def test_the_page_grades_without_a_script_and_blind_without_ranks(
    memory: Memory, run: Run, admin: Operator
) -> None:
    def visited() -> None:
        client = signed_in(admin)
        address = f"/runs/{run.pk}/grades/"
        topic = id_of(memory.garden[0])
        answer = client.post(address, {"topic": topic, "grade": "2"})
        assert answer.status_code == 302
        assert 'aria-pressed="true"' in client.get(address).content.decode()
        blind = [client.get(address, {"blind": "1"}).content.decode() for _visit in range(2)]
        places = [[page.index(f'id="{id_of(each)}"') for each in memory.garden] for page in blind]
        assert places[0] == places[1] != sorted(places[0])
        assert "graded-rank" not in blind[0]
        assert "nDCG" not in blind[0]
        assert client.post(address, {"topic": "Topic:9999999", "grade": "2"}).status_code == 422
        assert client.post(address, {"topic": topic, "grade": "9"}).status_code == 404
        strip = client.post(address, {"topic": topic, "grade": ""}, headers=HTMX).content.decode()
        assert json.loads(strip.split('id="grade-marks" type="application/json">')[1].split("</script>")[0]) == {}
        message = memory.garden[0].topicmessage_set.all()[0].message_id
        marks = client.post(address, {"message": message, "grade": "1"}, headers=HTMX).content.decode()
        assert 'aria-pressed="true"' in marks

    await sync_to_async(visited)()


def test_golden_questions_are_written_changed_and_deleted_by_hand(
    as_debugger: Client, as_viewer: Client, as_stranger: Client, anna: ChatUser
) -> None:
    message = Message.objects.create(
        owner=anna, external_id="m1", role="user", sent_at="2026-01-01T00:00Z", text="cake"
    )
    sent = {"owner": anna.pk, "collection": "by hand", "question": "Which cake?", "evidence": "m1"}
    assert as_viewer.post("/golden/", sent).status_code == 403
    for wrong in ({"evidence": "m1\nm2"}, {"question": " "}, {"collection": "a/b"}, {"collection": "x" * 81}):
        assert as_debugger.post("/golden/", {**sent, **wrong}).status_code == 422
    assert not GoldenQuestion.objects.exists()
    assert as_debugger.post("/golden/", sent).status_code == 302
    row = GoldenQuestion.objects.get()
    assert row.evidence == [message.pk]
    assert "Which cake?" in as_viewer.get("/golden/by hand/").content.decode()
    assert as_stranger.get("/golden/by hand/").status_code == 404
    assert as_stranger.get(f"/golden/questions/{row.pk}/").status_code == 404
    changed = {"question": "Which cake was it?", "category": "food", "evidence": ""}
    assert as_debugger.post(f"/golden/questions/{row.pk}/", changed).status_code == 302
    row.refresh_from_db()
    assert (row.question, row.category, row.evidence) == ("Which cake was it?", "food", [])
    assert as_debugger.post(f"/golden/questions/{row.pk}/", {"delete": "1"}).status_code == 302
    assert not GoldenQuestion.objects.exists()
