"""Operators who read the history of Anna's memory, and fixtures for both modules of tests."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryapp.models import ChatUser, Operator, Role, Topic
from tests.conftest import operator, signed_in


@pytest.fixture
def curator(anna: ChatUser) -> Operator:
    return operator("cora", Role.CURATOR, anna)


@pytest.fixture
def client(curator: Operator) -> Client:
    return signed_in(curator)


def address(owner: ChatUser, rest: str = "") -> str:
    return f"/memory/{owner.pk}/history/{rest}"


def live(owner: ChatUser) -> list[tuple[int, str]]:
    return list(Topic.objects.of(owner).live().order_by("pk").values_list("pk", "summary"))
