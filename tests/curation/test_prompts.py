"""The pages of prompts: who may do what, no typed text is lost, and another prompt on a past run."""

import re
from dataclasses import replace
from datetime import date
from html import unescape
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    PromptMessage,
    QueryEnriched,
    RunFinished,
    RunStarted,
    TurnStarted,
)
from memoryapp.engine.prompt_registry import built_in
from memoryapp.engine.prompts.prompt import faults, rendered
from memoryapp.engine.prompts.rerank import RerankRequest, rerank_variables
from memoryapp.models import ChatUser, Prompt, Run, Topic
from memoryapp.platform.llm import prompt_versions
from memoryapp.runs import followers, lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.runs.runner import runner
from rerankui.text.words import FAULTS, fault_words
from tests.conftest import candidate, talk
from tests.runs.stored_events import store
from tests.support.browsing import flat

KEY = ("rerank", "en")
ENGLISH = built_in()[KEY]
PAGE = "/prompts/rerank/en/"


def typed(action: str, words: str = "Be brief.", **more: Any) -> dict[str, Any]:
    """Returns what the form sends after ``words`` were added, with the line ends of a browser."""
    system = f"{ENGLISH.system}\n{words}".replace("\n", "\r\n")
    sent = {"system": system, "user": ENGLISH.user, "note": "", "base": 0, "seen": 0, "action": action}
    return {**sent, **more}


def one(events: list[Event], kind: type[Any]) -> Any:
    return next(event for event in events if isinstance(event, kind))


def execute(run: Run) -> None:
    """Executes the run to its end in this process, with the embedded models."""

    async def executed() -> None:
        async with open_clients() as clients:
            await lifecycle.execute(run.pk, clients)

    async_to_sync(executed)()


def page_of(answer: Any) -> str:
    return unescape(flat(answer.content.decode()))


@pytest.mark.parametrize(
    "address", ["/prompts/", PAGE, f"{PAGE}0/", f"{PAGE}diff/", "/prompts/enrich/ru/", "/prompts/split/ru/"]
)
def test_a_viewer_reads_every_page_and_is_offered_nothing_to_press(address: str, as_viewer: Client) -> None:
    page = page_of(as_viewer.get(address))
    assert "built in" in page or "rerank-en-0" in page
    assert 'name="action"' not in page


@pytest.mark.parametrize("address", ["/prompts/poem/en/", "/prompts/rerank/de/", f"{PAGE}7/", f"{PAGE}99999999999/"])
def test_a_prompt_that_there_is_not_is_not_found(address: str, as_admin: Client) -> None:
    assert as_admin.get(address).status_code == 404


def test_a_viewer_may_not_write(as_viewer: Client) -> None:
    for action in ("check", "save", "force"):
        assert as_viewer.post(PAGE, typed(action)).status_code == 403
    assert as_viewer.post(f"{PAGE}0/").status_code == 403
    assert not Prompt.objects.exists()


def test_a_debugger_keeps_a_draft_but_puts_nothing_in_force(as_debugger: Client) -> None:
    answer = as_debugger.post(PAGE, typed("save", note="shorter"))
    assert answer["Location"] == f"{PAGE}1/"
    row = Prompt.objects.get()
    assert (row.made_by, row.note, row.in_force) == ("dora", "shorter", False)
    assert "\r" not in row.system
    assert row.system.endswith("Be brief.")
    assert as_debugger.post(PAGE, typed("force", "Briefer.", seen=1)).status_code == 403
    assert as_debugger.post(f"{PAGE}1/").status_code == 403
    assert prompt_versions.in_force_now() == built_in()
    assert Prompt.objects.count() == 1


def test_an_admin_puts_in_force_and_goes_back(as_admin: Client) -> None:
    as_admin.post(PAGE, typed("force"))
    assert prompt_versions.in_force_now()[KEY].version == 1
    as_admin.post(PAGE, typed("force", "Briefer.", seen=1))
    assert prompt_versions.in_force_now()[KEY].version == 2
    answer = as_admin.post(f"{PAGE}1/", follow=True)
    assert prompt_versions.in_force_now()[KEY].version == 1
    assert "From the next run on rerank-en-1 is used." in page_of(answer)
    answer = as_admin.post(f"{PAGE}0/", follow=True)
    assert prompt_versions.in_force_now() == built_in()
    assert "the built-in text is used" in page_of(answer)


@pytest.mark.slow
def test_every_page_tells_who_put_what_is_in_force_there(as_admin: Client, as_debugger: Client) -> None:
    as_debugger.post(PAGE, typed("save"))
    assert "put in force" not in page_of(as_admin.get("/prompts/"))
    as_admin.post(f"{PAGE}1/")
    for address in ("/prompts/", PAGE, f"{PAGE}1/"):
        assert re.search(r"put in force <time [^>]+>just now</time> by ada", page_of(as_admin.get(address))), address
    as_admin.post(f"{PAGE}0/")
    for address in ("/prompts/", PAGE, f"{PAGE}0/"):
        assert re.search(r"put in force <time [^>]+>just now</time> by ada", page_of(as_admin.get(address))), address
    assert re.search(r"replaced <time [^>]+>just now</time> by ada", page_of(as_admin.get(f"{PAGE}1/")))


def test_the_built_in_text_that_stands_in_for_an_unusable_one_was_put_in_force_by_nobody(as_admin: Client) -> None:
    as_admin.post(PAGE, typed("force"))
    Prompt.objects.update(user="no variable")
    page = page_of(as_admin.get("/prompts/"))
    assert "cannot be used by this version" in page
    assert "put in force" not in page


def test_the_changes_are_shown_before_anything_is_saved(as_debugger: Client) -> None:
    page = page_of(as_debugger.post(PAGE, typed("check", "Be brief.")))
    assert re.search(r'class="diff-added".*?<span class="diff-sign">\+</span>Be brief\.', page, re.S)
    assert "Be brief.</textarea>" not in page.split('id="changes"')[0]
    assert not Prompt.objects.exists()


def test_a_broken_text_is_refused_with_sentences_and_stays_in_the_form(as_admin: Client) -> None:
    answer = as_admin.post(PAGE, typed("force", "It costs 5$ and $qurey."))
    page = page_of(answer)
    assert answer.status_code == 422
    assert "System message: a $ that begins no variable. Write $$ for a dollar sign." in page
    assert "System message: $qurey is not a variable of this prompt." in page
    assert "It costs 5$ and $qurey.\n</textarea>" in page or "It costs 5$ and $qurey.</textarea>" in page
    assert not Prompt.objects.exists()


@pytest.mark.parametrize(("field", "value"), [("system", ""), ("user", "x" * 40_001), ("base", "soon"), ("seen", "-1")])
def test_what_is_no_prompt_at_all_is_refused(field: str, value: str, as_admin: Client) -> None:
    for action in ("check", "save"):
        assert as_admin.post(PAGE, typed(action, **{field: value})).status_code == 422
    assert not Prompt.objects.exists()


def test_the_second_of_two_editors_sees_what_the_first_changed_and_keeps_their_text(
    as_admin: Client, as_debugger: Client
) -> None:
    as_admin.post(PAGE, typed("save", "Mine was first."))
    answer = as_debugger.post(PAGE, typed("save", "Mine was second."))
    page = page_of(answer)
    assert answer.status_code == 409
    assert "ada saved rerank-en-1" in page
    assert "+</span>Mine was first." in page
    assert "Mine was second.</textarea>" in page.replace("\r\n", "\n")
    assert Prompt.objects.count() == 1
    seen = re.search(r'name="seen" value="(\d+)"', page)
    assert seen
    as_debugger.post(PAGE, typed("save", "Mine was second.", seen=seen[1]))
    assert [row.made_by for row in prompt_versions.history(KEY)] == ["dora", "ada"]


def test_an_unchanged_text_makes_no_version(as_admin: Client) -> None:
    answer = as_admin.post(PAGE, {**typed("save"), "system": ENGLISH.system})
    assert answer.status_code == 422
    assert "This text is already stored" in page_of(answer)
    assert not Prompt.objects.exists()


def test_any_two_versions_stand_side_by_side(as_admin: Client, as_viewer: Client) -> None:
    as_admin.post(PAGE, typed("save", "Answer in verse."))
    as_admin.post(PAGE, typed("save", "Answer in prose.", seen=1))
    page = page_of(as_viewer.get(f"{PAGE}diff/", {"from": "1", "to": "2"}))
    assert "Answer in <del>verse</del>." in page
    assert "Answer in <ins>prose</ins>." in page
    assert "Word for word the same." in page_of(as_viewer.get(f"{PAGE}diff/", {"from": "2", "to": "2"}))
    assert as_viewer.get(f"{PAGE}diff/", {"from": "9"}).status_code == 404


@pytest.mark.slow
def test_a_text_is_shown_as_text(as_admin: Client, as_viewer: Client) -> None:
    as_admin.post(PAGE, typed("save", "</textarea></pre><script>alert(1)</script>", note="<b>bold</b>"))
    for address in (PAGE, f"{PAGE}?from=1", f"{PAGE}1/", f"{PAGE}diff/?to=1", "/prompts/"):
        for client in (as_admin, as_viewer):
            page = client.get(address).content.decode()
            assert "<script>alert" not in page
            assert "<b>bold" not in page


@pytest.mark.slow
def test_the_list_tells_what_is_in_force_and_costs_the_same_however_long_the_history(
    as_admin: Client, as_viewer: Client
) -> None:
    def cost() -> int:
        as_viewer.get("/prompts/")
        with CaptureQueriesContext(connection) as queries:
            as_viewer.get("/prompts/")
        return len(queries)

    as_admin.post(PAGE, typed("force", note="first try"))
    before = cost()
    for number in range(1, 6):
        as_admin.post(PAGE, typed("save", f"Take {number}.", seen=number))
    page = page_of(as_viewer.get("/prompts/"))
    assert "rerank-en-1" in page
    assert "rerank-en-6" in page
    assert "first try" in page
    assert cost() == before


def test_every_fault_of_the_engine_is_shown_in_the_readers_language() -> None:
    broken = replace(ENGLISH, system="$nothing 5$ " + "x" * 50_000, user="")
    found = faults(broken)
    assert {fault.code for fault in found} == FAULTS.keys()
    for language in ("en", "ru"):
        with translation.override(language):
            assert all("%" not in fault_words(fault) and fault.name in fault_words(fault) for fault in found)


# another prompt on a past run


@pytest.fixture
def topic(anna: ChatUser) -> Topic:
    return talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]))[0]


def events_of(topic: Topic) -> list[Event]:
    found = candidate(topic)
    request = RerankRequest("vllm?", "vllm H100", (found,), (found.id,), date(2026, 3, 4))
    variables = rerank_variables(request)
    prompt = tuple(PromptMessage(m["role"], m["content"]) for m in rendered(ENGLISH, variables))
    return [
        RunStarted("flash", "vllm?", {"max_topics": 15}, "rerank-en-0", "peer", ""),
        QueryEnriched("vllm?", "vllm H100", "", 0.1),
        CandidatesFound((found,), 1, 0.02),
        TurnStarted(1, "forced", "none", prompt, "rerank-en-0", variables),
        RunFinished((), (), "", ""),
    ]


@pytest.fixture
def parent(anna: ChatUser, topic: Topic) -> Run:
    run = Run.objects.create(
        owner=anna, query="vllm?", strategy="flash", parameters={"max_topics": 3}, messages=[], evidence=[1]
    )
    store(run, events_of(topic))
    return run


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    begun: list[Any] = []
    monkeypatch.setattr(runner, "launch", begun.append)
    return begun


def test_the_text_of_the_run_renders_exactly_to_what_its_model_received(parent: Run, as_viewer: Client) -> None:
    page = page_of(as_viewer.get(f"/runs/{parent.pk}/prompt/"))
    assert "Exactly what the model was sent." in page
    assert f"Topic:{Topic.objects.get().pk}" in page


def test_a_preview_fills_the_edited_text_with_what_the_run_knew(
    parent: Run, as_debugger: Client, launched: list[Any]
) -> None:
    sent = typed("preview", user=ENGLISH.user.replace("Today: $today", "It is $today now"))
    page = page_of(as_debugger.post(f"/runs/{parent.pk}/prompt/", sent))
    assert "<ins>It is</ins> 2026-03-04<ins> now</ins>" in page
    assert "+</span>Be brief." in page
    assert launched == []
    assert not Prompt.objects.exists()


def test_trying_keeps_a_draft_and_asks_the_same_again(parent: Run, as_debugger: Client, launched: list[Any]) -> None:
    answer = as_debugger.post(f"/runs/{parent.pk}/prompt/", typed("try"))
    again = Run.objects.exclude(pk=parent.pk).get()
    prompt = Prompt.objects.get()
    assert answer["Location"] == f"/runs/{again.pk}/"
    assert launched == [again.pk]
    assert (prompt.in_force, prompt.made_by, prompt.note) == (False, "dora", f"tried on run {parent.short_id}")
    assert (again.parent, again.prompt) == (parent, prompt)
    assert (again.owner, again.query, again.messages, again.evidence) == (parent.owner, "vllm?", [], [1])
    assert again.parameters["max_topics"] == 3
    assert again.operator
    assert again.operator.username == "dora"


def test_a_broken_text_is_not_tried(parent: Run, as_debugger: Client, launched: list[Any]) -> None:
    answer = as_debugger.post(f"/runs/{parent.pk}/prompt/", typed("try", "$nonsense"))
    assert answer.status_code == 422
    assert "$nonsense is not a variable" in page_of(answer)
    assert launched == []
    assert not Prompt.objects.exists()


def test_a_viewer_looks_at_the_preview_but_tries_nothing(parent: Run, as_viewer: Client, launched: list[Any]) -> None:
    assert 'value="try"' not in page_of(as_viewer.get(f"/runs/{parent.pk}/prompt/"))
    assert as_viewer.post(f"/runs/{parent.pk}/prompt/", typed("try")).status_code == 403
    assert launched == []


def test_a_run_that_kept_no_variables_says_that_it_cannot_be_tried_again(
    anna: ChatUser, topic: Topic, as_debugger: Client, launched: list[Any]
) -> None:
    older = Run.objects.create(owner=anna, query="vllm?", strategy="flash")
    store(older, [event for event in events_of(topic) if not isinstance(event, TurnStarted)])
    assert "This run cannot be tried again." in page_of(as_debugger.get(f"/runs/{older.pk}/prompt/"))
    assert as_debugger.post(f"/runs/{older.pk}/prompt/", typed("try")).status_code == 409
    assert launched == []


@pytest.mark.slow
def test_a_page_of_a_prompt_offers_the_runs_that_used_it(parent: Run, as_debugger: Client, as_stranger: Client) -> None:
    page = page_of(as_debugger.get(PAGE))
    assert f"/runs/{parent.pk}/prompt/" in page
    assert "1 run<" in page
    assert f"/runs/{parent.pk}/prompt/" not in page_of(as_debugger.get("/prompts/rerank/ru/"))
    assert f"/runs/{parent.pk}/prompt/" not in page_of(as_stranger.get(PAGE))
    assert as_stranger.get(f"/runs/{parent.pk}/prompt/").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_the_new_run_uses_the_draft_and_the_same_candidates(
    anna: ChatUser, as_debugger: Client, launched: list[Any]
) -> None:
    talk(anna, ("vLLM crash", ["vLLM dies with OOM", "Lower it"]), ("Cake", ["Which cake?", "Honey"]))
    call_command("recall", "why does vLLM crash?", "--user", "anna", verbosity=0)
    parent = Run.objects.get()
    talk(anna, ("vLLM again", ["vLLM crash again", "Restart it"]))
    as_debugger.post(f"/runs/{parent.pk}/prompt/", typed("try", "Answer in verse."))
    again = Run.objects.exclude(pk=parent.pk).get()
    execute(again)
    before, after = ([item.event for item in followers.stored(run.pk)] for run in (parent, again))
    assert one(after, RunStarted).prompt_version == one(after, TurnStarted).prompt_version == "rerank-en-1"
    assert one(after, TurnStarted).prompt[0].content.endswith("Answer in verse.")
    assert [c.id for c in one(after, CandidatesFound).candidates] == [
        c.id for c in one(before, CandidatesFound).candidates
    ]
    again.refresh_from_db()
    assert again.prompt_version == "rerank-en-1"
