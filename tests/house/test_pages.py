"""A page is found by its noun: the same word names its view, or the view's folder, its template and its partials."""

from __future__ import annotations

import re

import pytest

from tests.house.test_architecture import ROOT

VIEWS, PAGES, PARTIALS = ROOT / "rerankui/views", ROOT / "templates/pages", ROOT / "templates/partials"
# Partials that belong to no single noun.
COMMON = {"candidates", "events", "frame", "past", "shared"}
MOST_TEMPLATES = 20


def nouns_of(folder: str, suffix: str) -> set[str]:
    children = (ROOT / folder).iterdir()
    return {path.stem for path in children if path.is_dir() or path.suffix == suffix} - {"__init__", "__pycache__"}


def test_every_noun_of_the_pages_is_one_of_the_views() -> None:
    assert nouns_of("templates/pages", ".html") <= nouns_of("rerankui/views", ".py")
    assert nouns_of("templates/partials", ".html") - COMMON <= nouns_of("rerankui/views", ".py")


def test_a_view_renders_pages_and_parts_of_its_noun() -> None:
    for path in VIEWS.rglob("*.py"):
        noun = path.relative_to(VIEWS).parts[0].removesuffix(".py")
        named = re.findall(r'"(?:pages|partials)/([a-z_]+)[/.]', path.read_text())
        assert set(named) <= {noun}, path


@pytest.mark.parametrize("folder", ["templates/pages", "templates/partials"])
def test_no_folder_is_too_long_to_be_read(folder: str) -> None:
    for path in [ROOT / folder, *(ROOT / folder).rglob("*/")]:
        assert path.name == "events" or len([*path.glob("*.html")]) <= MOST_TEMPLATES, path
