"""The filter lab of a stored run: thresholds change, counts agree, presets are saved, and the effect on other runs is
shown."""

from __future__ import annotations

import html
import re
from dataclasses import asdict, replace

import pytest
from django.test import Client

from memoryapp.engine.events import CandidatesFound, to_payload
from memoryapp.engine.strategies.cuts import PRESETS, Cuts, apply_cuts, presets_of
from memoryapp.models import ChatUser, EmbeddingProfile, FilterPreset, Message, Run, RunEvent, Topic
from rerankui.runs.page.filter_chart import chart
from tests.conftest import candidate, talk
from tests.support.answering import COSINES, PROFILE, compared_run
from tests.support.browsing import flat, topic_of


@pytest.fixture
def topics(anna: ChatUser) -> list[Topic]:
    return talk(anna, *((f"Matter {number}", ["Which?", "This"]) for number in range(len(COSINES))))


@pytest.fixture
def run(anna: ChatUser, topics: list[Topic]) -> Run:
    return compared_run(anna, topics, 0, 3)


def shown(client: Client, run: Run, part: str = "", **cuts: object) -> str:
    answer = client.get(f"/runs/{run.pk}/filter/{part}", cuts)
    assert answer.status_code == 200
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))


@pytest.mark.slow
def test_it_opens_with_the_balanced_cuts_and_every_topic_has_a_fate(as_viewer: Client, run: Run) -> None:
    page = shown(as_viewer, run)
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


def test_a_slider_moves_kept_and_removed_without_a_new_page(as_viewer: Client, run: Run) -> None:
    answer = as_viewer.get(f"/runs/{run.pk}/filter/", {"score_gap": "0.2"}, headers={"HX-Request": "true"})
    part = answer.content.decode()
    assert "<html" not in part
    assert 'id="cut-score_gap-value"' in part
    assert part.count("filter-row is-kept") == 3
    assert part.count("filter-row is-beyond_top_k") == 3
    assert RunEvent.objects.filter(run=run).count() == 3


@pytest.mark.parametrize("value", ["", "nan", "inf", "-9", "1e999", "x" * 5000, "０.5"])
def test_a_cut_that_is_no_number_or_out_of_bounds_does_no_harm(as_viewer: Client, run: Run, value: str) -> None:
    assert "kept" in shown(as_viewer, run, threshold=value, final_top_k=value)


@pytest.mark.slow
def test_both_ways_of_keeping_nothing_read_differently(as_viewer: Client, run: Run) -> None:
    assert "Nothing is similar enough (the best 0.92)" not in shown(
        as_viewer, run, threshold=0.9, initial_threshold=0.9
    )
    low = compared_run(run.owner, list(Topic.objects.order_by("pk")), 0)
    RunEvent.objects.filter(run=low, kind="candidates_found").update(payload=to_payload(CandidatesFound((), 0, 0.1)))
    assert "Nothing is similar enough" in shown(as_viewer, low)


@pytest.mark.slow
def test_a_preset_is_kept_for_its_embedding_profile_alone(as_debugger: Client, run: Run, topics: list[Topic]) -> None:
    profile = EmbeddingProfile.objects.create(provider="some", model="model", dimensions=3, threshold=0.1)
    cuts = Cuts(12, 0.2, 0.6, 0.3, 4)
    answer = as_debugger.post(f"/runs/{run.pk}/filter/preset/", {"name": "  Mine ", **asdict(cuts)}, follow=True)
    assert answer.status_code == 200
    row = FilterPreset.objects.get()
    assert (row.name, row.profile, row.threshold, row.final_top_k, row.made_by) == ("Mine", profile, 0.6, 4, "dora")
    assert 'tag-accent" href' in answer.content.decode().replace("\n", "")
    assert "Mine" in shown(as_debugger, run)
    EmbeddingProfile.objects.create(provider="other", model="model", dimensions=3, threshold=0.1)
    assert "Mine" not in shown(as_debugger, compared_run(run.owner, topics, profile="other/model@3"))


@pytest.mark.parametrize("name", ["", "   ", "balanced", "Balanced", "SMALL memory", "Сбалансированный", "x" * 61])
def test_a_preset_needs_a_name_of_its_own(as_debugger: Client, run: Run, name: str) -> None:
    EmbeddingProfile.objects.create(provider="some", model="model", dimensions=3, threshold=0.1)
    answer = as_debugger.post(f"/runs/{run.pk}/filter/preset/", {"name": name})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()
    assert not FilterPreset.objects.exists()


def test_a_viewer_may_look_and_not_keep_presets(as_viewer: Client, run: Run) -> None:
    assert "Save as preset" not in shown(as_viewer, run)
    assert as_viewer.post(f"/runs/{run.pk}/filter/preset/", {"name": "Mine"}).status_code == 403


@pytest.mark.slow
def test_another_memory_is_not_there(as_stranger: Client, run: Run) -> None:
    for part in ("", "effect/"):
        assert as_stranger.get(f"/runs/{run.pk}/filter/{part}").status_code == 404


def test_cuts_are_measured_on_what_models_chose_and_on_golden_questions(
    as_viewer: Client, anna: ChatUser, run: Run, topics: list[Topic]
) -> None:
    evidence = Message.objects.filter(topic=topics[5]).values_list("pk", flat=True)[:1]
    compared_run(anna, topics, evidence=list(evidence))
    compared_run(anna, topics, 7, profile="other/model@3")
    page = shown(as_viewer, run, "effect/", **{**asdict(PRESETS["balanced"]), "final_top_k": 6, "score_gap": 0.5})
    # Before, three topics were kept, and one of them was chosen; afterwards six are kept, two of them chosen, and the
    # evidence is found.
    assert "What models chose 1 0.33 → 0.33 0.50 → 1.00 3.0 → 6.0" in page
    assert "Golden questions 1 0.00 → 0.17 0.00 → 1.00 3.0 → 6.0" in page


def test_a_run_that_compared_words_alone_has_no_lab(as_viewer: Client, run: Run) -> None:
    found = CandidatesFound((), 0, 0.1, note="out of reach")
    RunEvent.objects.filter(run=run, kind="candidates_found").update(payload=to_payload(found))
    assert as_viewer.get(f"/runs/{run.pk}/filter/").status_code == 404


def test_the_embedded_model_has_presets_of_its_own_scale() -> None:
    embedded = presets_of("embedded/use-multilingual-v3@512")
    assert embedded["balanced"].threshold < PRESETS["balanced"].threshold == presets_of(PROFILE)["balanced"].threshold


def test_topics_that_are_not_listed_are_counted_by_what_became_of_them(as_viewer: Client, run: Run) -> None:
    """Some are below the threshold of the first stage, and some are only too many for it."""
    many = tuple(
        replace(candidate(topic_of(run.owner, f"More {rank}", ["x"]), rank), cosine=0.9 - rank / 100)
        for rank in range(1, 61)
    )
    RunEvent.objects.filter(run=run, kind="candidates_found").update(payload=to_payload(CandidatesFound(many, 60, 0.1)))
    page = shown(as_viewer, run, initial_top_k=5, initial_threshold=0.5)
    assert "Not shown: 20 below the first stage, 20 beyond the first stage" in page


def test_the_preset_that_the_sliders_are_at_is_marked_as_they_move(as_viewer: Client, run: Run) -> None:
    moved = flat(
        as_viewer.get(f"/runs/{run.pk}/filter/?threshold=0.77", headers={"HX-Request": "true"}).content.decode()
    )
    assert 'id="filter-presets"' in moved
    assert 'hx-swap-oob="true"' in moved.split('id="filter-presets"')[1].split(">")[0]
    assert "aria-current" not in moved
    back = as_viewer.get(f"/runs/{run.pk}/filter/", headers={"HX-Request": "true"}).content.decode()
    assert back.count("aria-current") == 1
