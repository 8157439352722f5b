"""Topics changed over HTTP: each endpoint makes the change, a dry run changes nothing, a night is undone, bodies are
checked."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryapp import curation
from memoryapp.curation import history
from memoryapp.curation.change import MOST_TOPICS
from memoryapp.doors.api.shapes.curation import EditsAnswer
from memoryapp.intake.messages import add_messages
from memoryapp.models import ChatUser, ImportBatch, Message, Topic, TopicEdit
from memoryapp.platform.llm import clients
from tests.conftest import record, talk
from tests.curation.placed_topics import renamed
from tests.curation.test_consolidation_pages import night
from tests.doors.api.curated import changed, chosen_once, conflict_of, memory, snapshot
from tests.doors.api.test_api import anything, words
from tests.examples import examples
from tests.search.test_vectors import Hashing
from tests.support.api_client import Program, error_of, token_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def program(anna: ChatUser, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(clients, "embedder_of", lambda of: Hashing())
    return Program(token_for(anna, scopes=("curate", "read")))


class TestChanges:
    @pytest.mark.slow
    def test_topics_that_are_no_neighbours_are_merged(
        self, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        tea, cats, more = topics
        body = {"user": "anna", "topics": [f"[Topic:{more.pk}]", tea.pk], "summary": " All tea ", "reason": "one"}
        document = changed(program.post("/v1/topics/merge", body))
        assert memory(anna) == {"All tea": ["m0", "m1", "m2", "m3", "m6", "m7"], "Cats": ["m4", "m5"]}
        [new] = document["topics"]
        assert (new["summary"], new["message_count"]) == ("All tea", 6)
        assert document["retired"] == [f"Topic:{tea.pk}", f"Topic:{more.pk}"]
        assert document["effect"] is None
        edit = TopicEdit.objects.get(pk=document["edit"])
        assert (edit.kind, edit.actor, edit.reason) == ("merge", "token a program", "one")
        assert Topic.objects.live().get(summary="All tea").locked_by_hand
        followed = program.get(f"/v1/topics/{tea.pk}").json()
        assert (followed["retired"], [topic["id"] for topic in followed["topics"]]) == (True, [new["id"]])
        assert program.get(f"/v1/topics/{cats.pk}").json()["retired"] is False

    def test_a_topic_is_cut_before_the_messages_named(
        self, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        body = {"at": ["m2", "m1"], "summaries": ["Which", "", "Effect"]}
        document = changed(program.post(f"/v1/topics/Topic:{topics[0].pk}/split", body))
        assert [topic["message_count"] for topic in document["topics"]] == [1, 1, 2]
        assert memory(anna) == {
            "Which": ["m0"],
            "Green.": ["m1"],
            "Effect": ["m2", "m3"],
            "Cats": ["m4", "m5"],
            "More tea": ["m6", "m7"],
        }

    def test_a_summary_is_rewritten(self, anna: ChatUser, topics: list[Topic], program: Program) -> None:
        path = f"/v1/topics/{topics[0].pk}"
        document = changed(program.ask("patch", path, json.dumps({"summary": "Зелёный чай"}).encode()))
        assert memory(anna)["Зелёный чай"] == ["m0", "m1", "m2", "m3"]
        assert document["topics"][0]["id"] != document["retired"][0] == f"Topic:{topics[0].pk}"

    def test_messages_of_several_topics_are_moved_to_a_new_one(
        self, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        body = {"user": "anna", "messages": ["m3", "m4"], "to": None, "summary": "Odd ones"}
        changed(program.post("/v1/messages/move", body))
        assert memory(anna) == {
            "Tea": ["m0", "m1", "m2"],
            "Odd ones": ["m3", "m4"],
            "Cats": ["m5"],
            "More tea": ["m6", "m7"],
        }

    @pytest.mark.slow
    def test_an_undo_brings_the_very_topics_back_and_its_undo_does_it_again(
        self, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        before = program.get("/v1/users/anna/topics").content
        merged = changed(program.post("/v1/topics/merge", {"user": "anna", "topics": [topics[0].pk, topics[2].pk]}))
        after = program.get("/v1/users/anna/topics").content
        undone = changed(program.post(f"/v1/edits/{merged['edit']}/undo", {"reason": "two matters"}))
        assert program.get("/v1/users/anna/topics").content == before
        assert [topic["id"] for topic in undone["topics"]] == merged["retired"]
        assert undone["retired"] == [topic["id"] for topic in merged["topics"]]
        changed(program.ask("post", f"/v1/edits/[Edit:{undone['edit']}]/undo"))
        assert program.get("/v1/users/anna/topics").content == after

    def test_a_long_name_of_a_token_is_cut_where_history_ends(
        self, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        program.headers = {"authorization": f"Bearer {token_for(anna)}"}
        named = Program(token_for(anna))
        anna.apitoken_set.update(name="x" * 200)
        changed(named.ask("patch", f"/v1/topics/{topics[0].pk}", b'{"summary": "Leaves"}'))
        assert TopicEdit.objects.latest("pk").actor == "token " + "x" * 194


@pytest.fixture(params=["merge", "split", "rewrite", "move", "undo"])
def wish(request: pytest.FixtureRequest, anna: ChatUser, topics: list[Topic]) -> tuple[str, str, dict[str, Any]]:
    """Returns one of the changes as method, address and body."""
    tea, cats, more = topics
    if request.param == "undo":
        merge = curation.plan_merge(anna, [tea.pk, cats.pk])
        edit = curation.swap(anna, merge, kind=TopicEdit.Kind.MERGE, actor="ada")
        return "post", f"/v1/edits/{edit.pk}/undo", {}
    wishes: dict[str, tuple[str, str, dict[str, Any]]] = {
        "merge": ("post", "/v1/topics/merge", {"user": "anna", "topics": [tea.pk, more.pk]}),
        "split": ("post", f"/v1/topics/{tea.pk}/split", {"at": ["m2"]}),
        "rewrite": ("patch", f"/v1/topics/{tea.pk}", {"summary": "Leaves"}),
        "move": ("post", "/v1/messages/move", {"user": "anna", "messages": ["m3"], "to": more.pk}),
    }
    return wishes[request.param]


class TestDryRun:
    @pytest.mark.slow
    def test_it_changes_nothing_and_tells_what_the_change_then_does(
        self, wish: tuple[str, str, dict[str, Any]], anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        method, path, body = wish
        run = chosen_once(anna, Topic.objects.live().order_by("started_at")[0])
        before = snapshot()
        tried = changed(program.ask(method, f"{path}?dry_run=1", json.dumps(body).encode()))
        assert snapshot() == before
        made = changed(program.ask(method, path, json.dumps(body).encode()))
        assert tried["edit"] is None
        assert made["effect"] is None
        assert tried["retired"] == made["retired"]
        assert _without_ids(tried) == _without_ids(made)
        [row] = tried["effect"]["runs"]
        assert (row["run"], row["query"]) == (str(run.pk), "Which tea?")
        assert row["sentence"]
        counts = {verdict: tried["effect"][verdict] for verdict in ("better", "worse", "same")}
        assert (tried["effect"]["affected"], counts[row["verdict"]], sum(counts.values())) == (1, 1, 1)

    @pytest.mark.slow
    def test_it_is_refused_as_the_change_would_be(self, anna: ChatUser, topics: list[Topic], program: Program) -> None:
        path = "/v1/topics/merge?dry_run=true"
        assert error_of(program.post(path, {"user": "anna", "topics": [topics[0].pk]}))[0] == 422
        changed(program.post("/v1/topics/merge", {"user": "anna", "topics": [topic.pk for topic in topics]}))
        assert conflict_of(program.post(path, {"user": "anna", "topics": [topics[0].pk, topics[1].pk]}))
        archived = TopicEdit.objects.earliest("pk")
        for dry in ("", "?dry_run=1"):
            assert conflict_of(program.post(f"/v1/edits/{archived.pk}/undo{dry}", {}))["code"] == "conflict"

    @pytest.mark.slow
    @pytest.mark.parametrize("archived", [True, False])
    def test_an_import_that_was_withdrawn_is_given_back(
        self, archived: bool, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        batch = ImportBatch.objects.create(owner=anna, source="x.jsonl", format="jsonl")
        Message.objects.filter(external_id__in=["m3", "m4", "m5"] if archived else []).update(batch=batch)
        add_messages(anna, [record(50, "not archived yet")], batch=batch)
        edit = curation.withdraw(anna, batch, actor="ada")
        before = snapshot()
        tried = changed(program.post(f"/v1/edits/{edit.pk}/undo?dry_run=1", {}))
        assert snapshot() == before
        made = changed(program.post(f"/v1/edits/{edit.pk}/undo", {}))
        assert (tried["topics"], tried["retired"]) == (made["topics"], made["retired"])
        assert [topic["summary"] for topic in made["topics"]] == (["Tea", "Cats"] if archived else [])
        assert set(Topic.objects.live()) == set(topics)
        assert not Message.objects.filter(is_withdrawn=True).exists()

    @pytest.mark.parametrize("asked", ["dryrun=1", "dry-run=1", "dry_run=perhaps", "dry_run=", "dry_run=1&x=2"])
    def test_a_dry_run_that_is_misspelt_is_no_change(
        self, asked: str, wish: tuple[str, str, dict[str, Any]], program: Program
    ) -> None:
        method, path, body = wish
        before = snapshot()
        assert error_of(program.ask(method, f"{path}?{asked}", json.dumps(body).encode()))[0] == 422
        assert snapshot() == before


def _without_ids(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: value for name, value in topic.items() if name != "id"} for topic in document["topics"]]


class TestRefusals:
    @pytest.mark.slow
    def test_a_change_that_is_sent_again_is_stale_and_names_what_came_of_it(
        self, wish: tuple[str, str, dict[str, Any]], program: Program
    ) -> None:
        method, path, body = wish
        content = json.dumps(body).encode()
        made = changed(program.ask(method, path, content))
        before = snapshot()
        again = conflict_of(program.ask(method, path, content, **{"accept-language": "ru"}))
        assert snapshot() == before
        if path.endswith("/undo"):
            assert (again["code"], again["message"]) == ("conflict", "This change is undone already.")
        else:
            assert again["code"] == "stale"
            assert again["message"].startswith("Somebody changed this meanwhile: Topic:")
            holders = {holder for holders in again["successors"].values() for holder in holders}
            assert holders <= {topic["id"] for topic in made["topics"]}

    @pytest.mark.slow
    def test_messages_that_moved_to_a_new_topic_do_not_move_again(
        self, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        body = {"user": "anna", "messages": ["m3", "m4"], "to": None}
        changed(program.post("/v1/messages/move", body))
        before = snapshot()
        assert error_of(program.post("/v1/messages/move", body))[0] == 422
        assert snapshot() == before

    @pytest.mark.slow
    def test_an_undo_that_later_edits_stand_on_names_them_in_the_order_to_undo_them(
        self, anna: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        merged = changed(program.post("/v1/topics/merge", {"user": "anna", "topics": [topics[0].pk, topics[1].pk]}))
        path = f"/v1/topics/{merged['topics'][0]['id']}"
        worded = changed(program.ask("patch", path, b'{"summary": "Tea and cats"}'))
        cut = changed(program.post(f"/v1/topics/{worded['topics'][0]['id']}/split", {"at": ["m4"]}))
        for dry in ("", "?dry_run=1"):
            refused = conflict_of(program.post(f"/v1/edits/{merged['edit']}/undo{dry}", {}))
            assert refused["code"] == "depends"
            assert [edit["id"] for edit in refused["edits"]] == [cut["edit"], worded["edit"]]
            assert {edit["actor"] for edit in refused["edits"]} == {"token a program"}
        for edit in [*(edit["id"] for edit in refused["edits"]), merged["edit"]]:
            changed(program.post(f"/v1/edits/{edit}/undo", {}))
        assert list(memory(anna)) == ["Tea", "Cats", "More tea"]

    @pytest.mark.parametrize(
        ("path", "body", "status", "sentence"),
        [
            ("merge", {"topics": ["TEA"]}, 422, "topics: A merge needs at least two different topics."),
            ("merge", {"topics": ["TEA", "TEA"]}, 422, "topics: A merge needs at least two"),
            ("merge", {"topics": ["TEA", "Person:1"]}, 422, "topics.1: This is no id of a topic"),
            ("merge", {"topics": ["TEA", True]}, 422, "topics.1: This is no id of a topic"),
            ("merge", {"topics": ["TEA", "9" * 5_000]}, 422, "topics.1: This is no id of a topic"),
            ("merge", {"topics": ["TEA", "9" * 30]}, 404, f"There is no Topic:{'9' * 30} in this memory."),
            ("merge", {"topics": [*range(1, MOST_TOPICS + 2)]}, 422, "topics: "),
            ("merge", {"topics": ["TEA", "CATS"], "summary": "x" * 2_001}, 422, "summary: "),
            ("merge", {"topics": ["TEA", "CATS"], "reason": "x" * 501}, 422, "reason: "),
            ("merge", {"topics": ["TEA", "CATS"], "sumary": "x"}, 422, "sumary: "),
            ("merge", {"user": "boris", "topics": ["TEA", "CATS"]}, 404, "There is no chat user of that name."),
            ("TEA/split", {"at": []}, 422, "at: Say at which messages new parts begin."),
            ("TEA/split", {"at": ["m0"]}, 422, "at: The topic begins with that message"),
            ("TEA/split", {"at": ["m2", "m4"]}, 422, "at.1: there is no message “m4” in Topic:TEA."),
            ("TEA/split", {"at": ["m2"], "summaries": ["One"]}, 422, "summaries: 2 are needed, one per part, not 1."),
            ("TEA/split", {"at": ["m2", None]}, 422, "at.1: This is no id of a message"),
            ("0/split", {"at": ["m2"]}, 404, "There is no such topic."),
            ("TEA", {"summary": " "}, 422, "summary: "),
            ("TEA", {"summary": "Tea"}, 422, "summary: The summary says that already."),
            ("TEA", {}, 422, "summary: Field required"),
            ("move", {"messages": [], "to": None}, 422, "messages: Say which messages to move."),
            ("move", {"messages": ["m2"]}, 422, "to: Field required"),
            ("move", {"messages": ["m2"], "to": 0}, 404, "There is no Topic:0 in this memory."),
            ("move", {"messages": ["m2"], "to": "TEA"}, 422, "messages: Some of these messages are in Topic:TEA"),
            ("move", {"messages": ["m2"], "to": "CATS", "summary": "x"}, 422, "summary: only a new topic takes one"),
            ("move", {"messages": ["m2", "new"], "to": None}, 422, "messages.1: there is no message “new” in any"),
            ("move", {"messages": ["m4", "m5"], "to": None}, 422, "messages: These are all messages of the topic"),
            ("move", {"messages": ["m4", "\x00"], "to": None}, 422, "messages.1: there is no message “\ufffd” in any"),
        ],
    )
    def test_a_wish_that_cannot_be_had_is_refused_with_its_field(
        self,
        path: str,
        body: dict[str, Any],
        status: int,
        sentence: str,
        anna: ChatUser,
        topics: list[Topic],
        program: Program,
    ) -> None:
        add_messages(anna, [record(99, "in no topic yet")])
        Message.objects.filter(external_id="m99").update(external_id="new")

        def numbered(text: str) -> str:
            return re.sub("TEA", str(topics[0].pk), re.sub("CATS", str(topics[1].pk), text))

        before = snapshot()
        asked = {"user": "anna", **body} if path in ("merge", "move") else body
        method = "patch" if path == "TEA" else "post"
        where = f"/v1/{'messages' if path == 'move' else 'topics'}/{numbered(path)}"
        content = numbered(json.dumps(asked)).encode()
        refusal = error_of(program.ask(method, where, content, **{"accept-language": "ru"}))
        assert refusal[0] == status
        assert refusal[2].startswith(numbered(sentence))
        assert snapshot() == before

    @pytest.mark.slow
    def test_another_memory_can_neither_be_changed_nor_be_felt(
        self, anna: ChatUser, boris: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        own = talk(boris, ("Dogs", ["How many?", "Two."]), ("Birds", ["How many?", "None."]))
        edit = TopicEdit.objects.filter(owner=anna).latest("pk")
        stranger = Program(token_for(boris))
        before = snapshot()
        theirs, nothing = topics[0].pk, 999_999

        def answers(number: int, edit_number: int) -> list[Any]:
            named = {"user": "boris"}
            return [
                stranger.post("/v1/topics/merge", {**named, "topics": [own[0].pk, number]}),
                stranger.post("/v1/topics/merge?dry_run=1", {**named, "topics": [own[0].pk, number]}),
                stranger.post(f"/v1/topics/{number}/split", {"at": ["m2"]}),
                stranger.ask("patch", f"/v1/topics/{number}", b'{"summary": "Mine"}'),
                stranger.post("/v1/messages/move", {**named, "messages": ["m0"], "to": number}),
                stranger.post(f"/v1/edits/{edit_number}/undo", {}),
                stranger.post(f"/v1/edits/{edit_number}/undo?dry_run=1", {}),
            ]

        for probed, empty in zip(answers(theirs, edit.pk), answers(nothing, nothing), strict=True):
            assert (probed.status_code, empty.status_code) == (404, 404)
            assert probed.content.decode() == empty.content.decode().replace(str(nothing), str(theirs))
        # Ids of messages are unique only within a memory: m2 is Boris's here, and Anna's m2 stays where it is.
        changed(stranger.post("/v1/messages/move", {"user": "boris", "messages": ["m2"], "to": own[0].pk}))
        assert memory(anna) == {"Tea": ["m0", "m1", "m2", "m3"], "Cats": ["m4", "m5"], "More tea": ["m6", "m7"]}
        assert snapshot() != before


class TestEdits:
    @pytest.mark.slow
    def test_edits_are_read_page_by_page_the_earliest_first(
        self, anna: ChatUser, boris: ChatUser, topics: list[Topic], program: Program
    ) -> None:
        talk(boris, ("Dogs", ["How many?", "Two."]))
        merged = changed(
            program.post("/v1/topics/merge", {"user": "anna", "topics": [topics[0].pk, topics[2].pk], "reason": "one"})
        )
        undone = changed(program.post(f"/v1/edits/{merged['edit']}/undo", {}))
        found, after = [], "0"
        while after:
            page = program.get(f"/v1/edits?user=anna&limit=2&after={after}").json()
            EditsAnswer.model_validate(page)
            found += page["edits"]
            after = page["next"]
        assert [(edit["kind"], edit["stands"]) for edit in found] == [
            ("archive", True),
            ("archive", True),
            ("archive", True),
            ("merge", False),
            ("undo", True),
        ]
        merge, undo = found[3:]
        assert (merge["id"], merge["undone_by"], merge["undoes"]) == (merged["edit"], undone["edit"], None)
        assert (undo["id"], undo["undone_by"], undo["undoes"]) == (undone["edit"], None, merged["edit"])
        assert (merge["actor"], merge["reason"]) == ("token a program", "one")
        assert (merge["out"], merge["out_count"]) == (merged["retired"], 2)
        assert merge["put"] == undo["out"] == [topic["id"] for topic in merged["topics"]]
        assert program.get(f"/v1/edits?user=anna&after={undone['edit']}").json() == {"edits": [], "next": None}

    @pytest.mark.slow
    def test_a_page_costs_the_same_few_questions_whatever_it_holds(
        self, anna: ChatUser, program: Program, django_assert_max_num_queries: Any
    ) -> None:
        talk(anna, *((f"Day {day}", ["Hello?", "Hello."]) for day in range(20)))
        with django_assert_max_num_queries(8):
            assert len(program.get("/v1/edits?user=anna&limit=200").json()["edits"]) == 20

    @pytest.mark.parametrize(
        ("asked", "status"),
        [("", 422), ("user=boris", 404), ("user=anna&after=x", 400), ("user=anna&limit=0", 422), ("user=%00", 404)],
    )
    def test_a_list_that_cannot_be_had_is_refused(self, asked: str, status: int, program: Program) -> None:
        assert error_of(program.get(f"/v1/edits?{asked}"))[0] == status


# Invalid bodies for changes of topics: none of them breaks an endpoint.


@pytest.fixture
def tireless(anna: ChatUser, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(clients, "embedder_of", lambda of: Hashing())
    settings.API_RATE = (1_000_000, 60.0)
    return Program(token_for())


def mostly(sane: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Requests that are mostly valid: one that is wrong everywhere is refused at its first fault, so faults deeper
    inside need a request that is wrong in one part."""
    return st.integers(0, 5).flatmap(lambda chance: sane if chance < 5 else anything)


names = mostly(st.sampled_from(["anna", "anna", "anna", "nobody", "\x00"]))
# HERE0 and similar names are replaced by topics that exist when the request is sent.
ids = mostly(st.sampled_from(["HERE0", "HERE1", "[HERE2]", "HERE0", "HERE1", 0, -1, "Topic:3.0", 10**30]))
listed = mostly(st.lists(ids, min_size=2, max_size=3))
message_ids = mostly(st.lists(mostly(st.sampled_from([f"m{number}" for number in range(8)])), min_size=1, max_size=3))
texts = mostly(st.sampled_from(["Tea", "Leaves", "\x00"]))
BODIES = {
    "merge": {"user": names, "topics": listed},
    "split": {"at": message_ids},
    "rewrite": {"summary": texts},
    "move": {"user": names, "messages": message_ids, "to": st.none() | ids},
    "undo": {},
}
MORE = {
    "merge": {"summary": texts, "reason": texts},
    "split": {"summaries": mostly(st.lists(texts, max_size=3)), "reason": texts},
    "rewrite": {"reason": texts},
    "move": {"summary": texts, "reason": texts},
    "undo": {"reason": texts},
}
wishes = st.sampled_from([*BODIES]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.fixed_dictionaries(BODIES[kind], optional=MORE[kind]))
)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wish=wishes, word=st.just("here") | st.just("here") | words, dry=st.sampled_from(["", "?dry_run=1"]))
def test_no_wish_whatever_breaks_an_endpoint(
    wish: tuple[str, dict[str, Any]], word: str, dry: str, topics: list[Topic], tireless: Program
) -> None:
    kind, body = wish
    live = list(Topic.objects.live().order_by("pk").values_list("pk", flat=True))
    topic = live[0] if word == "here" else quote(word)
    edit = TopicEdit.objects.latest("pk").pk if word == "here" else quote(word)
    method, path = {
        "merge": ("post", "/v1/topics/merge"),
        "split": ("post", f"/v1/topics/{topic}/split"),
        "rewrite": ("patch", f"/v1/topics/{topic}"),
        "move": ("post", "/v1/messages/move"),
        "undo": ("post", f"/v1/edits/{edit}/undo"),
    }[kind]
    content = re.sub(r"HERE(\d)", lambda match: str(live[int(match[1]) % len(live)]), json.dumps(body))
    answer = tireless.ask(method, path + dry, content.encode())
    if answer.status_code == 200:
        changed(answer)
    else:
        assert error_of(answer)[0] in {400, 404, 409, 422}, answer.content
    assert not Message.objects.filter(topic__isnull=True).exists()


# A program undoes the automatic merges of one night: all of them or none, with a dry run if it wants one.


ADDRESS = "/v1/edits/undo-night"


@pytest.fixture
def edits(anna: ChatUser, settings: Any) -> list[TopicEdit]:
    settings.CONSOLIDATION_SIMILARITY_THRESHOLD = 0.8
    return night(anna, 0, 5, 90, 95)


@pytest.mark.slow
def test_a_night_is_looked_at_undone_and_gone(anna: ChatUser, edits: list[TopicEdit]) -> None:
    program = Program(token_for(anna))
    planned = program.post(f"{ADDRESS}?dry_run=1", {"user": "anna"}).json()
    assert (planned["merges"], planned["edits"], Topic.objects.live().count()) == (2, [], 2)
    done = program.post(ADDRESS, {"user": "anna", "night": planned["night"], "reason": "too eager"}).json()
    assert {**done, "edits": []} == planned
    made = TopicEdit.objects.filter(pk__in=done["edits"])
    assert {(edit.undoes, edit.actor, edit.reason) for edit in made} == {
        (edit, "token a program", "too eager") for edit in edits
    }
    assert (history.nights(anna), Topic.objects.live().count()) == ([], 4)
    status, _code, sentence = error_of(program.post(ADDRESS, {"user": "anna"}))
    assert (status, sentence) == (409, "The program merged nothing that night, or it is undone already.")


@pytest.mark.slow
def test_what_stands_on_one_of_them_is_named_and_nothing_is_undone(anna: ChatUser, edits: list[TopicEdit]) -> None:
    renamed(anna, curation.put_in(edits[0])[0], 0)
    refused = Program(token_for(anna)).post(ADDRESS, {"user": "anna"})
    assert error_of(refused)[:2] == (409, "depends")
    assert [edit["kind"] for edit in refused.json()["error"]["edits"]] == ["edit"]
    assert Topic.objects.live().count() == 2
