"""Estimates the sessions and topics of an import, and what models would be sent for them. New messages are counted in
the order of the file; the count of sessions is exact if they are in order, as in exports, but for the first messages of
a chat between people, before the second person speaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db.models import Avg, Sum

from memoryapp.engine.agents import archivist, splitter
from memoryapp.importers import MessageRecord
from memoryapp.memory.sessions import SessionLimits, is_between_people
from memoryapp.models import AgentCall, ChatUser, Topic

# Messages of a topic in the demo, for a memory that has no topics yet.
USUAL_MESSAGES = 8.0
# Characters of a token, as providers estimate for English; other languages need more tokens.
CHARS_A_TOKEN = 4
# A message is embedded in its passage, and in part again with the summary and the words around it.
TIMES_EMBEDDED = 1.25
# Tokens of instructions and names in a question about a session or a topic, beside its messages.
QUESTION_TOKENS = 900
# How many of an agent's latest questions the price of a token is computed from.
MOST_CALLS = 200
_EMBEDDED = 0.0


@dataclass(slots=True)
class ArchiveForecast:
    """The numbers of ``sessions`` and ``topics`` of the counted messages, and their characters."""

    limits: SessionLimits
    messages_a_topic: float = USUAL_MESSAGES
    sessions: int = 0
    chars: int = 0
    _topics: float = 0.0
    _open: dict[str, tuple[datetime, int]] = field(default_factory=dict)
    _roles: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, owner: ChatUser, limits: SessionLimits) -> ArchiveForecast:
        """Returns a forecast that assumes topics of the owner's usual length."""
        usual = Topic.objects.of(owner).live().aggregate(usual=Avg("message_count"))["usual"]
        return cls(limits, max(1.0, float(usual or USUAL_MESSAGES)))

    def add_all(self, records: Sequence[MessageRecord]) -> None:
        for record in records:
            self.add(record)

    def add(self, record: MessageRecord) -> None:
        self.chars += len(record.text)
        last, count = self._open.get(record.session, (None, 0))
        pause = abs(record.sent_at - last) if last else None
        roles = self._roles.setdefault(record.session, set())
        roles.add(record.role)
        interval = self.limits.between_people if is_between_people(roles) else self.limits.interval
        if pause is None or pause >= interval or count >= self.limits.most:
            self._topics += max(1, round(count / self.messages_a_topic)) if count else 0
            self.sessions, count = self.sessions + 1, 0
        self._open[record.session] = (record.sent_at, count + 1)

    @property
    def topics(self) -> int:
        open_ = sum(max(1, round(count / self.messages_a_topic)) for _last, count in self._open.values())
        return round(self._topics) + open_

    @property
    def tokens(self) -> int:
        """The tokens that the embedding model would be sent."""
        return round(self.chars * TIMES_EMBEDDED / CHARS_A_TOKEN)

    @property
    def chat_tokens(self) -> int:
        """The tokens that the splitter and the archivist would send to a chat model; 0 if none is connected."""
        return sum(self._tokens_by_agent().values())

    def _tokens_by_agent(self) -> dict[str, int]:
        """Returns tokens by agent: the splitter reads all messages by session, the archivist by topic."""
        if not settings.LLM_BASE_URL:
            return {}
        talk = self.chars // CHARS_A_TOKEN
        questions = {splitter.AGENT.name: self.sessions, archivist.AGENT.name: self.topics}
        return {agent: talk + count * QUESTION_TOKENS for agent, count in questions.items()}

    @property
    def embedding_usd(self) -> float | None:
        """Dollars; None if the price of the model is not set."""
        if not settings.EMBEDDING_BASE_URL:
            return _EMBEDDED
        return self.tokens * settings.EMBEDDING_PRICE / 1_000_000 if settings.EMBEDDING_PRICE >= 0 else None

    @property
    def chat_usd(self) -> float | None:
        """Dollars, from the cost of the agents' latest questions; None if no provider has reported a price yet."""
        prices = {agent: price_of_token(agent) for agent in self._tokens_by_agent()}
        known = [price for price in prices.values() if price is not None]
        if len(known) < len(prices) and not known:
            return None
        # An agent without a price costs as much as the other one; they mostly use the same model.
        return sum(tokens * (prices[agent] or known[0]) for agent, tokens in self._tokens_by_agent().items())

    @property
    def cost_usd(self) -> float | None:
        embedding, chat = self.embedding_usd, self.chat_usd
        return None if embedding is None or chat is None else embedding + chat


def price_of_token(agent: str) -> float | None:
    """Returns dollars for each token that the agent sent lately, including the answers; None if no price is known."""
    latest = AgentCall.objects.filter(agent=agent, cost_usd__gt=0).order_by("-pk").values("cost_usd", "input_tokens")
    found = latest[:MOST_CALLS].aggregate(dollars=Sum("cost_usd"), tokens=Sum("input_tokens"))
    return found["dollars"] / found["tokens"] if found["tokens"] else None
