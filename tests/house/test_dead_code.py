"""Unused code, as vulture finds it; names that only templates, settings and SQL contain count as used."""

from __future__ import annotations

import re
import tomllib

import pytest
from vulture import Vulture

from tests.house.test_architecture import ROOT, modules

# Fields of these classes are columns, parts of an answer and settings, which are read by name.
READ_BY_NAME = ("memoryapp/models/", "memoryapp/admin/", "memoryapp/doors/api/shapes/", "memoryapp/settings.py")
TAGS = re.compile(r"\{[{%].*?[%}]\}", re.S)
DOTTED = re.compile(r"""["'][\w.]+[.:](\w+)["']""")
OF_KEYWORD = re.compile(r"(\w+)=")


def names_beside_code() -> set[str]:
    """Returns words of template tags, ends of dotted names as in settings, and names of keyword arguments."""
    templates = [path.read_text(encoding="utf-8") for path in (ROOT / "templates").rglob("*.*")]
    tags = " ".join(tag for text in templates for tag in TAGS.findall(text))
    packages = ("memoryapp", "rerankui", "tools")
    code = " ".join(path.read_text(encoding="utf-8") for package in packages for path in modules(package))
    return {*re.findall(r"\w+", tags), *DOTTED.findall(code), *OF_KEYWORD.findall(code)}


def test_everything_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["vulture"]
    vulture = Vulture(**config)
    vulture.scavenge(["manage.py", "memoryapp", "rerankui", "tools"], exclude=["*/migrations/*"])
    beside = names_beside_code()
    unused = [
        f"{item.filename.relative_to(ROOT)}:{item.first_lineno} {item.typ} {item.name}"
        for item in vulture.get_unused_code(min_confidence=60)
        if item.name not in beside and not str(item.filename.relative_to(ROOT)).startswith(READ_BY_NAME)
    ]
    assert unused == []
