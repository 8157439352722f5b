"""docs/http.md names every address, error code and scope of the API, and none that does not exist."""

from __future__ import annotations

import re

from memoryapp.doors.api.shapes.fields import CODES
from memoryapp.models import ApiToken
from tests.api.every_endpoint import described
from tests.support.stack import CHECKOUT

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
