"""The list of runs, and the filter lab of a stored one."""

import html
import re
import uuid
from dataclasses import asdict, replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from memoryapp.engine.events import CandidatesFound, to_payload
from memoryapp.engine.strategies.cuts import PRESETS, Cuts, presets_of
from memoryapp.models import ChatUser, EmbeddingProfile, FilterPreset, Message, Operator, Run, RunEvent, Topic
from rerankui.frame import filters, pages
from rerankui.runs.tags import MOST_SHOWN, pretty_json
from rerankui.runs.views.runs import RunList
from tests.conftest import candidate, signed_in, talk
from tests.support.answering import COSINES, PROFILE, compared_run
from tests.support.browsing import HTMX, get, link, opened_to, topic_of


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


def test_who_looks_for_a_choice_finds_people_and_files_too(anna: ChatUser, as_viewer: Client) -> None:
    run(anna, "in vain", selected_count=0)
    run(anna, "which file", selected_count=0, selected_artifact_count=1)
    run(anna, "who", selected_count=0, selected_people_count=1)
    run(anna, "late", selected_count=5, fallback="timeout")
    assert queries(get(as_viewer, "/runs/?outcome=chosen")) == ["who", "which file"]
    assert queries(get(as_viewer, "/runs/?outcome=none")) == ["in vain"]


@pytest.mark.parametrize("answer", ["9" * 5_000, "[" * 100_000, '{"a":' * 50_000, "no JSON", "\ud800"])
def test_an_answer_that_is_no_json_is_shown_as_it_came(answer: str) -> None:
    shown = pretty_json(answer)
    assert shown[:MOST_SHOWN] == answer[:MOST_SHOWN]
    assert len(shown) <= MOST_SHOWN + 100


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
