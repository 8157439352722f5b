"""Every regular expression of the project takes time linear in the length of the text, also of hostile text. The
interpreter is blocked while an expression is matched, so a quadratic expression stops a process for everybody."""

import ast
import gc
import importlib
import pkgutil
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FrameType, ModuleType
from typing import Any

import pytest

import memoryapp
import rerankui
from tests.kept import kept

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")
SHORT, LONG = 2_000, 16_000
# Over eight times the text a linear expression takes eight times as long, a quadratic one sixty-four times.
MOST_GROWTH = 24.0
TOO_SHORT_TO_MEASURE = 0.008
TRIES = 4
HANGING = 5.0
MOST_TOKENS = 12
ANYWHERE = (" ", "\n", "a", "1")
ENDS = ("", "\0", "\n")

# They need tables that only their settings bring; tests/peers/test_sign_on.py runs them.
BY_SETTING = {
    "memoryapp.doors.mcp_server.oauth",
    "memoryapp.platform.accounts.second_factor",
    "memoryapp.platform.accounts.sign_on",
}

Expression = re.Pattern[Any]


def modules() -> list[ModuleType]:
    names = [
        found.name
        for package in (memoryapp, rerankui)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not {"migrations", "asgi"} & set(found.name.split(".")) and found.name not in BY_SETTING
    ]
    return [importlib.import_module(name) for name in names]


def expressions() -> dict[str, Expression]:
    """What modules, their classes and their collections hold, by ``module:name`` or ``module:name#place``."""
    found: dict[str, Expression] = {}
    for module in modules():
        for name, value in _named(module):
            for place, expression in enumerate(_expressions_in(value)):
                found[f"{module.__name__}:{name}{f'#{place}' if place else ''}"] = expression
    return found


def _named(module: ModuleType) -> Iterator[tuple[str, object]]:
    yield from list(vars(module).items())
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from list(vars(value).items())


def _expressions_in(value: object) -> list[Expression]:
    if isinstance(value, re.Pattern):
        return [value]
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [expression for each in inside for expression in _expressions_in(each)]


def sources() -> list[Path]:
    return [path for name in ("memoryapp", "rerankui") for path in (ROOT / name).rglob("*.py")]


@cache
def uses() -> dict[str, set[str]]:
    """By which methods expressions are used, by their names in the source."""
    called: dict[str, set[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = getattr(node.value, "id", "") or getattr(node.value, "attr", "")
                called.setdefault(name, set()).add(node.attr)
    return called


EXPRESSIONS = expressions()


def tokens(expression: Expression) -> list[str]:
    """What the expression is made of: runs of letters it names, single characters, and what its sets may stand for."""
    runs = list(dict.fromkeys(_runs(parser.parse(expression.pattern, expression.flags))))
    single = dict.fromkeys([*(run for run in runs if len(run) == 1), *ANYWHERE, *(run[0] for run in runs)])
    words = [run for run in runs if len(run) > 1]
    return [*list(single)[:MOST_TOKENS], *words[: MOST_TOKENS // 2]]


def _runs(parsed: Any) -> Iterator[str]:
    """Runs of literal characters wherever they stand in the parsed expression."""
    run = ""
    for part in parsed:
        if isinstance(part, tuple) and part and part[0] is codes.LITERAL:
            run += chr(part[1])
            continue
        if run:
            yield run
        run = ""
        if isinstance(part, tuple | list | parser.SubPattern):
            yield from _runs(part)
    if run:
        yield run


def rows(expression: Expression) -> Iterator[Callable[[int], str]]:
    """Texts of a wanted length: one token again and again, two in turn, one before many of another."""
    made = tokens(expression)
    for one in made:
        yield from (lambda size, one=one, end=end: one * (size // len(one)) + end for end in ENDS)
    for one, other in product(made, made):
        if one != other:
            both = one + other
            yield lambda size, both=both: both * (size // len(both))
            yield lambda size, one=one, other=other: one + other * (size // len(other)) + "\0"


class Hanging(Exception):
    pass


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Ends a match that takes that much of the processor: the engine looks for signals now and then."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hanging

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def methods_of(name: str) -> list[str]:
    """The methods by which the project uses the expression of this name."""
    return sorted(uses().get(name.partition(":")[2].partition("#")[0]) or {"search"})


def used(expression: Expression, name: str) -> Callable[[str], None]:
    """All the ways the project uses the expression, as one call."""
    methods = methods_of(name)

    def use(text: str) -> None:
        given = text.encode() if isinstance(expression.pattern, bytes) else text
        for method in methods:
            if method == "sub":
                expression.sub(lambda found: found[0], given)
            elif method == "finditer":
                deque(expression.finditer(given), maxlen=0)
            else:
                getattr(expression, method)(given)

    return use


def seconds(use: Callable[[str], object], text: str) -> float:
    """Measures without the garbage collector, whose time depends on all objects of this process."""
    gc.disable()
    began = time.thread_time()
    try:
        use(text)
        return time.thread_time() - began
    finally:
        gc.enable()


def grows_too_fast(use: Callable[[str], object], row: Callable[[int], str]) -> bool:
    """Compares processor times; another process may disturb one measurement, but not all of them."""
    if seconds(use, row(LONG)) < TOO_SHORT_TO_MEASURE:
        return False
    short, long = row(SHORT), row(LONG)
    measured = [(seconds(use, short), seconds(use, long)) for _ in range(TRIES)]
    return min(long for _, long in measured) > MOST_GROWTH * min(short for short, _ in measured)


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_an_expression_takes_time_by_the_length_of_a_text(name: str, pytestconfig: pytest.Config) -> None:
    expression = EXPRESSIONS[name]
    how = (expression.pattern, expression.flags, methods_of(name), Path(__file__).read_text(encoding="utf-8"))
    with kept(pytestconfig, *how) as is_known:
        if not is_known:
            measure(used(expression, name), rows(expression))


def measure(use: Callable[[str], object], texts: Iterable[Callable[[int], str]]) -> None:
    for row in texts:
        try:
            with limit(HANGING):
                assert not grows_too_fast(use, row), f"more than linear over {row(60)!r}"
        except Hanging:
            pytest.fail(f"hangs over {row(60)!r}")


def test_expressions_stand_where_this_test_finds_them() -> None:
    """Compiled once, under a name; only what is escaped may become one on the way."""
    guilty = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and getattr(node.func.value, "id", "") == "re"
        and node.func.attr != "escape"
        and "re.escape(" not in ast.unparse(node)
    ]
    assert guilty == []


def test_the_measure_finds_a_quadratic_expression_and_one_that_hangs() -> None:
    # Of a third of the length a quadratic expression still takes long enough to be measured.
    assert grows_too_fast(re.compile(r"\s+$").search, lambda size: " " * (size // 3) + "x")
    with limit(0.2), pytest.raises(Hanging):
        re.compile(r"(?:>+ ?)*\Z").search(">" * 40 + "x")
