"""Templates are readable: djLint is a step of `manage.py test`, and this test checks the length of lines."""

from __future__ import annotations

from tests.house.test_architecture import ROOT

LONGEST = 160


def test_lines_of_templates_can_be_read() -> None:
    longer = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LONGEST
    ]
    assert longer == []
