"""A page, its template and its partials have one noun, and a template names what its context has."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.template import Template, Variable, engines
from django.template.base import FilterExpression, Node, NodeList
from django.template.defaulttags import ForNode, IfNode, WithNode
from django.template.loader_tags import ExtendsNode, IncludeNode

from rerankui.runs.fragments import RunPage
from rerankui.topics.topic import RowChanges, TopicPage, TopicTalk
from rerankui.views.ask import AskPage, QuestionBox, RecallPage
from tests.house.test_architecture import ROOT, imports

SITE, PAGES, PARTIALS = ROOT / "rerankui", ROOT / "templates/pages", ROOT / "templates/partials"
RENDERED = re.compile(r'"(?:pages|partials)/([a-z_]+)[/.]')
# Partials that belong to no single noun.
COMMON = {"candidates", "events", "frame", "past", "shared"}
MOST_TEMPLATES = 20


def nouns_of(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".html"}


def views() -> set[Path]:
    """The modules that an address leads to."""
    named = {name.replace(".", "/") for name in imports(SITE / "urls.py") if name.startswith("rerankui.")}
    return {path for name in named if (path := ROOT / f"{name}.py").exists()}


def room_of(view: Path) -> str:
    """The folder of the site that a view is in; in the common one each module is a room of its own."""
    first, *others = view.relative_to(SITE).with_suffix("").parts
    return others[0] if first == "views" else first


def test_the_pages_and_parts_of_a_noun_are_rendered_in_one_room() -> None:
    rooms = defaultdict[str, set[str]](set)
    for view in views():
        for noun in (room_of(view), *RENDERED.findall(view.read_text())):
            rooms[noun].add(room_of(view))
    assert {noun: found for noun, found in rooms.items() if len(found) > 1} == {}
    assert nouns_of(PAGES) | nouns_of(PARTIALS) - COMMON <= set(rooms)


@pytest.mark.parametrize("folder", ["templates/pages", "templates/partials"])
def test_no_folder_is_too_long_to_be_read(folder: str) -> None:
    for path in [ROOT / folder, *(ROOT / folder).rglob("*/")]:
        assert path.name == "events" or len([*path.glob("*.html")]) <= MOST_TEMPLATES, path


def test_no_request_replaces_one_that_is_under_way() -> None:
    """htmx reports an aborted request in the console, and people see one for each letter that they type
    (https://htmx.org/attributes/hx-sync/): the last one waits."""
    for path in (ROOT / "templates").rglob("*.html"):
        assert ":replace" not in "".join(re.findall(r'hx-sync="[^"]*"', path.read_text())), path


# The contexts of pages and their templates agree: a template names what its context has, or it would show nothing.


# What every template may name: what the frame and Django's processors give, and what tags define inside themselves.
EVERYWHERE = {
    *("frame", "LANGUAGES", "LANGUAGE_CODE", "request", "user", "messages", "csrf_token", "perms"),
    *("forloop", "block", "True", "False", "None"),
}
INCLUDE = re.compile(r'{% include "([^"]+)"([^%]*)%}')
GIVEN = re.compile(r"\b(\w+)=")


def names_of(*contexts: type[Any]) -> set[str]:
    return {field.name for context in contexts for field in fields(context)}


RUN = names_of(RunPage)
CONTEXTS = {
    "pages/runs/run.html": RUN | {"section", "memory", "language", "may_stop", "may_ask"},
    "partials/runs/run.html": RUN | {"swapped"},
    "partials/runs/run_frame.html": RUN | {"new", "swapped"},
    "pages/ask/ask.html": names_of(AskPage, QuestionBox),
    "pages/ask/recall.html": names_of(RecallPage, QuestionBox) | {"filters"},
    "pages/topics/topic.html": names_of(TopicPage, TopicTalk, RowChanges) | {"has_come"},
}


@cache
def options() -> Mapping[str, frozenset[str]]:
    """What includes anywhere give each template: there it may be missing, like an argument that has a default."""
    given: dict[str, frozenset[str]] = {}
    for path in (ROOT / "templates").rglob("*.html"):
        for name, rest in INCLUDE.findall(path.read_text(encoding="utf-8")):
            given[name] = given.get(name, frozenset()) | frozenset(GIVEN.findall(rest))
    return given


def template(name: str) -> Template:
    return engines["django"].get_template(name).template  # type: ignore[attr-defined]


def free(nodes: Iterable[Node], bound: frozenset[str], within: tuple[str, ...] = ()) -> Iterator[str]:
    """The names that these nodes look up in the context, without those that are bound around them or before them.
    ``within`` are the included templates around them; one that includes itself is not followed again."""
    for node in nodes:
        yield from (name for name in _looked_up(node) if name not in bound)
        inner = bound | _bound_inside(node)
        if isinstance(node, IncludeNode) and isinstance(node.template.var, str) and node.template.var not in within:
            yield from free(
                template(node.template.var).nodelist,
                inner | options().get(node.template.var, frozenset()),
                (*within, node.template.var),
            )
        if isinstance(node, ExtendsNode) and isinstance(node.parent_name.var, str):
            yield from free(template(node.parent_name.var).nodelist, bound, within)
        for inside in _inside(node):
            yield from free(inside, inner, within)
        bound |= _bound_after(node)


def _inside(node: Node) -> Iterator[NodeList]:
    """The lists of nodes that a tag encloses."""
    if isinstance(node, IfNode):
        yield from (nodes for _condition, nodes in node.conditions_nodelists)
    yield from (value for value in vars(node).values() if isinstance(value, NodeList))


def _looked_up(node: Node) -> Iterator[str]:
    values = list(vars(node).values())
    if isinstance(node, IfNode):
        values += [condition for condition, _nodes in node.conditions_nodelists]
    for value in values:
        yield from _roots(value)


def _roots(value: Any) -> Iterator[str]:
    """The first part of each variable in an argument of a tag: ``run`` of ``run.owner.name|default:x``."""
    if isinstance(value, FilterExpression):
        yield from _roots(value.var)
        yield from (root for _filter, given in value.filters for _is_variable, arg in given for root in _roots(arg))
    elif isinstance(value, Variable) and value.lookups:
        yield value.lookups[0]
    elif isinstance(value, list | tuple) and not isinstance(value, NodeList):
        yield from (root for each in value for root in _roots(each))
    elif isinstance(value, dict):
        yield from (root for each in value.values() for root in _roots(each))
    elif hasattr(value, "id") and hasattr(value, "first"):
        # An operator or a literal of a condition.
        yield from (
            root for each in (getattr(value, "value", None), value.first, value.second) for root in _roots(each)
        )


def _bound_inside(node: Node) -> set[str]:
    if isinstance(node, ForNode):
        return set(node.loopvars)
    if isinstance(node, WithNode | IncludeNode):
        return set(node.extra_context)
    return set(getattr(node, "extra_context", ()))


def _bound_after(node: Node) -> set[str]:
    """What a tag assigns, such as ``{% url … as address %}``, in a branch of a condition, too."""
    given = [getattr(node, name, None) for name in ("asvar", "target_var", "variable", "cycle_name", "var_name")]
    branches = [each for nodes in _inside(node) for each in nodes] if isinstance(node, IfNode) else []
    return {name for name in given if isinstance(name, str)}.union(*map(_bound_after, branches))


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_template_names_nothing_that_its_context_lacks(name: str) -> None:
    known = frozenset(CONTEXTS[name] | EVERYWHERE)
    assert set(free(template(name).nodelist, known)) == set()


def test_a_name_that_no_context_has_is_found() -> None:
    source = "{% for a in rows %}{{ a.x }}{{ b|default:c }}{% if not d and rows %}{{ a }}{% endif %}{% endfor %}{{ a }}"
    parsed = engines["django"].from_string(source).template  # type: ignore[attr-defined]
    assert set(free(parsed.nodelist, frozenset({"rows"}))) == {"a", "b", "c", "d"}
