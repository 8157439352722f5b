"""Caps of what a day may cost, and quotas of what a memory may hold.

A cap is in US dollars, for the installation, a memory or a token; each is off until somebody sets it. What is asked is
refused when its forecast would pass a cap, so that requests at the same time pass it by no more than what is in flight:
runs that go on count with what such a run usually costs. Costs are those that providers report of runs and of agents'
questions; embeddings have none. A quota is checked before anything is stored, for what is new alone. What is
counted is the whole memory, in whichever project somebody asks."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.engine.sight import looking
from memoryapp.models import ApiToken, ChatUser
from memoryapp.platform import cells
from memoryapp.platform.database import StagePaused
from memoryapp.platform.statements import fetched

_SQL = table_beside(__file__)
# By whose cap or quota it is.
SENTENCES: Mapping[str, str] = _SQL["sentences"]


class CapReached(StagePaused):
    """More would pass a cap; the text is a sentence for people. Work of the background waits until the day turns, which
    is in ``wait`` seconds."""

    code = "cap_reached"

    def __init__(self, sentence: str, wait: float) -> None:
        super().__init__(sentence)
        self.wait = wait


class QuotaReached(Exception):
    """The memory may not hold so much; nothing was stored. The text is a sentence for people."""

    code = "quota_reached"


def midnight(now: datetime) -> datetime:
    """When the day began, in the time zone of the installation."""
    return timezone.localtime(now, timezone.get_default_timezone()).replace(hour=0, minute=0, second=0, microsecond=0)


@cells.everywhere()
def today() -> dict[str, float]:
    """Dollars since midnight: of ``all``, and for each ``memory:7`` and ``token:7`` that spent any. One query."""
    return dict(fetched(_SQL["today"], {"midnight": midnight(timezone.now())}))


@looking()
def check_cap(owner: ChatUser, what: str, token: ApiToken | None = None) -> None:
    """Raises CapReached if a run of this strategy, or a question of this agent, would pass a cap. One query where a cap
    is set; without a chat model nothing costs anything."""
    of_token = token.daily_cap_usd if token else None
    caps: dict[str, float | None] = {"all": settings.DAILY_CAP_USD, "memory": owner.daily_cap_usd, "token": of_token}
    if not settings.LLM_BASE_URL or not any(cap is not None for cap in caps.values()):
        return
    now = timezone.now()
    values = {"owner": owner.pk, "token": token and token.pk, "what": what, "midnight": midnight(now)}
    # The installation and the token spend in all cells.
    forecasts, *spent = zip(*(fetched(_SQL["spent"], values)[0] for _number in cells.each()), strict=True)
    forecast = max(forecasts)
    for (whose, cap), used in zip(caps.items(), map(sum, spent), strict=True):
        if cap is not None and (used >= cap or used + forecast > cap):
            turns = midnight(now) + timedelta(days=1)
            said = {
                "cap": f"{cap:,.2f}",
                "used": f"{used:,.4f}",
                "forecast": f"{forecast:,.4f}",
                "at": f"{turns:%H:%M %Z}",
            }
            raise CapReached(_(SENTENCES[whose]) % said, (turns - now).total_seconds())


@looking()
def check_room(owner: ChatUser, texts: Sequence[str] = (), *, messages: int = 0, size: int = 0) -> None:
    """Raises QuotaReached unless the memory may hold these texts as messages, so many more ``messages`` and so many
    more bytes. One query where a quota is set."""
    most_messages = settings.QUOTA_MESSAGES if owner.most_messages is None else owner.most_messages
    most_bytes = settings.QUOTA_BYTES if owner.most_bytes is None else owner.most_bytes
    if most_messages is most_bytes is None:
        return
    count, held = fetched(_SQL["held"], {"owner": owner.pk})[0]
    coming = {"messages": messages + len(texts), "bytes": size + sum(len(text.encode()) for text in texts)}
    for what, there, most in (("messages", count, most_messages), ("bytes", held, most_bytes)):
        if most is not None and coming[what] and there + coming[what] > most:
            numbers = {"n": f"{coming[what]:,}", "held": f"{there:,}", "most": f"{most:,}"}
            raise QuotaReached(_(SENTENCES[what]) % numbers)
