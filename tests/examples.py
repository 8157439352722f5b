"""Examples: how many a law is tried with, by the profile that is in force, and the tables of those that are written."""

import json
from pathlib import Path
from typing import Any

import hypothesis

WHOLE = 100
FIXTURES = Path(__file__).parent / "fixtures"


def examples(most: int) -> int:
    """``most`` of them where a law has Hypothesis's usual hundred, and the same share where it has fewer."""
    return max(1, most * hypothesis.settings.default.max_examples // WHOLE)


def text_of(name: str) -> str:
    """Returns the text of a file of ``fixtures``."""
    return (FIXTURES / name).read_text(encoding="utf-8")


def table(name: str) -> Any:
    """Returns the rows of ``fixtures/tables/{name}.json``: a list, or a dictionary where rows have names."""
    return json.loads(text_of(f"tables/{name}.json"))
