"""The Russian catalogue has an entry for each text of the sources, and none for a text that was removed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import polib
from django.utils.translation.template import templatize

from memoryapp.engine.notes import ENGLISH, INSTEAD
from rerankui.runs.page.outcomes import FOR_PEOPLE
from tests.house.test_architecture import ROOT, modules, tree

CATALOGUE = ROOT / "rerankui/locale/ru/LC_MESSAGES/django.po"
WITH_CONTEXT = {"pgettext", "npgettext"}
FUNCTIONS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", *WITH_CONTEXT}
CALL = re.compile(r"\b(_|gettext|ngettext|pgettext|npgettext)\((?=u?['\"])")


# Notes are written in English where they are made, and translated where pages show them.
NOTES = [*INSTEAD.values(), *(text for code, text in ENGLISH.items() if code not in FOR_PEOPLE)]


def text_of(function: str, arguments: Sequence[ast.expr]) -> tuple[str, str] | None:
    """Returns context and text; None if the argument is no literal."""
    literals = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if not literals:
        return None
    return (literals[0], literals[1]) if function in WITH_CONTEXT else ("", literals[0])


def in_module(path: Path) -> Iterator[tuple[str, str] | None]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id.removesuffix("_lazy")
            if name in FUNCTIONS:
                yield text_of(name, node.args)


def in_template(path: Path) -> Iterator[tuple[str, str] | None]:
    """Returns the template as Django prepares it for gettext: a text with translations as calls in Python."""
    source = templatize(path.read_text(encoding="utf-8"))
    for found in CALL.finditer(source):
        yield text_of(found[1], arguments_at(source, found.end()))


def arguments_at(source: str, start: int) -> list[ast.expr]:
    """Returns the arguments of the call whose opening bracket ends at ``start``."""
    for end in re.finditer(r"\)", source[start:]):
        try:
            call = ast.parse(f"f({source[start : start + end.end()]}", mode="eval").body
        except SyntaxError:
            continue
        assert isinstance(call, ast.Call)
        return call.args
    raise AssertionError(source[start : start + 80])


def test_the_catalogue_holds_the_texts_of_the_sources_and_no_others() -> None:
    python = [*modules("memoryapp"), *modules("rerankui")]
    found = [each for path in python for each in in_module(path)]
    found += [each for path in (ROOT / "templates").rglob("*.html") for each in in_template(path)]
    found += [
        ("", text) for text in (*INSTEAD.values(), *(ENGLISH[code] for code in ENGLISH.keys() - FOR_PEOPLE.keys()))
    ]
    entries = {(entry.msgctxt or "", entry.msgid) for entry in polib.pofile(str(CATALOGUE))}
    assert sorted({each for each in found if each} ^ entries) == []
