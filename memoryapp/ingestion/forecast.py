"""What an import would lead to: sessions, topics, and what models would be sent for them.

Counted as new messages pass by, in the order of the file: exact where a file has its messages in order, as exports do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db.models import Avg, Sum

from memoryapp.importers import MessageRecord
from memoryapp.ingestion.sessions import SessionLimits
from memoryapp.models import AgentCall, ChatUser, Topic

# Where a memory has no topics yet: how many messages those of the demo have.
USUAL_MESSAGES = 8.0
# Characters a token, as providers reckon for English; other languages take more tokens.
CHARS_A_TOKEN = 4
# A message is in its passage and, once more, in the summary and the words around it.
TIMES_EMBEDDED = 1.25
# Tokens of instructions and names in a question about a session or a topic, beside the talk.
QUESTION_TOKENS = 900
# How many of an agent's latest questions tell what a token costs.
MOST_CALLS = 200
_EMBEDDED = 0.0


@dataclass(slots=True)
class ArchiveForecast:
    """``sessions`` and ``topics`` of the messages that were counted, and their characters."""

    limits: SessionLimits
    messages_a_topic: float = USUAL_MESSAGES
    sessions: int = 0
    chars: int = 0
    _topics: float = 0.0
    _open: dict[str, tuple[datetime, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, owner: ChatUser, limits: SessionLimits) -> ArchiveForecast:
        """With topics as long as the owner's have been so far."""
        usual = Topic.objects.of(owner).live().aggregate(usual=Avg("message_count"))["usual"]
        return cls(limits, max(1.0, float(usual or USUAL_MESSAGES)))

    def add_all(self, records: Sequence[MessageRecord]) -> None:
        for record in records:
            self.add(record)

    def add(self, record: MessageRecord) -> None:
        self.chars += len(record.text)
        last, count = self._open.get(record.session, (None, 0))
        pause = abs(record.sent_at - last) if last else None
        if pause is None or pause >= self.limits.interval or count >= self.limits.most:
            self._close(count)
            self.sessions, count = self.sessions + 1, 0
        self._open[record.session] = (record.sent_at, count + 1)

    def _close(self, count: int) -> None:
        self._topics += max(1, round(count / self.messages_a_topic)) if count else 0

    @property
    def topics(self) -> int:
        open_ = sum(max(1, round(count / self.messages_a_topic)) for _last, count in self._open.values())
        return round(self._topics) + open_

    @property
    def tokens(self) -> int:
        """What the embedding model would be sent."""
        return round(self.chars * TIMES_EMBEDDED / CHARS_A_TOKEN)

    @property
    def chat_tokens(self) -> int:
        """What the splitter and the archivist would send to a chat model; 0 where none is connected."""
        return sum(self._asked().values())

    def _asked(self) -> dict[str, int]:
        """Tokens by agent: each reads the whole talk, one session by session, the other topic by topic."""
        if not settings.LLM_BASE_URL:
            return {}
        talk = self.chars // CHARS_A_TOKEN
        questions = {AgentCall.Agent.SPLITTER: self.sessions, AgentCall.Agent.ARCHIVIST: self.topics}
        return {agent: talk + count * QUESTION_TOKENS for agent, count in questions.items()}

    @property
    def embedding_usd(self) -> float | None:
        """Dollars; None if the price of the model is not set."""
        if not settings.EMBEDDING_BASE_URL:
            return _EMBEDDED
        return self.tokens * settings.EMBEDDING_PRICE / 1_000_000 if settings.EMBEDDING_PRICE >= 0 else None

    @property
    def chat_usd(self) -> float | None:
        """Dollars, by what the agents' latest questions cost; None if no provider has reported a price yet."""
        prices = {agent: _price(agent) for agent in self._asked()}
        known = [price for price in prices.values() if price is not None]
        if len(known) < len(prices) and not known:
            return None
        # One that was not asked yet costs what the other does: they mostly are the same model.
        return sum(tokens * (prices[agent] or known[0]) for agent, tokens in self._asked().items())

    @property
    def cost_usd(self) -> float | None:
        embedding, chat = self.embedding_usd, self.chat_usd
        return None if embedding is None or chat is None else embedding + chat


def _price(agent: str) -> float | None:
    """Dollars for each token that the agent sent lately, with those of the answers; None if no price is known."""
    latest = AgentCall.objects.filter(agent=agent, cost_usd__gt=0).order_by("-pk").values("cost_usd", "input_tokens")
    found = latest[:MOST_CALLS].aggregate(dollars=Sum("cost_usd"), tokens=Sum("input_tokens"))
    return found["dollars"] / found["tokens"] if found["tokens"] else None
