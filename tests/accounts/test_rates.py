"""Requests of a token are counted by all processes together, and written by each only now and then."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryapp.models import ApiToken, ChatUser
from memoryapp.platform.accounts import tokens
from memoryapp.platform.accounts.tokens import Allowances

pytestmark = pytest.mark.django_db


@pytest.fixture
def token(anna: ChatUser) -> int:
    return tokens.make("phone", [ApiToken.Scope.READ], [anna])[0].pk


@pytest.fixture(autouse=True)
def hours(settings: Any) -> None:
    settings.API_RATE = (600, 3600.0)


def admitted(process: Allowances, token: int, requests: int) -> int:
    return sum(process.wait(token) == 0 for _ in range(requests))


def test_two_processes_admit_together_what_one_would(token: int, settings: Any) -> None:
    for most in (1, 3, 600):
        settings.API_RATE = (most, 3600.0)
        ApiToken.objects.update(counted=0)
        processes = [Allowances(), Allowances()]
        counts = [admitted(process, token, 50) for _ in range(10) for process in processes]
        part = max(1, most // tokens.PARTS)
        assert most - part < sum(counts) <= most


def test_a_process_writes_for_a_part_of_the_requests_and_not_for_refused_ones(token: int) -> None:
    process = Allowances()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert admitted(process, token, 600) == 600
    assert len(queries) == tokens.PARTS
    assert process.wait(token) > 0
    with CaptureQueriesContext(connection) as queries:
        assert admitted(process, token, 100) == 0
    assert len(queries) == 0


def test_the_next_time_begins_anew(token: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr(tokens.time, "time", lambda: now)
    process = Allowances()
    assert admitted(process, token, 700) == 600
    assert 0 < process.wait(token) <= 3600
    now += 3600
    assert admitted(Allowances(), token, 700) == 600
    assert admitted(process, token, 700) == 0, "the other process used it up"


def test_tokens_do_not_share_a_limit(token: int, anna: ChatUser) -> None:
    other = tokens.make("tablet", [ApiToken.Scope.READ], [anna])[0].pk
    process = Allowances()
    assert admitted(process, token, 601) == 600
    assert process.wait(other) == 0
