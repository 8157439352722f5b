"""The list of runs, and the filter lab of a stored one."""

from __future__ import annotations

import html
import json
import re
import uuid
from dataclasses import asdict, replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from memoryapp.engine.events import CandidatesFound, to_payload
from memoryapp.engine.strategies.cuts import PRESETS, Cuts, apply_cuts, presets_of
from memoryapp.models import ChatUser, EmbeddingProfile, FilterPreset, Message, Operator, Run, RunEvent, Topic
from rerankui.frame import filters, pages
from rerankui.runs.page.filter_chart import chart
from rerankui.runs.page.outcomes import ADVICE, NAMES, SENTENCES
from rerankui.runs.tags import MOST_SHOWN, pretty_json
from rerankui.runs.views.runs import RunList
from tests.conftest import candidate, signed_in, talk
from tests.support.answering import COSINES, PROFILE, compared_run
from tests.support.browsing import HTMX, flat, get, link, opened_to, topic_of


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


# The filter lab of a stored run: thresholds change, counts agree, presets are saved, and the effect on other runs
# is shown.


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, *((f"Matter {number}", ["Which?", "This"]) for number in range(len(COSINES))))


@pytest.fixture
def lab_run(anna: ChatUser, topics: list[Topic]) -> Run:
    return compared_run(anna, topics, 0, 3)


def shown(client: Client, run: Run, part: str = "", **cuts: object) -> str:
    answer = client.get(f"/runs/{run.pk}/filter/{part}", cuts)
    assert answer.status_code == 200
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))


@pytest.mark.slow
def test_it_opens_with_the_balanced_cuts_and_every_topic_has_a_fate(as_viewer: Client, lab_run: Run) -> None:
    page = shown(as_viewer, lab_run)
    assert "3 kept 0 below the first stage 0 beyond the first stage 2 below the threshold 3 behind the gap" in page
    assert "0.85 → 0.67" in page
    assert page.count("behind the gap") == 1 + 3


def test_small_similarities_fill_the_picture_and_the_names_of_near_cuts_stand_apart() -> None:
    found = {"Topic:1": 0.28, "Topic:2": 0.14, "Topic:3": float("nan")}
    drawn = chart(apply_cuts(found, Cuts(10, 0.10, 0.11, 0.08, 3)))
    assert [round(tick.value, 2) for tick in drawn.ticks] == [0.0, 0.1, 0.2, 0.3]
    assert drawn.bars[0].height > 0.9 * (drawn.base - drawn.ticks[-1].y)
    assert [(line.name, line.is_under) for line in drawn.lines] == [("initial", True), ("threshold", False)]
    apart = chart(apply_cuts(found, Cuts(10, 0.10, 0.6, 0.08, 3)))
    assert max(tick.value for tick in apart.ticks) == 0.75
    assert not any(line.is_under for line in apart.lines)


def test_a_slider_moves_kept_and_removed_without_a_new_page(as_viewer: Client, lab_run: Run) -> None:
    answer = as_viewer.get(f"/runs/{lab_run.pk}/filter/", {"score_gap": "0.2"}, headers={"HX-Request": "true"})
    part = answer.content.decode()
    assert "<html" not in part
    assert 'id="cut-score_gap-value"' in part
    assert part.count("filter-row is-kept") == 3
    assert part.count("filter-row is-beyond_top_k") == 3
    assert RunEvent.objects.filter(run=lab_run).count() == 3


@pytest.mark.parametrize("value", ["", "nan", "inf", "-9", "1e999", "x" * 5000, "０.5"])
def test_a_cut_that_is_no_number_or_out_of_bounds_does_no_harm(as_viewer: Client, lab_run: Run, value: str) -> None:
    assert "kept" in shown(as_viewer, lab_run, threshold=value, final_top_k=value)


@pytest.mark.slow
def test_both_ways_of_keeping_nothing_read_differently(as_viewer: Client, lab_run: Run) -> None:
    assert "Nothing is similar enough (the best 0.92)" not in shown(
        as_viewer, lab_run, threshold=0.9, initial_threshold=0.9
    )
    low = compared_run(lab_run.owner, list(Topic.objects.order_by("pk")), 0)
    RunEvent.objects.filter(run=low, kind="candidates_found").update(payload=to_payload(CandidatesFound((), 0, 0.1)))
    assert "Nothing is similar enough" in shown(as_viewer, low)


@pytest.mark.slow
def test_a_preset_is_kept_for_its_embedding_profile_alone(
    as_debugger: Client, lab_run: Run, topics: list[Topic]
) -> None:
    profile = EmbeddingProfile.objects.create(provider="some", model="model", dimensions=3, threshold=0.1)
    cuts = Cuts(12, 0.2, 0.6, 0.3, 4)
    answer = as_debugger.post(f"/runs/{lab_run.pk}/filter/preset/", {"name": "  Mine ", **asdict(cuts)}, follow=True)
    assert answer.status_code == 200
    row = FilterPreset.objects.get()
    assert (row.name, row.profile, row.threshold, row.final_top_k, row.made_by) == ("Mine", profile, 0.6, 4, "dora")
    assert 'tag-accent" href' in answer.content.decode().replace("\n", "")
    assert "Mine" in shown(as_debugger, lab_run)
    EmbeddingProfile.objects.create(provider="other", model="model", dimensions=3, threshold=0.1)
    assert "Mine" not in shown(as_debugger, compared_run(lab_run.owner, topics, profile="other/model@3"))


@pytest.mark.parametrize("name", ["", "   ", "balanced", "Balanced", "SMALL memory", "Сбалансированный", "x" * 61])
def test_a_preset_needs_a_name_of_its_own(as_debugger: Client, lab_run: Run, name: str) -> None:
    EmbeddingProfile.objects.create(provider="some", model="model", dimensions=3, threshold=0.1)
    answer = as_debugger.post(f"/runs/{lab_run.pk}/filter/preset/", {"name": name})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()
    assert not FilterPreset.objects.exists()


def test_a_viewer_may_look_and_not_keep_presets(as_viewer: Client, lab_run: Run) -> None:
    assert "Save as preset" not in shown(as_viewer, lab_run)
    assert as_viewer.post(f"/runs/{lab_run.pk}/filter/preset/", {"name": "Mine"}).status_code == 403


@pytest.mark.slow
def test_another_memory_is_not_there(as_stranger: Client, lab_run: Run) -> None:
    for part in ("", "effect/"):
        assert as_stranger.get(f"/runs/{lab_run.pk}/filter/{part}").status_code == 404


def test_cuts_are_measured_on_what_models_chose_and_on_golden_questions(
    as_viewer: Client, anna: ChatUser, lab_run: Run, topics: list[Topic]
) -> None:
    evidence = Message.objects.filter(topic=topics[5]).values_list("pk", flat=True)[:1]
    compared_run(anna, topics, evidence=list(evidence))
    compared_run(anna, topics, 7, profile="other/model@3")
    page = shown(as_viewer, lab_run, "effect/", **{**asdict(PRESETS["balanced"]), "final_top_k": 6, "score_gap": 0.5})
    # Before, three topics were kept, and one of them was chosen; afterwards six are kept, two of them chosen, and the
    # evidence is found.
    assert "What models chose 1 0.33 → 0.33 0.50 → 1.00 3.0 → 6.0" in page
    assert "Golden questions 1 0.00 → 0.17 0.00 → 1.00 3.0 → 6.0" in page


def test_a_run_that_compared_words_alone_has_no_lab(as_viewer: Client, lab_run: Run) -> None:
    found = CandidatesFound((), 0, 0.1, note="out of reach")
    RunEvent.objects.filter(run=lab_run, kind="candidates_found").update(payload=to_payload(found))
    assert as_viewer.get(f"/runs/{lab_run.pk}/filter/").status_code == 404


def test_the_embedded_model_has_presets_of_its_own_scale() -> None:
    embedded = presets_of("embedded/use-multilingual-v3@512")
    assert embedded["balanced"].threshold < PRESETS["balanced"].threshold == presets_of(PROFILE)["balanced"].threshold


def test_topics_that_are_not_listed_are_counted_by_what_became_of_them(as_viewer: Client, lab_run: Run) -> None:
    """Some are below the threshold of the first stage, and some are only too many for it."""
    many = tuple(
        replace(candidate(topic_of(lab_run.owner, f"More {rank}", ["x"]), rank), cosine=0.9 - rank / 100)
        for rank in range(1, 61)
    )
    RunEvent.objects.filter(run=lab_run, kind="candidates_found").update(
        payload=to_payload(CandidatesFound(many, 60, 0.1))
    )
    page = shown(as_viewer, lab_run, initial_top_k=5, initial_threshold=0.5)
    assert "Not shown: 20 below the first stage, 20 beyond the first stage" in page


def test_the_preset_that_the_sliders_are_at_is_marked_as_they_move(as_viewer: Client, lab_run: Run) -> None:
    moved = flat(
        as_viewer.get(f"/runs/{lab_run.pk}/filter/?threshold=0.77", headers={"HX-Request": "true"}).content.decode()
    )
    assert 'id="filter-presets"' in moved
    assert 'hx-swap-oob="true"' in moved.split('id="filter-presets"')[1].split(">")[0]
    assert "aria-current" not in moved
    back = as_viewer.get(f"/runs/{lab_run.pk}/filter/", headers={"HX-Request": "true"}).content.decode()
    assert back.count("aria-current") == 1
