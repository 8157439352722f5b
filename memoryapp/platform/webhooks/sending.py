"""Sends what is due, in the worker: claims rows, tries each once, writes what came of it.

Each receiver is served by itself, a few messages at a time, so a slow or dead one holds up no other. A receiver that
fails rests, first for seconds, then for minutes, in which its messages wait without using up their attempts. A claimed
row belongs to this process until its lease ends: if the process is killed, the row is due again, and the receiver may
get the message twice, with the same id."""

import asyncio
import logging
import random
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import groupby
from typing import Any

import httpx
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db.models import Count, F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from memoryapp.engine.beside import table_beside
from memoryapp.engine.json_values import storable
from memoryapp.models import Webhook, WebhookDelivery
from memoryapp.platform import metrics
from memoryapp.platform.database import log_and_continue
from memoryapp.platform.statements import fetched
from memoryapp.platform.webhooks import receivers
from memoryapp.platform.webhooks.announcing import body_of
from memoryapp.platform.webhooks.receivers import PlaceRefused, at_place, places_of

# One attempt to deliver a message, whatever the receiver does: it ends within a time and reads a bounded answer.
#
# By the specification Standard Webhooks 1.0: every 2xx is success, redirects are not followed, everything else is a
# failure, and ``Retry-After`` is heeded.

# So much of an answer is read, and so much of it is kept.
_READ_BYTES, KEPT_CHARS = 4_096, 1_000
# What an answer consists of is known from its first line; its text is waited for no longer than this.
_TEXT_SECONDS = 2.0
_MOST_PLACES = 3
LONGEST_WAIT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of it: ``fault`` is a code, empty after success; ``status`` and ``response`` are the receiver's, if it
    answered; ``wait`` is how long it asked to be left alone."""

    fault: str
    status: int | None = None
    response: str = ""
    seconds: float = 0.0
    wait: timedelta | None = None

    @property
    def is_delivered(self) -> bool:
        return not self.fault


def http_client() -> httpx.AsyncClient:
    """A client that follows nothing, keeps no cookie for the next receiver, and asks no proxy: the place is checked."""
    return httpx.AsyncClient(
        timeout=None, follow_redirects=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
    )


async def attempt(http: httpx.AsyncClient, address: str, headers: Mapping[str, str], body: bytes) -> Attempt:
    """Sends the message once. Never raises because of the receiver."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(settings.WEBHOOK_TIMEOUT):
            made = await _sent(http, httpx.URL(address), headers, body)
    except TimeoutError:
        made = Attempt("timeout")
    except PlaceRefused:
        made = Attempt("address")
    except (OSError, UnicodeError):
        made = Attempt("name")
    except httpx.ConnectError as error:
        made = Attempt("tls" if "ssl" in str(error).lower() or "certificate" in str(error).lower() else "refused")
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
        made = Attempt("broken")
    return replace(made, seconds=round(time.monotonic() - began, 3))


async def _sent(http: httpx.AsyncClient, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> Attempt:
    places = (await places_of(url))[:_MOST_PLACES]
    for place in places[:-1]:
        with suppress(httpx.ConnectError):
            return await _posted(http, *at_place(url, place), headers, body)
    return await _posted(http, *at_place(url, places[-1]), headers, body)


async def _posted(
    http: httpx.AsyncClient,
    url: httpx.URL,
    named: Mapping[str, str],
    extensions: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
) -> Attempt:
    # A packed answer could become very large.
    usual = {"content-type": "application/json", "user-agent": "Mnemoscope", "accept-encoding": "identity"}
    request = http.build_request(
        "POST", url, content=body, headers={**usual, **named, **headers}, extensions=dict(extensions)
    )
    response = await http.send(request, stream=True)
    try:
        text = await _beginning(response)
    finally:
        await response.aclose()
    return Attempt(_fault(response.status_code), response.status_code, text, wait=_wait(response))


def _fault(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if status == httpx.codes.GONE:
        return "gone"
    return "redirect" if 300 <= status < 400 else "status"


async def _beginning(response: httpx.Response) -> str:
    """The first characters of the answer, or what of them came in time."""
    read = bytearray()
    with suppress(TimeoutError, httpx.HTTPError, httpx.StreamError):
        async with asyncio.timeout(_TEXT_SECONDS):
            async for piece in response.aiter_raw():
                read += piece
                if len(read) >= _READ_BYTES:
                    break
    return storable(bytes(read[:_READ_BYTES]).decode("utf-8", "replace"))[:KEPT_CHARS].strip()


def _wait(response: httpx.Response) -> timedelta | None:
    """How long the receiver asks to be left alone: ``Retry-After`` in seconds or as a date, within a day."""
    given = response.headers.get("retry-after", "").strip()
    if not given:
        return None
    if given.isdecimal() and given.isascii() and len(given) < 10:
        asked = timedelta(seconds=int(given))
    else:
        try:
            asked = parsedate_to_datetime(given) - datetime.now(UTC)
        except (ValueError, TypeError):
            return None
    return min(max(asked, timedelta(0)), LONGEST_WAIT)


# The example of the specification, from the first attempt on: three days in all.
SCHEDULE = (
    *(timedelta(seconds=5), timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=2), timedelta(hours=5)),
    *(timedelta(hours=10), timedelta(hours=14), timedelta(hours=20), timedelta(hours=24)),
)
# A receiver at which nothing has arrived for so long is switched off when a message is given up.
SILENT = timedelta(days=5)
# Longer than an attempt may take.
LEASE = timedelta(minutes=3)
_AT_ONCE = 8
_MOST_RECEIVERS = 50
_FIRST_REST, _LONGEST_REST = timedelta(seconds=5), timedelta(minutes=5)
_LOOK_AGAIN = 1.0

_SQL = table_beside(__file__)
_CLAIM: str = _SQL["claim"]
_IS_DUE: str = _SQL["is_due"]

logger = logging.getLogger(__name__)


def is_due() -> bool:
    """Whether a message waits that may be sent now."""
    return bool(fetched(_IS_DUE)[0][0])


async def send_due(seconds: float = 20.0) -> int:
    """Sends until nothing is due; begins nothing after ``seconds``. Returns how many messages were tried."""
    async with http_client() as http:
        return await _Round(http, time.monotonic() + seconds).run()


class _Round:
    """The receivers that are being served, each by a task."""

    def __init__(self, http: httpx.AsyncClient, until: float) -> None:
        self._http, self._until = http, until
        self._serving: dict[int, asyncio.Task[int]] = {}

    async def run(self) -> int:
        tried = 0
        while True:
            if time.monotonic() < self._until:
                for rows in await sync_to_async(_claimed)(self._serving.keys()):
                    self._serving[rows[0].webhook_id] = asyncio.create_task(self._serve(rows))
            if not self._serving:
                return tried
            await asyncio.wait(self._serving.values(), timeout=_LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)
            for number in [number for number, task in self._serving.items() if task.done()]:
                tried += self._serving.pop(number).result()

    async def _serve(self, rows: Sequence[WebhookDelivery]) -> int:
        await asyncio.gather(*map(self._try, rows))
        return len(rows)

    async def _try(self, row: WebhookDelivery) -> None:
        body, began = row.body.encode(), timezone.now()
        try:
            signed = receivers.headers(row.webhook, row.message_id, body, began)
            made = await attempt(self._http, row.webhook.address, signed, body)
        except Exception:
            logger.exception("A message to webhook %s was not sent.", row.webhook_id)
            made = Attempt("failed")
        await sync_to_async(_record)(row, made, began)


def _claimed(busy: Collection[int]) -> list[list[WebhookDelivery]]:
    """Rows that this process now sends, of each receiver together, with their bodies."""
    values: dict[str, Any] = {"lease": LEASE, "busy": [*busy], "most": _AT_ONCE, "receivers": _MOST_RECEIVERS}
    numbers = [number for (number,) in fetched(_CLAIM, values)]
    if not numbers:
        return []
    rows = WebhookDelivery.objects.filter(pk__in=numbers).select_related("webhook", "owner")
    ready = []
    for row in rows.order_by("webhook", "pk"):
        with log_and_continue("Message %s to a webhook cannot be made.", row.pk, partial(_put_off, row)):
            if _is_signable(row) and _has_body(row):
                ready.append(row)
    return [list(group) for _webhook, group in groupby(ready, key=lambda row: row.webhook_id)]


def _put_off(row: WebhookDelivery, error: Exception) -> None:
    """As after an attempt that failed, though its receiver is not at fault."""
    made = Attempt("failed")
    state, next_at = _what_next(row, made)
    WebhookDelivery.objects.filter(pk=row.pk).update(state=state, next_at=next_at, fault=made.fault)


def _is_signable(row: WebhookDelivery) -> bool:
    if receivers.is_known(row.webhook):
        return True
    switch_off(row.webhook, "key")
    WebhookDelivery.objects.filter(pk=row.pk).update(next_at=timezone.now(), attempts=F("attempts") - 1)
    return False


def _has_body(row: WebhookDelivery) -> bool:
    """Makes the body at the first attempt; a row that has nothing to say is removed."""
    if not row.body:
        row.body = body_of(row)
        if not row.body:
            row.delete()
            return False
        WebhookDelivery.objects.filter(pk=row.pk).update(body=row.body)
    return True


def _record(row: WebhookDelivery, made: Attempt, began: datetime) -> None:
    """Writes what came of the attempt, unless the row is gone meanwhile."""
    tried = {"at": began.isoformat(), "status": made.status, "fault": made.fault, "seconds": made.seconds}
    shown = {"status": made.status, "fault": made.fault, "response": made.response, "seconds": made.seconds}
    state, next_at = _what_next(row, made)
    WebhookDelivery.objects.filter(pk=row.pk).update(
        state=state, next_at=next_at, last_at=began, tries=[*row.tries, tried][-30:], **shown
    )
    metrics.webhook_attempts.labels(outcome="delivered" if made.is_delivered else "failed").inc()
    receiver = Webhook.objects.filter(pk=row.webhook_id)
    if made.is_delivered:
        receiver.update(failures=0, failing_since=None, rests_until=None)
        return
    logger.warning("A message to webhook %s was not delivered: %s %s", row.webhook_id, made.fault, made.status or "")
    hook = row.webhook
    rest = max(min(_FIRST_REST * 2 ** min(hook.failures, 10), _LONGEST_REST), made.wait or timedelta(0))
    receiver.update(
        # Those that fail together count once.
        failures=hook.failures + 1,
        failing_since=Coalesce("failing_since", began),
        rests_until=timezone.now() + rest,
    )
    if made.fault == "gone":
        switch_off(hook, "gone")
    elif state == WebhookDelivery.State.FAILED and hook.failing_since and hook.failing_since < began - SILENT:
        switch_off(hook, "failing")


def _what_next(row: WebhookDelivery, made: Attempt) -> tuple[WebhookDelivery.State, datetime]:
    now = timezone.now()
    if made.is_delivered:
        return WebhookDelivery.State.DELIVERED, now
    if made.fault == "gone" or row.attempts > len(SCHEDULE):
        return WebhookDelivery.State.FAILED, now
    # Messages that failed together do not come back together.
    delay = SCHEDULE[max(row.attempts, 1) - 1] * random.uniform(1.0, 1.1)
    return WebhookDelivery.State.WAITING, now + max(delay, made.wait or timedelta(0))


def switch_off(webhook: Webhook, reason: str) -> None:
    """Sends it nothing more, and collects nothing for it, until a person switches it on again."""
    off = Webhook.objects.filter(pk=webhook.pk).exclude(state=Webhook.State.OFF)
    if off.update(state=Webhook.State.OFF, off_reason=reason):
        logger.warning("Webhook %s is off: %s", webhook.pk, reason)


# The log of messages: what was sent, sent once more by a person, and removed when it is old.

State = WebhookDelivery.State
# How many messages the strip of a webhook shows.
STRIP = 40
_REMOVED_AT_ONCE = 5_000


def resend(rows: QuerySet[WebhookDelivery], webhook: Webhook) -> int:
    """Sends these messages of the webhook again, with the same ids, and as often as new ones; returns how many."""
    # The first attempt is over: what still waits for its first one is announced once.
    again = rows.filter(webhook=webhook).exclude(state=State.WAITING)
    count = again.update(state=State.WAITING, next_at=timezone.now(), attempts=1)
    if count:
        Webhook.objects.filter(pk=webhook.pk).update(rests_until=None)
    return count


def counts(webhook: Webhook) -> dict[str, int]:
    """The number of messages in each state."""
    counted = WebhookDelivery.objects.filter(webhook=webhook).order_by().values("state").annotate(n=Count("pk"))
    return {row["state"]: row["n"] for row in counted}


def strips(webhooks: Iterable[Webhook]) -> dict[int, list[Any]]:
    """The states of the latest messages of each, oldest first; one statement for each webhook."""
    return {
        hook.pk: list(
            WebhookDelivery.objects.filter(webhook=hook)
            .order_by("-at", "-id")
            .values_list("state", "kind", "at", named=True)[:STRIP]
        )[::-1]
        for hook in webhooks
    }


def waiting_count(webhook: Webhook) -> int:
    return WebhookDelivery.objects.filter(state=State.WAITING, webhook=webhook).count()


def prune() -> int:
    """Removes messages that are older than WEBHOOK_KEEP, whatever became of them; returns how many."""
    old = WebhookDelivery.objects.filter(at__lt=timezone.now() - settings.WEBHOOK_KEEP).order_by("at")
    numbers = list(old.values_list("pk", flat=True)[:_REMOVED_AT_ONCE])
    rows = WebhookDelivery.objects.filter(pk__in=numbers)
    return rows._raw_delete(rows.db)
