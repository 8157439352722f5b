"""The documents are true: events, models, files, commands, settings, links and addresses that they name exist."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from django.apps import apps
from django.core.management import get_commands

from memoryapp.doors.api.shapes.fields import CODES
from memoryapp.engine.events import KINDS, from_payload
from memoryapp.engine.strategies.strategy import Fallback
from memoryapp.models import ApiToken
from tests.doors.api.every_endpoint import described
from tests.support.stack import CHECKOUT

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
ROOMS = ("memoryapp", "rerankui", "templates", "static", "tests", "tools", "docs", ".ci")
CODE = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
COMMAND = re.compile(r"manage\.py ([a-z_]+)")
SETTING = re.compile(r"(?<![A-Za-z0-9_./$])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9_(/])")
DOTTED = re.compile(r"(?:memoryapp|rerankui|tests)(?:\.\w+)+")
every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)


def sections(text: str) -> dict[str, str]:
    """Returns the text under each heading, by heading."""
    parts = HEADING.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@cache
def events() -> dict[str, str]:
    return sections((ROOT / "docs" / "events.md").read_text(encoding="utf-8"))


def values_inside(kind: type[Any]) -> Iterator[type[Any]]:
    """Yields the dataclasses in the fields of this one, at any depth."""
    for hint in get_type_hints(kind).values():
        for part in (hint, *get_args(hint)):
            if is_dataclass(part) and isinstance(part, type):
                yield part
                yield from values_inside(part)


VALUES = sorted({value for kind in KINDS.values() for value in values_inside(kind)}, key=lambda value: value.__name__)


def unnamed(kind: type[Any], text: str) -> list[str]:
    named = set(CODE.findall(BLOCK.sub("", text)))
    return [field.name for field in fields(kind) if field.name not in named]


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_and_each_of_its_fields_is_described(kind: str) -> None:
    assert unnamed(KINDS[kind], events()[f"`{kind}`"]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_an_event_is_one(kind: str) -> None:
    [(_language, example)] = BLOCK.findall(events()[f"`{kind}`"])
    assert from_payload(kind, json.loads(example)).kind == kind


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_every_value_inside_an_event_is_described(value: type[Any]) -> None:
    [text] = [text for text in events().values() if text.lstrip().startswith(f"`{value.__name__}`")]
    assert unnamed(value, text) == []


def test_every_model_is_described() -> None:
    named = set(CODE.findall((ROOT / "docs" / "schema.md").read_text(encoding="utf-8")))
    models = [model.__name__ for model in apps.get_app_config("memoryapp").get_models()]
    assert [name for name in models if name not in named] == []


def test_every_outcome_of_a_rerank_says_what_to_do() -> None:
    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "docs" / "using.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(get_args(Fallback)) <= {code for row in rows for code in CODE.findall(row)}


def test_every_room_is_described() -> None:
    named = set(CODE.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")))
    rooms = {path.parent for package in ("memoryapp", "rerankui") for path in (ROOT / package).glob("*/__init__.py")}
    names = {str(room.relative_to(ROOT)) for room in rooms}
    assert sorted(names - named) == []


@every_document
def test_files_that_are_named_exist(path: Path) -> None:
    named = {code.rstrip("/") for code in CODE.findall(path.read_text(encoding="utf-8")) if code.startswith(ROOMS)}
    paths = {code.partition(":")[0] for code in named if "/" in code and not set(code) & set("<… ")}
    assert [code for code in sorted(paths) if not any(ROOT.glob(code))] == []


@every_document
def test_modules_that_are_named_exist(path: Path) -> None:
    named = {code for code in CODE.findall(path.read_text(encoding="utf-8")) if DOTTED.fullmatch(code)}
    assert [name for name in sorted(named) if not exists(name)] == []


def exists(name: str) -> bool:
    """Whether a dotted name is a package, a module, or a name in one."""
    whole = ROOT / name.replace(".", "/")
    if whole.is_dir() or whole.with_suffix(".py").is_file():
        return True
    module, _dot, last = name.rpartition(".")
    inside = ROOT / module.replace(".", "/")
    source = inside / "__init__.py" if inside.is_dir() else inside.with_suffix(".py")
    return source.is_file() and re.search(rf"\b{last}\b", source.read_text(encoding="utf-8")) is not None


@every_document
def test_commands_that_are_named_exist(path: Path) -> None:
    named = set(COMMAND.findall(path.read_text(encoding="utf-8")))
    assert sorted(named - {*get_commands(), "help"}) == []


@cache
def source() -> str:
    return "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("memoryapp", "rerankui", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__)
    )


@every_document
def test_settings_that_are_named_exist(path: Path) -> None:
    """A name in capitals with an underscore is that of a setting or of a constant."""
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    named = {name for code in CODE.findall(text) for name in SETTING.findall(code)}
    assert [name for name in sorted(named) if not re.search(rf"\b{name}\b", source())] == []


def anchor(heading: str) -> str:
    """Returns the anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@every_document
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if "://" not in link and not leads_somewhere(path, link)] == []


def leads_somewhere(path: Path, link: str) -> bool:
    target, _hash, place = link.partition("#")
    file = (path.parent / target).resolve() if target else path
    if not file.exists() or not place:
        return file.exists()
    return place in {anchor(heading) for heading in HEADING.findall(file.read_text(encoding="utf-8"))}


def test_every_decision_says_when_and_why() -> None:
    parts = ("Context", "Decision", "Why not the other way", "What it costs", "When to look again")
    for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        text = path.read_text(encoding="utf-8")
        assert re.match(r"# \d+\. .+\n\n\d{4}-\d\d-\d\d\n", text), path.name
        assert tuple(sections(text))[1:] == parts, path.name


def test_the_decisions_are_numbered_without_a_gap_and_all_are_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    names = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert set(LINK.findall((folder / "README.md").read_text(encoding="utf-8"))) >= set(names)


# docs/http.md names every address, error code and scope of the API, and none that does not exist.


PAGE = (CHECKOUT / "docs" / "http.md").read_text(encoding="utf-8")
REQUEST = re.compile(r"`((?:GET|POST|PUT|PATCH|DELETE) /v1/[^`]*)`")
FIRST_CELL = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def test_every_address_is_on_the_page() -> None:
    requests = {f"{method.upper()} {path}" for method, path in described()}
    assert set(REQUEST.findall(PAGE)) == requests


def test_every_error_code_is_on_the_page() -> None:
    statuses = dict(re.findall(r"^\| (\d{3}) \| `(\w+)`", PAGE, re.MULTILINE))
    answered = {str(status): code for status, code in CODES.items() if status != 500}
    assert statuses == answered


def test_every_scope_is_on_the_page() -> None:
    scopes = PAGE.partition("| scope |")[2].partition("\n\n")[0]
    granted = {scope.value for scope in ApiToken.Scope} - {ApiToken.Scope.EVERYONE.value}
    assert set(FIRST_CELL.findall(scopes)) == granted
