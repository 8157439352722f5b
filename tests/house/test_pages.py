"""A page is found by its noun: the same word names its view, or the view's folder, its template and its partials."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.test_architecture import ROOT, imports

SITE, PAGES, PARTIALS = ROOT / "rerankui", ROOT / "templates/pages", ROOT / "templates/partials"
RENDERED = re.compile(r'"(?:pages|partials)/([a-z_]+)[/.]')
# Partials that belong to no single noun.
COMMON = {"candidates", "events", "frame", "past", "shared"}
MOST_TEMPLATES = 20


def nouns_of(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".html"}


def nouns_in(path: Path) -> set[str]:
    """The nouns that a module may speak of: its own name and those of the rooms it is in."""
    return set(path.relative_to(SITE).with_suffix("").parts)


def views() -> set[Path]:
    """The modules that an address leads to."""
    named = {name.replace(".", "/") for name in imports(SITE / "urls.py") if name.startswith("rerankui.")}
    return {path for name in named if (path := ROOT / f"{name}.py").exists()}


def test_every_noun_of_the_pages_is_one_of_the_views() -> None:
    nouns = set().union(*map(nouns_in, views()))
    assert nouns_of(PAGES) <= nouns
    assert nouns_of(PARTIALS) - COMMON <= nouns


def test_a_view_renders_pages_and_parts_of_its_noun() -> None:
    for path in views():
        assert set(RENDERED.findall(path.read_text())) <= nouns_in(path), path


@pytest.mark.parametrize("folder", ["templates/pages", "templates/partials"])
def test_no_folder_is_too_long_to_be_read(folder: str) -> None:
    for path in [ROOT / folder, *(ROOT / folder).rglob("*/")]:
        assert path.name == "events" or len([*path.glob("*.html")]) <= MOST_TEMPLATES, path


def test_no_request_replaces_one_that_is_under_way() -> None:
    """htmx reports an aborted request in the console, and people see one for each letter that they type
    (https://htmx.org/attributes/hx-sync/): the last one waits."""
    for path in (ROOT / "templates").rglob("*.html"):
        assert ":replace" not in "".join(re.findall(r'hx-sync="[^"]*"', path.read_text())), path
