"""Projects within a memory: what belongs to one stays there, goes with its topics, is exported and erased alone."""

from datetime import timedelta
from pathlib import Path

import pytest

from memoryapp import curation, erasure
from memoryapp.curation import ChangeRequest, CurationError, Stale, bulk
from memoryapp.engine.sight import EVERYTHING, OutOfSight, limited_to, looking
from memoryapp.erasure import Target
from memoryapp.intake import transfer
from memoryapp.intake.invariants import violations
from memoryapp.intake.messages import add_messages
from memoryapp.memory import sessions
from memoryapp.models import Artifact, BulkWork, ChatUser, Erasure, Fact, Message, Person, Run, Topic, TopicEdit
from tests.conftest import BEGAN, fact_of, record, talk

pytestmark = pytest.mark.django_db


def given(owner: ChatUser, project: str, *topics: Topic) -> TopicEdit:
    wanted = ChangeRequest(curation.LABEL, owner, tuple(topic.pk for topic in topics), project=project)
    return curation.make(wanted, actor="ada").edit


def labels(owner: ChatUser) -> dict[str, set[str]]:
    """The labels of what the memory holds, by noun; of topics those that are live."""
    rows = {"topic": Topic.objects.live(), "message": Message.objects, "fact": Fact.objects, "file": Artifact.objects}
    return {name: set(found.filter(owner=owner).values_list("project", flat=True)) for name, found in rows.items()}


def test_another_project_begins_another_session(anna: ChatUser) -> None:
    for number, project in enumerate(("work", "home", "work", "")):
        with looking(EVERYTHING.within(project)):
            add_messages(anna, [record(number, f"word {number}", at=BEGAN + timedelta(seconds=number))])
    cut = sessions.cut(Message.objects.of(anna).active(), sessions.limits(anna))
    held = [sorted(Message.objects.filter(pk__in=each.ids).values_list("text", "project")) for each in cut]
    assert sorted(held) == [[("word 0", "work"), ("word 2", "work")], [("word 1", "home")], [("word 3", "")]]


def test_the_same_id_in_another_project_is_another_message(anna: ChatUser) -> None:
    for project, text in (("work", "ours"), ("home", "theirs")):
        with looking(limited_to([project])):
            assert add_messages(anna, [record(1, text)]).added == 1
            assert add_messages(anna, [record(1, text)]).skipped == 1
            assert Message.objects.get().text == text
    # Who sees everything and names no project repeats what is there already.
    assert add_messages(anna, [record(1, "ours")]).added == 0


def test_topics_of_two_projects_are_neither_merged_nor_mixed_by_a_move(anna: ChatUser) -> None:
    ours, common = talk(anna, ("Sprint", ["When?", "In May."]), ("Tea", ["Which?", "Green."]))
    given(anna, "work", ours)
    ours = Topic.objects.live().get(project="work")
    moved = tuple(common.message_set.values_list("pk", flat=True)[:1])
    for wanted in (
        ChangeRequest(curation.MERGE, anna, (ours.pk, common.pk)),
        ChangeRequest(curation.MOVE, anna, messages=moved, to=ours.pk),
    ):
        for ask in (curation.plan, lambda wanted: curation.make(wanted, actor="ada")):
            with pytest.raises(CurationError, match=r"different projects .*Give them to one project first"):
                ask(wanted)
    given(anna, "work", common)
    assert curation.make(ChangeRequest(curation.MERGE, anna, tuple(live(anna))), actor="ada").edit
    assert Topic.objects.live().get().project == "work"


def live(owner: ChatUser) -> list[int]:
    return list(Topic.objects.of(owner).live().order_by("pk").values_list("pk", flat=True))


def test_what_was_made_of_a_topic_goes_with_it_and_comes_home_with_the_undo(anna: ChatUser) -> None:
    topics = talk(anna, ("Sprint", ["When?", "In May."]), ("Tea", ["Which?", "Green."]))
    fact_of(anna, "Plans the sprint", topics[0])
    message = topics[0].message_set.all()[0]
    Artifact.objects.create(owner=anna, message=message, name="a.pdf", file_type="pdf", sha256="0", created_at=BEGAN)
    before = labels(anna)
    work = bulk.ask(anna, [topic.pk for topic in topics], BulkWork.Kind.LABEL, "ada", project="work")
    assert bulk.carry_on(work) == 2
    assert labels(anna) == {"topic": {"work"}, "message": {"work"}, "fact": {"work"}, "file": {"work"}}
    with looking(limited_to(["home"])):
        assert [model.objects.count() for model in (Topic, Message, Fact, Artifact)] == [0, 0, 0, 0]
    assert list(violations(anna)) == []
    assert bulk.undo(work, actor="ada") == (2, 0)
    assert labels(anna) == before
    assert sorted(live(anna)) == sorted(topic.pk for topic in topics)
    assert list(violations(anna)) == []


def test_an_older_change_is_not_undone_into_another_project(anna: ChatUser) -> None:
    (topic,) = talk(anna, ("Sprint", ["When?", "In May."]))
    edit = curation.make(ChangeRequest(curation.EDIT, anna, (topic.pk,), summaries=("Plan",)), actor="ada").edit
    curation.undo(anna, edit, actor="ada")
    Message.objects.update(project="work")
    with pytest.raises(Stale, match="given to another project"):
        curation.undo(anna, TopicEdit.objects.get(undoes=edit), actor="ada")


def test_a_project_is_exported_alone_restored_with_its_label_and_erased(anna: ChatUser, tmp_path: Path) -> None:
    ours, common = talk(anna, ("Sprint", ["When is it?", "In May."]), ("Tea", ["Which tea?", "Green."]))
    fact_of(anna, "Plans the sprint", ours)
    Person.objects.create(owner=anna, display_name="Olga", project="work")
    given(anna, "work", ours)
    asked = Run.objects.create(owner=anna, query="sprint?", strategy="flash", project="work", state="finished")
    whole, alone = tmp_path / "whole.jsonl", tmp_path / "work.jsonl"
    whole.write_text("".join(transfer.lines(anna)))
    alone.write_text("".join(transfer.lines(anna, "work")))
    assert "Green." not in alone.read_text()
    transfer.restore(whole, "all")
    transfer.restore(alone, "part")
    of = {name: ChatUser.objects.get(name=name) for name in ("all", "part")}
    assert labels(of["all"]) == labels(anna)
    assert labels(of["part"]) == {"topic": {"work"}, "message": {"work"}, "fact": {"work"}, "file": set()}
    assert list(violations(of["part"])) == list(violations(of["all"])) == []

    receipt = erasure.finish(erasure.begin(Target.of_project(anna, "work"), "ada"))
    assert receipt.ended_at
    assert receipt.kind == Erasure.Kind.PROJECT
    assert labels(anna) == {"topic": {""}, "message": {""}, "fact": set(), "file": set()}
    assert not Person.objects.filter(owner=anna).exists()
    assert not Run.objects.filter(pk=asked.pk).exists()
    assert live(anna) == [common.pk]


def test_an_actor_asks_in_one_of_its_own_projects() -> None:
    seen = limited_to(["work"])
    assert seen.within("") == seen.within("work") == seen
    with pytest.raises(OutOfSight):
        seen.within("home")
    with pytest.raises(OutOfSight, match="home, work"):
        limited_to(["work", "home"]).within("")
    assert EVERYTHING.within("") == EVERYTHING
    assert limited_to([]).projects == frozenset([""])
