"""A run in one file: it contains what the run showed, masks what it is asked to, and opens in another installation."""

import json
import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from memoryapp.engine.events import ModelReplied, PromptMessage, QueryEnriched, RunFinished, ToolCall, TurnStarted
from memoryapp.engine.kinds.kind import ContextPart
from memoryapp.engine.kinds.react import ToolUsed
from memoryapp.engine.notes import Note
from memoryapp.insight import capsules
from memoryapp.insight.capsules import CapsuleError
from memoryapp.models import ChatUser, Fact, Person, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.followers import StoredEvent
from memoryapp.search.vectors import embed_pending
from rerankui.runs import capsule
from tests.conftest import talk
from tests.support.api_client import Program, error_of, token_for
from tests.support.executing import executed

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]

CALL = "Call Olga Petrova on +7 912 345-67-89 or olga@mail.example"


@pytest.fixture
def run(anna: ChatUser) -> Run:
    ChatUser.objects.filter(pk=anna.pk).update(profile="Son Emil has asthma.\nWorks at Ericsson.")
    anna.refresh_from_db()
    Person.objects.create(owner=anna, display_name="Ольга Петрова", aliases=["Olga Petrova"], first_seen=timezone.now())
    talk(
        anna,
        ("A boiler of Ольгой", [CALL, "Ольгу я спрошу, карта 4111 1111 1111 1111"]),
        ("Cake", ["Which <b>cake</b>?"]),
    )

    async def asked() -> None:
        await embed_pending(offline_embedder())
        await executed(made)

    made = lifecycle.start(anna, "Who repairs the boiler, Olga?")
    async_to_sync(asked)()
    made.refresh_from_db()
    return made


def test_the_file_shows_the_run_and_asks_no_server(run: Run) -> None:
    page = capsule.page(capsules.capsule_of(run))
    root = html.document_fromstring(page)
    assert CALL in root.text_content()
    hrefs = [each.get("href") for each in root.iter("a", "use", "link") if each.get("href")]
    assert [href for href in hrefs if not href.startswith("#")] == []
    assert {href[1:] for href in hrefs} <= {each.get("id") for each in root.iter() if each.get("id")}
    assert [
        each for each in root.iter() for name in each.attrib if name in ("src", "style") or name.startswith("hx-")
    ] == []
    assert "default-src 'none'" in root.xpath("//meta[@http-equiv]")[0].get("content")


def test_masked_it_contains_no_name_number_or_address(anna: ChatUser, run: Run) -> None:
    masked = capsules.masked(capsules.capsule_of(run), anna)
    written = json.dumps(capsules.document(masked), ensure_ascii=False)
    for private in ("Olga", "Petrova", "Ольг", "912 345", "4111 1111", "mail.example"):
        assert private not in written
    assert not [m.text for talk in masked.talks.values() for m in talk if any(map(str.isdigit, m.text))]
    assert min(masked.masked.values()) > 0
    shown = html.document_fromstring(capsule.page(masked)).text_content()
    assert "Olga" not in shown
    whole = capsules.capsule_of(run)
    assert [len(m.text) for talk in whole.talks.values() for m in talk] == [
        len(m.text) for talk in masked.talks.values() for m in talk
    ]


def test_what_is_known_of_people_stands_nowhere_in_a_masked_file(anna: ChatUser, run: Run) -> None:
    """Whether a name stands in the profile, in a fact, among people, in escapes, or in a field that no kind has."""
    at, bo = timezone.now(), {"first_seen": timezone.now(), "bio": "Has kept bees in Västerås since 1987"}
    Person.objects.create(owner=anna, display_name="Bo", aliases=["王伟"], username="bo_k", **bo)
    for content in ("Husband is Viktor Lindqvist, his salary is 5 200 euros", "Мать Прасковья живёт в Угличе"):
        about = {"relation": "x", "category": "x", "type": "status", "importance": 5, "created_at": at}
        Fact.objects.create(owner=anna, content=content, **about)
    earlier = "Daughter Freja is called Fi, and hates ￭Kista"
    loose = "Viktor earned 5,200 and Bo 5200, said \nВиктора no, Прасковье and Lindqvist; so did 王伟先生 of Freja"
    escaped = json.dumps({"query": loose, "ids": [42, 1987]})
    whole = capsules.capsule_of(run)
    events = [item.event for item in whole.events]
    said = f"<user_profile>\n{anna.profile}\n- {earlier}\n</user_profile>\n{escaped}\nSee {escaped}"
    called = ToolCall("call_1", "search", escaped)
    events[1:1] = [
        QueryEnriched("Who?", loose, f"unrelated: {loose}", 0.1, variables={"profile": earlier, "today": "2026-03-02"}),
        TurnStarted(1, "auto", "none", (PromptMessage("user", said),), variables={"profile": earlier, "query": loose}),
        ModelReplied(
            1, loose, loose, (called,), 1, 1, 0.0, 0.1, "m", error=loose, notes=(Note("x", {"new": [loose]}),)
        ),
        ToolUsed(1, "search", {"queries": [loose], loose: {loose: loose}}, {"unheard": [{"of": loose}]}, 0.1, "done"),
    ]
    assert isinstance(events[-1], RunFinished)
    parts = tuple(ContextPart(name, 1, 1, 1, f"<a>\n{earlier}\n{anna.profile}\n</a>") for name in ("profile", "new"))
    events[-1] = replace(events[-1], context=parts, stopped_by="ingmar")
    stored = [StoredEvent(seq, at, event) for seq, event in enumerate(events, 1)]
    masked = capsules.masked(replace(whole, events=stored, parameters={"author": "Viktor", "tool_mode": "auto"}), anna)
    written = json.dumps(capsules.document(masked), ensure_ascii=False)
    for file in (written, html.document_fromstring(capsule.page(masked)).text_content()):
        for private in (
            "Emil",
            "asthma",
            "Ericsson",
            "Viktor",
            "Lindqvist",
            "5 200",
            "5,200",
            "5200",
            "salary",
            "Угличе",
        ):
            assert private not in file, private
        for private in ("Прасков", "bees", "Västerås", "王伟", "Freja", "hates", "Kista", "ingmar", "bo_k", "\\u041f"):
            assert private not in file, private
        assert not re.search(r"\b(Bo|Fi)\b", file)
    assert masked.parameters["tool_mode"] == "auto"
    assert "2026-03-02" in written
    assert "no, " in written, "what is said beside names stays"
    assert min(masked.masked.values()) > 0
    assert capsules.opened(json.dumps(capsules.document(masked)).encode()).query == masked.query


def test_another_installation_opens_it_and_stores_nothing(run: Run, as_viewer: Client) -> None:
    written = as_viewer.get(reverse("run_capsule", args=[run.pk]), {"format": "json"})
    assert written["Content-Disposition"].startswith("attachment")
    content = written.content
    Run.objects.all().delete()
    ChatUser.objects.all().delete()
    shown = as_viewer.post(reverse("run_open"), {"file": SimpleUploadedFile("run.json", content)})
    assert (shown.status_code, CALL in shown.content.decode()) == (200, True)
    assert "Content-Security-Policy" not in shown.headers
    assert not Run.objects.exists()


def test_the_text_of_a_file_is_no_markup(run: Run, as_viewer: Client) -> None:
    document = capsules.document(capsules.capsule_of(run))
    hostile = '</style><script>alert("x")</script>'
    document["run"] |= {"query": hostile, "user": hostile}
    for listed in document["talks"].values():
        for message in listed:
            message["text"] = message["author"] = hostile
    shown = as_viewer.post(
        reverse("run_open"), {"file": SimpleUploadedFile("run.json", json.dumps(document).encode())}
    ).content.decode()
    assert hostile not in shown
    assert 'alert("x")' not in "".join(each.text or "" for each in html.document_fromstring(shown).iter("script"))


def test_a_name_that_no_topic_has_is_refused(run: Run) -> None:
    document = capsules.document(capsules.capsule_of(run))
    hostile = '"><b id="x">'
    id, talk_of_it = next(iter(document["talks"].items()))
    document["talks"] = {hostile: talk_of_it}
    renamed = json.dumps(document["events"]).replace(id, json.dumps(hostile)[1:-1])
    document["events"] = json.loads(renamed)
    with pytest.raises(CapsuleError):
        capsules.opened(json.dumps(document).encode())


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"format": "mnemoscope-run", "version": 2}', b"\xff\xfe", b'{"format": "mnemoscope-run"}'],
)
def test_what_is_no_run_is_refused_with_a_sentence(as_viewer: Client, content: bytes) -> None:
    refused = as_viewer.post(reverse("run_open"), {"file": SimpleUploadedFile("run.json", content)})
    assert (refused.status_code, 'role="alert"' in refused.content.decode()) == (422, True)


def test_an_event_of_any_shape_is_shown_or_refused(run: Run, as_viewer: Client) -> None:
    document = capsules.document(capsules.capsule_of(run))
    values = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2) | st.just({})

    @given(st.data())
    def law(data: st.DataObject) -> None:
        forged = json.loads(json.dumps(document))
        event = data.draw(st.sampled_from(forged["events"]))
        event["payload"][data.draw(st.sampled_from(sorted(event["payload"])))] = data.draw(values)
        sent = SimpleUploadedFile("run.json", json.dumps(forged).encode())
        assert as_viewer.post(reverse("run_open"), {"file": sent}).status_code in (200, 422)

    law()
    with pytest.raises(CapsuleError):
        capsules.opened(json.dumps({**document, "events": document["events"][1:]}).encode())


def test_a_run_that_goes_on_is_no_file_yet_and_of_others_there_is_none(
    anna: ChatUser, boris: ChatUser, run: Run, as_viewer: Client, as_stranger: Client
) -> None:
    going = Run.objects.create(owner=anna, query="?", strategy="flash", state=Run.State.RUNNING)
    assert as_viewer.get(reverse("run_capsule", args=[going.pk])).status_code == 404
    assert as_stranger.get(reverse("run_capsule", args=[run.pk])).status_code == 404
    program = Program(token_for(anna, scopes=("read",)))
    assert error_of(program.ask("get", f"/v1/runs/{going.pk}/capsule"))[0] == 409
    assert error_of(program.ask("get", f"/v1/runs/{uuid4()}/capsule"))[0] == 404
    assert error_of(Program(token_for(boris, scopes=("read",))).ask("get", f"/v1/runs/{run.pk}/capsule"))[0] == 404
    read: Any = program.ask("get", f"/v1/runs/{run.pk}/capsule?format=json&mask=1").json()
    assert (read["format"], read["masked"]["names"] > 0) == ("mnemoscope-run", True)
    assert program.ask("get", f"/v1/runs/{run.pk}/capsule")["Content-Type"].startswith("text/html")
