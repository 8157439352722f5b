"""When a golden set is asked, and the beginning of a night."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.evaluation import passes
from memoryapp.evaluation.questions import QuestionsError
from memoryapp.models import GoldenNight, GoldenQuestion, NightlyRun
from memoryapp.operations.outages import each_alone
from memoryapp.runs.parameters import ParameterError, strategy_for_new_run

MOST_NIGHTLY = 20
MOST_RECIPIENTS = 10


class NightlyError(ValueError):
    """A nightly run that cannot be; the text is a sentence for people."""


def questions_of(nightly: NightlyRun) -> QuerySet[GoldenQuestion]:
    rows = GoldenQuestion.objects.filter(collection=nightly.collection, owner__erasing_since__isnull=True)
    return rows.order_by("pk")[: nightly.most]


def next_night(hour: int, zone: str, now: datetime) -> datetime:
    """The next time that clocks of the zone show the hour."""
    place = zone_named(zone)
    today = now.astimezone(place).date()
    at = datetime.combine(today, time(hour), place)
    return (at if at > now else datetime.combine(today + timedelta(days=1), time(hour), place)).astimezone(UTC)


def zone_named(zone: str) -> tzinfo:
    """UTC for a zone that this machine does not know."""
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return UTC


def recipients_of(typed: str) -> list[str]:
    """Mail addresses, one a line or separated by commas. Raises NightlyError."""
    found = list(dict.fromkeys(part.strip() for part in typed.replace(",", "\n").splitlines() if part.strip()))
    if len(found) > MOST_RECIPIENTS:
        raise NightlyError(_("At most %(most)d people get mail.") % {"most": MOST_RECIPIENTS})
    for each in found:
        try:
            validate_email(each)
        except ValidationError:
            raise NightlyError(_("“%(address)s” is no mail address.") % {"address": each[:60]}) from None
    return found


def save(nightly: NightlyRun) -> NightlyRun:
    """Stores a new or changed one, which is next asked in the coming night. Raises NightlyError."""
    if nightly.pk is None and NightlyRun.objects.count() >= MOST_NIGHTLY:
        raise NightlyError(_("There are %(most)d nightly runs already; remove one first.") % {"most": MOST_NIGHTLY})
    try:
        strategy_for_new_run(nightly.strategy)
    except ParameterError as error:
        raise NightlyError(str(error)) from None
    if not 0 <= nightly.hour <= 23 or not 1 <= nightly.most <= passes.MOST_QUESTIONS:
        raise NightlyError(_("The hour is 0 to 23, and a night asks 1 to %(most)d questions.") % {"most": 1_000})
    if not questions_of(nightly).exists():
        raise NightlyError(_("Choose a set with questions."))
    nightly.recipients = "\n".join(recipients_of(nightly.recipients))
    nightly.next_at = next_night(nightly.hour, nightly.zone, timezone.now())
    nightly.save()
    return nightly


def begin_due() -> list[GoldenNight]:
    """Begins the nights that are due; one that was missed is made up for once."""
    begun: list[GoldenNight] = []
    due = NightlyRun.objects.filter(is_on=True, next_at__lte=timezone.now())

    @transaction.atomic
    def begin(number: int) -> None:
        for nightly in due.select_for_update(skip_locked=True).filter(pk=number):
            nightly.next_at = next_night(nightly.hour, nightly.zone, timezone.now())
            nightly.save(update_fields=["next_at"])
            begun.extend(_begun(nightly))

    each_alone(list(due.values_list("pk", flat=True)), "Nightly run %s does not begin.", begin)
    return begun


@transaction.atomic
def begin_now(nightly: NightlyRun) -> Sequence[GoldenNight]:
    """Asks at once what else the coming night would; nothing while a night goes on."""
    return _begun(NightlyRun.objects.select_for_update().get(pk=nightly.pk))


def _begun(nightly: NightlyRun) -> list[GoldenNight]:
    if nightly.nights.filter(state=GoldenNight.State.RUNNING).exists():
        return []
    night = GoldenNight(nightly=nightly, model=settings.RERANKER_MODEL if settings.LLM_BASE_URL else "")
    try:
        night.evaluation = passes.begin(
            list(questions_of(nightly)), [nightly.strategy], source=nightly.collection, by=nightly.made_by
        )
    except QuestionsError:
        night.state, night.reason = GoldenNight.State.FAILED, "no_questions"
    night.save()
    return [night]
