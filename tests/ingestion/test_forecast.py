"""The cost of an import: nothing for embedded models; for others, from a price or from past costs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memoryapp.memory.forecast import QUESTION_TOKENS, ArchiveForecast
from memoryapp.memory.sessions import limits
from memoryapp.models import AgentCall, ChatUser
from tests.conftest import record

pytestmark = pytest.mark.django_db


@pytest.fixture
def forecast(anna: ChatUser) -> ArchiveForecast:
    made = ArchiveForecast.of(anna, limits(anna))
    for number in range(8):
        made.add(record(number, "word " * 100))
    return made


def asked(owner: ChatUser, agent: str, tokens: int, dollars: float) -> None:
    AgentCall.objects.create(owner=owner, agent=agent, input_tokens=tokens, cost_usd=dollars)


def test_embedded_models_cost_nothing_and_are_sent_no_tokens(forecast: ArchiveForecast) -> None:
    assert (forecast.cost_usd, forecast.embedding_usd, forecast.chat_usd, forecast.chat_tokens) == (0.0, 0.0, 0, 0)


def test_an_embedding_model_costs_what_the_setting_says(forecast: ArchiveForecast, settings: Any) -> None:
    settings.EMBEDDING_BASE_URL, settings.EMBEDDING_PRICE = "http://models", 0.15
    assert forecast.cost_usd == pytest.approx(forecast.tokens * 0.15 / 1_000_000)
    settings.EMBEDDING_PRICE = -1.0
    assert (forecast.embedding_usd, forecast.cost_usd) == (None, None)


def test_a_chat_model_costs_what_its_answers_did(forecast: ArchiveForecast, settings: Any, anna: ChatUser) -> None:
    settings.LLM_BASE_URL = "http://models"
    talk = forecast.chars // 4
    assert forecast.chat_tokens == 2 * talk + (forecast.sessions + forecast.topics) * QUESTION_TOKENS
    assert (forecast.chat_usd, forecast.cost_usd) == (None, None)
    asked(anna, "splitter", 1_000, 0.0)
    assert forecast.chat_usd is None, "a provider that names no price says nothing"
    asked(anna, "splitter", 1_000, 0.002)
    assert forecast.chat_usd == pytest.approx(forecast.chat_tokens * 0.000002)
    asked(anna, "archivist", 1_000, 0.001)
    assert forecast.chat_usd == pytest.approx((talk + QUESTION_TOKENS) * 0.000003)


def test_a_session_a_day_is_a_question_a_day(anna: ChatUser, settings: Any) -> None:
    settings.LLM_BASE_URL = "http://models"
    made = ArchiveForecast.of(anna, limits(anna))
    for day in range(3):
        made.add(record(day, "x", at=record(0, "x").sent_at + timedelta(days=day)))
    assert (made.sessions, made.chat_tokens) == (3, 6 * QUESTION_TOKENS)
