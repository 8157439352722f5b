"""Alarms: what is late or in trouble is told once when it begins, and once when it is over.

A watch is looked at each minute, by itself: one that fails stops no other, and is told as a trouble of its own. What
one process stored, another does not tell again. A long stop raises nothing: what was not looked at for a while has its
grace anew.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone, translation
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.models import Alarm, Rhythm
from memoryapp.platform import mail
from memoryapp.platform.database import in_thread, is_outage, log_and_continue
from memoryapp.platform.statements import execute, fetched
from memoryapp.platform.webhooks import sending
from memoryapp.platform.webhooks.announcing import ALARM_HEALED, ALARM_RAISED, address_of, announce
from memoryapp.upkeep.watches import FAULTS, PROCESSES, WATCHES, Sign, Watch

# What nobody looked at for so long was not watched: the program stood still.
ASLEEP = timedelta(minutes=10)
LOOKS_EVERY = 60.0
_TABLE = table_beside(__file__)
_LATE = _TABLE["late"].format(period=_TABLE["period"])
_SQL = {name: text.format(period=_TABLE["period"], late=_LATE) for name, text in _TABLE.items()}

logger = logging.getLogger(__name__)


def look(watches: Iterable[Watch], now: datetime) -> None:
    """Looks at each of the watches, and tells what began or is over; last at those that failed."""
    faults: list[Sign] = []
    for watch in watches:
        with log_and_continue("The watch %s fails.", watch.name):
            _settle(watch, faults if watch is FAULTS else watch.signs(now), now)
            continue
        faults.append(Sign(watch.name))


def _settle(watch: Watch, signs: Iterable[Sign], now: datetime) -> None:
    """Stores what was found, and tells what follows from it, in one transaction of few statements."""
    found = [{**asdict(sign), "good_at": sign.good_at and sign.good_at.isoformat()} for sign in signs]
    values = {
        **{"watch": watch.name, "now": now, "awake": now - ASLEEP, "signs": json.dumps(found)},
        **{"period": float(watch.period), "grace": watch.grace, "counts_work": watch.counts_work},
        **{"needs_past": watch.needs_past, "learns": watch.period > 0 and not watch.is_fixed},
    }
    with transaction.atomic():
        for step in ("observe", "forget", "begin", "calm"):
            execute(_SQL[step], values)
        healed = [alarm for alarm, was_told in fetched(_SQL["heal"], values) if was_told]
        _tell([alarm for (alarm,) in fetched(_SQL["tell"], values)], ALARM_RAISED)
        _tell(healed, ALARM_HEALED)


def _tell(alarms: Sequence[int], kind: str) -> None:
    """Announces it to webhooks, and lets mail wait; in the transaction of what happened."""
    for row in Alarm.objects.filter(pk__in=alarms).order_by("pk"):
        announce(kind, subject=str(row.pk))
        mail.wait_in(row, ",".join(settings.ALARM_MAIL))
        row.save(update_fields=["mail", "mail_at", "mail_tries"])


async def keep_watch_from_web() -> None:
    """Looks at the worker and beat as long as the web process lives, and sends in their place while they are silent."""
    while True:
        await asyncio.sleep(LOOKS_EVERY)
        try:
            if await in_thread(_are_silent):
                await in_thread(send_mail_due)
                await sending.send_due()
        except Exception as error:
            if not is_outage(error):
                logger.exception("the worker cannot be watched")


def _are_silent() -> bool:
    look([PROCESSES], timezone.now())
    return Alarm.objects.filter(rhythm__watch=PROCESSES.name, healed_at__isnull=True).exists()


# Alarms as people read them, on pages and by mail.


@dataclass(frozen=True, slots=True)
class Told:
    """What is watched, with its alarm if it has one, and what it is called."""

    rhythm: Rhythm
    watch: Watch
    what: str
    alarm: Alarm | None = None

    @property
    def sentence(self) -> str:
        since, trouble = self.rhythm.good_at, self.watch.trouble
        if since is None and self.watch.never:
            trouble = self.watch.never
        return _(trouble) % {"what": self.what, "since": since and f"{localtime(since):%Y-%m-%d %H:%M}"}

    @property
    def label(self) -> str:
        return _(self.watch.label)

    @property
    def advice(self) -> str:
        return _(self.watch.advice)

    @property
    def period(self) -> int:
        """Seconds within which success is expected, in whole minutes; 0 where there is no rhythm."""
        learnt = min(max(self.watch.period, 3 * (self.rhythm.usual or 0)), 24 * self.watch.period)
        return self.rhythm.period or int(learnt) // 60 * 60


def told(rows: Iterable[Alarm | Rhythm], *, names_others: bool = True) -> list[Told]:
    """These in their order; what names a memory or a token is left out if the reader may not see all. At most one query
    for each watch."""
    pairs = [(row.rhythm, row) if isinstance(row, Alarm) else (row, None) for row in rows]
    names = {
        name: watch.names_of([rhythm.subject for rhythm, _alarm in pairs if rhythm.watch == name])
        for name, watch in WATCHES.items()
    }
    return [
        Told(rhythm, watch, names[watch.name].get(rhythm.subject) or rhythm.subject, alarm)
        for rhythm, alarm in pairs
        if (watch := WATCHES.get(rhythm.watch))
        and (names_others or not watch.of_admins or rhythm.subject in watch.names)
    ]


def send_mail_due() -> None:
    mail.send_due(Alarm.objects.select_related("rhythm"), _message)


def _message(alarm: Alarm) -> EmailMessage:
    """In the language of the installation."""
    with translation.override(settings.LANGUAGE_CODE):
        (shown,) = told([alarm])
        lines, subject = [shown.sentence, shown.advice], _("Trouble: %(trouble)s") % {"trouble": shown.sentence}
        if alarm.healed_at:
            began = _("It began %(when)s.") % {"when": f"{localtime(alarm.raised_at):%Y-%m-%d %H:%M}"}
            subject = _("Over: %(trouble)s") % {"trouble": ": ".join(filter(None, (shown.label, shown.what)))}
            lines = [subject, began]
        text = "\n".join([*lines, "", *dict.fromkeys([address_of(shown.watch.route), address_of("alarms")])])
    return mail.message(settings.ALARM_MAIL, subject, text)
