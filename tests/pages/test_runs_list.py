"""The list of runs: filtered by any address, and the texts of a run's page."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from memoryapp.models import ChatUser, Operator, Run, RunEvent
from rerankui.frame import filters, pages
from rerankui.runs.page.outcomes import ADVICE, NAMES, SENTENCES
from rerankui.runs.tags import MOST_SHOWN, pretty_json
from rerankui.runs.views.runs import RunList
from tests.conftest import signed_in
from tests.support.browsing import HTMX, get, link, opened_to


def run(owner: ChatUser, query: str, **more: Any) -> Run:
    given = {"strategy": "flash", "state": "finished", "selected_count": 0 if more.get("fallback") else 1, **more}
    return Run.objects.create(owner=owner, query=query, **given)


def queries(page: str) -> list[str]:
    return re.findall(r"data-open>([^<]+)</a>", page)


@pytest.fixture
def listed(anna: ChatUser, boris: ChatUser) -> None:
    run(boris, "tomatoes", strategy="vector")
    run(anna, "late", fallback="timeout")
    run(anna, "still going", state="running")
    run(anna, "in vain", selected_count=0)
    run(anna, "well chosen")


def test_a_run_that_cost_nothing_lists_no_amount(anna: ChatUser, as_admin: Client) -> None:
    run(anna, "by the embedded model")
    assert "$" not in get(as_admin, "/runs/")
    run(anna, "by an endpoint", cost_usd=0.0123)
    assert "$0.0123" in get(as_admin, "/runs/")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("", ["well chosen", "in vain", "still going", "late", "tomatoes"]),
        ("?q=CHOSEN", ["well chosen"]),
        ("?user=boris", ["tomatoes"]),
        ("?strategy=vector", ["tomatoes"]),
        ("?outcome=timeout", ["late"]),
        ("?outcome=chosen", ["well chosen", "tomatoes"]),
        ("?outcome=none", ["in vain"]),
        ("?user=anna&outcome=chosen&strategy=flash&q=well", ["well chosen"]),
        ("?strategy=psychic&outcome=unheard", ["well chosen", "in vain", "still going", "late", "tomatoes"]),
        ("?user=unheard", []),
    ],
)
@pytest.mark.usefixtures("listed")
def test_runs_are_narrowed_by_words_memory_strategy_and_outcome(
    address: str, found: list[str], as_admin: Client
) -> None:
    page = get(as_admin, f"/runs/{address}")
    assert queries(page) == found
    assert ("Show all runs" in page) == (not found)


@pytest.mark.parametrize("name", ["q", "user", "strategy", "outcome", "after", "before", "sort"])
@pytest.mark.parametrize("value", ["%00", "a%00b", "%ED%A0%80", "x" * 3000])
@pytest.mark.usefixtures("listed")
def test_an_address_nobody_wrote_shows_a_list_all_the_same(name: str, value: str, as_admin: Client) -> None:
    assert '<section class="panel" id="list">' in get(as_admin, f"/runs/?{name}={value}")


def test_the_next_page_is_narrowed_like_the_first(
    anna: ChatUser, as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunList, "size", 2)
    for number in range(5):
        run(anna, f"wanted {number}", fallback="timeout")
        run(anna, f"other {number}")
    seen, address = [], "/runs/?q=wanted&user=anna&strategy=flash&outcome=timeout"
    while address:
        page = get(as_viewer, address)
        seen += queries(page)
        following = link(page, "next")
        address = f"/runs/{following}" if following else ""
    assert seen == [f"wanted {number}" for number in range(4, -1, -1)]


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("newest", ["5", "4", "3", "2", "1", "0"]),
        ("oldest", ["0", "1", "2", "3", "4", "5"]),
        ("longest", ["2", "5", "1", "4", "0", "3"]),
        ("shortest", ["3", "0", "4", "1", "5", "2"]),
        ("costliest", ["0", "2", "4", "1", "3", "5"]),
        ("by moon phase", ["5", "4", "3", "2", "1", "0"]),
    ],
)
def test_runs_are_sorted_across_pages_with_the_filters_kept(
    sort: str, found: list[str], anna: ChatUser, as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunList, "size", 2)
    for number, (seconds, cost) in enumerate([(1, 0.3), (2.5, 0), (9, 0.2), (0.1, 0), (1.5, 0.1), (3, 0)]):
        # Of runs with the same cost, the one with the larger id comes first.
        id = uuid.UUID(int=1000 - number)
        run(anna, str(number), id=id, seconds=seconds, cost_usd=cost, strategy="vector")
        run(anna, f"other {number}", seconds=seconds, cost_usd=cost)
    seen, shown, address = [], [], f"?strategy=vector&sort={sort}"
    while address:
        shown.append(get(as_viewer, f"/runs/{address}"))
        seen += queries(shown[-1])
        address = link(shown[-1], "next") or ""
    assert seen == found
    back = get(as_viewer, f"/runs/{link(shown[-1], 'prev')}")
    assert queries(back) == found[2:4]
    assert "strategy=vector" in back


def test_a_head_sorts_and_says_so(anna: ChatUser, as_viewer: Client) -> None:
    run(anna, "tea", cost_usd=0.1)
    page = get(as_viewer, "/runs/?user=anna&sort=longest")
    assert 'aria-sort="descending"><a href="?user=anna&amp;sort=shortest">Time ↓</a>' in page
    assert '<a href="?user=anna&amp;sort=costliest">Cost</a>' in page
    assert 'name="sort" value="longest"' in page
    assert "aria-sort" not in get(as_viewer, f"/memory/{anna.pk}/")


@pytest.mark.usefixtures("listed")
def test_typing_swaps_the_list_alone(as_admin: Client) -> None:
    part = get(as_admin, "/runs/?q=late", **HTMX)
    assert part.strip().startswith('<section class="panel" id="list">')
    assert queries(part) == ["late"]


def test_the_newest_runs_are_read_by_an_index(anna: ChatUser, boris: ChatUser, admin: Operator) -> None:
    Run.objects.bulk_create(Run(owner=(anna, boris)[n % 2], query="?", strategy="flash") for n in range(2_000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memoryapp_run, memoryapp_chatuser, auth_user")
    owners = ChatUser.objects.seen_by(admin)
    listed = Run.objects.by_hand().filter(owner__in=owners).select_related("owner", "operator")
    assert "run_by_hand" in listed.order_by("-created_at", "-pk")[: pages.PAGE_SIZE + 1].explain()


def test_a_memory_beyond_those_that_can_be_picked_is_found_by_its_address(
    viewer: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_OWNERS", 1)
    opened_to(viewer, 2)
    last = ChatUser.objects.last()
    assert last
    page = get(signed_in(viewer), f"/runs/?user={last.name}")
    assert f'<option value="{last.name}" selected>' in page
    assert len(queries(page)) == 1


def test_every_outcome_has_a_name_a_sentence_and_advice() -> None:
    assert list(NAMES) == list(SENTENCES) == list(ADVICE)


@pytest.mark.slow
@pytest.mark.parametrize("code", SENTENCES)
def test_an_outcome_is_shown_in_words_and_its_code_on_pointing_at_it(
    code: str, anna: ChatUser, as_debugger: Client
) -> None:
    run(anna, "the question", fallback=code)
    words = str(NAMES[code])
    assert words != code
    for address in ("/runs/", "/", f"/memory/{anna.pk}/", f"/memory/{anna.pk}/recall/"):
        page = get(as_debugger, address)
        assert re.search(rf' title="{code}">(<span class="state-dot is-fallback"></span>)?{words}<', page), address
    assert f'<option value="{code}">{words}</option>' in get(as_debugger, "/runs/")


def test_an_outcome_of_another_version_is_shown_by_its_code(anna: ChatUser, as_viewer: Client) -> None:
    run(anna, "the question", fallback="eclipse")
    assert "</span>eclipse</span>" in get(as_viewer, "/runs/")


def test_a_run_that_chose_nothing_is_not_drawn_as_one_that_did(anna: ChatUser, as_viewer: Client) -> None:
    run(anna, "in vain", selected_count=0)
    page = get(as_viewer, f"/memory/{anna.pk}/")
    assert '<span class="tag tag-none">nothing fits</span>' in page
    assert '<span class="state-dot is-none"></span>nothing fits</td>' in get(as_viewer, "/runs/")


@pytest.mark.parametrize("outcome", ["refused", "passages"])
def test_a_question_without_an_answer_is_not_drawn_as_something_chosen(
    outcome: str, anna: ChatUser, as_debugger: Client
) -> None:
    asked = run(anna, "is there a dog", selected_count=9, strategy="react")
    payload = {"text": "", "citations": [], "outcome": outcome, "coverage": 0.4, "by": "model"}
    RunEvent.objects.create(owner=anna, run=asked, seq=9, kind="answered", at=timezone.now(), payload=payload)
    run(anna, "which cake", selected_count=2)
    run(anna, "who came", selected_count=0, selected_people_count=1)
    for address in ("/", f"/memory/{anna.pk}/", f"/memory/{anna.pk}/recall/", "/runs/"):
        page = get(as_debugger, address)
        assert "no answer" in page, address
        assert "9 topics" not in page, address
    page = get(as_debugger, "/runs/?outcome=chosen")
    assert ("which cake" in page, "who came" in page, "is there a dog" in page) == (True, True, False)
    page = get(as_debugger, "/runs/?outcome=unanswered")
    assert ("which cake" in page, "is there a dog" in page) == (False, True)
    assert '<span class="state-dot is-unanswered"></span>no answer' in page
    page = get(as_debugger, "/runs/?ended=chosen")
    assert ("which cake" in page, "who came" in page, "is there a dog" in page) == (True, True, False)


EVERYTHING = {"selected_count": 1, "selected_people_count": 1, "selected_artifact_count": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "words", "in_short"),
    [
        ({"selected_count": 2}, "2 topics", "2 topics"),
        (EVERYTHING, "1 topic, 1 person, 2 artifacts", "1 topic +3"),
        ({**EVERYTHING, "selected_count": 0}, "1 person, 2 artifacts", "1 person +2"),
        ({"selected_count": 0, "selected_people_count": 3}, "3 people", "3 people"),
        ({"selected_count": 0, "selected_artifact_count": 1}, "1 artifact", "1 artifact"),
    ],
)
def test_a_run_is_listed_with_everything_it_chose(
    chosen: dict[str, int], words: str, in_short: str, anna: ChatUser, as_debugger: Client
) -> None:
    run(anna, "the question", **chosen)
    for address in ("/runs/", f"/memory/{anna.pk}/recall/"):
        outcome = get(as_debugger, address).split('<span class="state-dot is-chosen"></span>')[1].split("</td>")[0]
        assert re.sub(r"<[^>]+>", "", outcome.replace("<br>", ", ")) == words
    for address in ("/", f"/memory/{anna.pk}/"):
        assert f'<span class="tag tag-chosen" title="{words}">{in_short}</span>' in get(as_debugger, address)


def test_who_looks_for_a_choice_finds_people_and_files_too(anna: ChatUser, as_viewer: Client) -> None:
    run(anna, "in vain", selected_count=0)
    run(anna, "which file", selected_count=0, selected_artifact_count=1)
    run(anna, "who", selected_count=0, selected_people_count=1)
    run(anna, "late", selected_count=5, fallback="timeout")
    assert queries(get(as_viewer, "/runs/?outcome=chosen")) == ["who", "which file"]
    assert queries(get(as_viewer, "/runs/?outcome=none")) == ["in vain"]


def test_the_runs_of_one_memory_have_the_same_columns_but_not_its_name(anna: ChatUser, as_debugger: Client) -> None:
    run(anna, "the question")
    heads = {address: get(as_debugger, address) for address in ("/runs/", f"/memory/{anna.pk}/recall/")}
    assert ["<th>Chat user</th>" in page for page in heads.values()] == [True, False]
    assert all('<th class="num">Tokens</th>' in page for page in heads.values())


@pytest.mark.parametrize("answer", ["9" * 5_000, "[" * 100_000, '{"a":' * 50_000, "no JSON", "\ud800"])
def test_an_answer_that_is_no_json_is_shown_as_it_came(answer: str) -> None:
    shown = pretty_json(answer)
    assert shown[:MOST_SHOWN] == answer[:MOST_SHOWN]
    assert len(shown) <= MOST_SHOWN + 100


def test_json_is_indented_and_a_flood_of_it_is_cut() -> None:
    assert pretty_json('{"topics":[{"id":"Topic:1"}]}').splitlines()[1] == '  "topics": ['
    assert pretty_json('"привет"') == '"привет"'
    flood = pretty_json(json.dumps([[] for _ in range(30_000)]))
    deep = pretty_json("[" * 900 + "]" * 900)
    for shown in (flood, deep):
        assert len(shown) <= MOST_SHOWN + 100
    assert flood.endswith("K characters more")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("page", "without"),
    [
        ("recall", "No chat model is connected: the embedded scorer chooses."),
        ("ask", "No chat model is connected, so nothing is answered in words."),
    ],
)
def test_where_one_asks_stands_which_model_chooses(
    anna: ChatUser, as_debugger: Client, settings: Any, page: str, without: str
) -> None:
    address = f"/memory/{anna.pk}/{page}/"
    assert without in get(as_debugger, address)
    settings.LLM_BASE_URL, settings.RERANKER_MODEL = "http://model.example/v1", "acme/reranker"
    assert "acme/reranker at model.example chooses." in get(as_debugger, address)
