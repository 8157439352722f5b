"""Unusually long and awkward names and words: the layout stays intact, and nothing is wider than its window."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from memoryapp.curation import knowledge
from memoryapp.models import ChatUser, KnowledgeEdit, Operator, Topic
from tests.browser.conftest import Browse
from tests.browsing.test_topic_map import placed
from tests.support.browsing import PHONE, assert_fits, settle, topic_of

WORD = "Donaudampfschifffahrtsgesellschaftskapitän" * 4
NAME = f"{'Ж' * 60} von und zu Hohenzollern"
WIDTHS = (1440, 1280, PHONE["width"])
# Whether the boxes of two elements overlap.
MEET = """all => all.map(each => each.getBoundingClientRect()).some((one, place, boxes) => boxes.slice(place + 1).some(
    (other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom))"""
BEYOND = """column => [...column.querySelectorAll("*")].filter(
    (each) => each.getBoundingClientRect().right > column.getBoundingClientRect().right + 1).length"""


@pytest.fixture
def awkward(transactional_db: None) -> ChatUser:
    return ChatUser.objects.create(name="long", display_name=NAME)


@pytest.fixture
def page(awkward: ChatUser, admin: Operator, browse: Browse) -> Iterator[Page]:
    with browse(admin) as page:
        yield page


@pytest.mark.parametrize("width", WIDTHS)
def test_lists_hold_long_names_and_show_all_their_columns(page: Page, awkward: ChatUser, width: int) -> None:
    person = {"display_name": NAME, "aliases": [WORD], "username": WORD[:100], "bio": "A friend of ours. " * 40}
    fact = {"relation": WORD[:100], "category": "food", "type": "status", "importance": 5, "content": WORD}
    knowledge.create(awkward, KnowledgeEdit.Noun.PERSON, person, actor="ada")
    knowledge.create(awkward, KnowledgeEdit.Noun.FACT, fact, actor="ada")
    page.set_viewport_size({"width": width, "height": 900})
    for address in (f"/memory/{awkward.pk}/people/", f"/memory/{awkward.pk}/facts/", "/agents/", "/pipeline/", "/"):
        page.goto(address)
        assert_fits(page, page.locator("main"))
    page.goto(f"/memory/{awkward.pk}/people/")
    settle(page)
    box = page.locator(".mark-cell input").bounding_box()
    assert box
    assert box["x"] + box["width"] < width
    assert page.locator("#list tbody tr").evaluate("row => row.offsetHeight") < 320


def test_what_stands_beside_a_long_word_stays_in_its_column(page: Page, awkward: ChatUser) -> None:
    topics = [topic_of(awkward, f"Ships {n}", [f"{WORD} ships"] * 3, day=n) for n in range(2)]
    page.goto(f"/memory/{awkward.pk}/merge/?topics={topics[0].pk},{topics[1].pk}")
    expect(page.locator("[data-column]")).to_have_count(2)
    settle(page)
    for column in page.locator("[data-column]").all():
        assert column.evaluate(BEYOND) == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_regions_lie_on_nothing_else(page: Page, awkward: ChatUser, width: int) -> None:
    """Four groups of topics on the map, two of them close above each other."""
    dice = np.random.default_rng(4)
    heaps = np.array([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 1, 0], [0, 0, 0.4, 1]])
    words = ["honey cake", "crashing processor", "mountain holidays", "kitchen renovation"]
    made = [topic_of(awkward, f"{words[n % 4]} {n}", ["x"], day=n) for n in range(32)]
    vectors = heaps[[n % 4 for n in range(32)]] + dice.normal(0, 0.05, (32, 4))
    placed(awkward, made, vectors.astype(np.float32))
    assert Topic.objects.live().count() == len(made)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/memory/{awkward.pk}/map/")
    page.locator("#map[data-ready]").wait_for()
    names = page.locator(".region-name")
    expect(names.first).to_be_visible()
    assert names.count() > 1
    assert not names.evaluate_all(MEET)
    edges = "names => names.map(each => each.getBoundingClientRect()).flatMap(({ left, right }) => [left, right])"
    found = names.evaluate_all(edges)
    assert min(found) >= 0
    assert max(found) <= width
