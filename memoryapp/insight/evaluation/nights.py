"""Golden sets asked each night, compared with a baseline, and an alarm when one drops.

``schedule`` says when and begins the evaluation, which the worker asks like any other; ``judging`` compares an ended
one by the gate of ``evaluation.comparison``; ``alarms`` puts a drop into inboxes, announces it to webhooks and mails
it. Everything is a state in the row of the night, so a killed worker loses nothing. The room imports evaluation,
judgements and webhooks."""

import smtplib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from memoryapp.insight.evaluation import comparison, passes
from memoryapp.insight.evaluation.passes import OPEN
from memoryapp.insight.evaluation.questions import QuestionsError
from memoryapp.models import Evaluation, GoldenAlarm, GoldenNight, GoldenQuestion, NightlyRun, Run, Webhook
from memoryapp.platform import mail
from memoryapp.platform.database import each_alone, log_and_continue
from memoryapp.platform.mail import MailError
from memoryapp.platform.webhooks import receivers
from memoryapp.platform.webhooks.announcing import GOLDEN_DROPPED, GOLDEN_RECOVERED, address_of, announce
from memoryapp.runs.parameters import ParameterError, strategy_for_new_run

# When a golden set is asked, and the beginning of a night.

# The set of questions that once went wrong: of these one that falls is an alarm.
MISSES = "Misses"
KEPT = "kept"
MOST_NIGHTLY = 20


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


def save(nightly: NightlyRun) -> NightlyRun:
    """Stores a new or changed one, which is next asked in the coming night. Raises NightlyError."""
    if nightly.pk is None and NightlyRun.objects.count() >= MOST_NIGHTLY:
        raise NightlyError(_("There are %(most)d nightly runs already; remove one first.") % {"most": MOST_NIGHTLY})
    try:
        strategy_for_new_run(nightly.strategy)
        nightly.recipients = "\n".join(mail.recipients_of(nightly.recipients))
    except (ParameterError, MailError) as error:
        raise NightlyError(str(error)) from None
    if not 0 <= nightly.hour <= 23 or not 1 <= nightly.most <= passes.MOST_QUESTIONS:
        raise NightlyError(_("The hour is 0 to 23, and a night asks 1 to %(most)d questions.") % {"most": 1_000})
    if not questions_of(nightly).exists():
        raise NightlyError(_("Choose a set with questions."))
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


# The alarm of a night that dropped: in inboxes, to webhooks, by mail; once for a drop, again if it gets worse, and
# webhooks and mail also tell once that it is over.

# A figure that fell further by so much since the last alarm is news.
FURTHER = 0.05
# A figure as mail shows it.
_FIGURE = "%(figure)-22s %(mean)+.3f   [%(low)+.3f … %(high)+.3f]   n = %(n)d"

State = GoldenNight.State


def standing_alarm(night: GoldenNight) -> GoldenNight | None:
    """The last alarm before the night, as long as no good night followed and no other baseline was chosen."""
    earlier = GoldenNight.objects.filter(nightly=night.nightly_id, pk__lt=night.pk).order_by("-pk")
    last, baseline = earlier.filter(is_alarm=True).first(), night.nightly.baseline_id
    if last is None or (baseline and last.against_id != baseline):
        return None
    return None if earlier.filter(state=State.PASSED, pk__gt=last.pk).exists() else last


def is_news(night: GoldenNight) -> bool:
    """Whether this drop is untold: no alarm stands, or another figure has fallen, or one has fallen further."""
    if (last := standing_alarm(night)) is None:
        return True
    before = {each["figure"]: abs(each["mean"]) for each in last.regressions}
    known = {qid for each in last.regressions for qid in each.get("questions", ())}
    return any(
        abs(each["mean"]) > before.get(each["figure"], -FURTHER) + FURTHER
        or not known.issuperset(each.get("questions", ()))
        for each in night.regressions
    )


def _tell(night: GoldenNight, kind: str) -> None:
    mail.wait_in(night, night.nightly.recipients)
    announce(kind, subject=str(night.pk))


def send_mail_due() -> None:
    mail.send_due(GoldenNight.objects.select_related("nightly"), _message)


def _message(night: GoldenNight) -> EmailMessage:
    """In the language of the installation."""
    with translation.override(settings.LANGUAGE_CODE):
        nightly = night.nightly
        subject = _("Golden set “%(set)s” dropped: %(figures)s")
        first = _("The golden questions of “%(set)s” were answered worse by %(strategy)s than before.")
        if night.state == State.PASSED:
            subject = _("Golden set “%(set)s” is as good as before again")
            first = _("The golden questions of “%(set)s” are answered by %(strategy)s as well as before.")
        figures = ", ".join(f"{each['figure']} {each['mean']:+.3f}" for each in night.regressions)
        values = {"set": nightly.collection, "strategy": nightly.strategy, "figures": figures}
        lines = [_FIGURE % each for each in night.regressions]
        text = "\n".join([first % values, "", *lines, "", address_of("nightly", nightly.pk)])
    return mail.message(nightly.recipients.split("\n"), (subject % values)[:200], text)


def try_alarm(nightly: NightlyRun) -> Sequence[str]:
    """Sends a test by every way an alarm takes; returns what was done and what failed, a sentence each."""
    hooks = [hook for hook in Webhook.objects.all()[: receivers.MOST_WEBHOOKS] if GOLDEN_DROPPED in hook.kinds]
    for hook in hooks:
        receivers.test(hook)
    done = [_("A test message goes to the webhook “%(name)s”.") % {"name": hook.name} for hook in hooks]
    if not hooks:
        done.append(_("No webhook is for dropped golden runs."))
    return [*done, _tried_mail(nightly)]


def _tried_mail(nightly: NightlyRun) -> str:
    if not nightly.recipients:
        return _("Nobody gets mail: no address is given.")
    if not mail.has_mail():
        return _("No mail can be sent: EMAIL_URL is not set.")
    text = _("A test of the alarm for the golden set “%(set)s”.") % {"set": nightly.collection}
    try:
        mail.message(nightly.recipients.split("\n"), text, address_of("nightly", nightly.pk)).send()
    except (OSError, smtplib.SMTPException) as error:
        return _("The mail server refused: %(error)s") % {"error": str(error)[:300] or type(error).__name__}
    return _("Mail was sent to %(addresses)s.") % {"addresses": ", ".join(nightly.recipients.split("\n"))}


# What came of a night: compared with the baseline, or with the last night that did not drop.
#
# A question whose run ended by an outage says nothing about the program, and is left out. Where a fifth of them did,
# the night could not be asked, which is no drop.

# Ends of runs that tell of the endpoint or of this machine, not of the answers.
OUTAGES = ("llm_error", "timeout", "turn_timeout", "no_vectors", "abandoned", "crashed", "stopped")
# From this share of its questions on a night could not be asked.
TOO_MANY = 0.2
_NIGHTS_BEFORE = 30


def judge_ended() -> list[GoldenNight]:
    rows = GoldenNight.objects.filter(state=State.RUNNING).exclude(evaluation__state__in=OPEN).order_by("pk")
    ended = []
    for number in list(rows.values_list("pk", flat=True)):
        with log_and_continue("Night %s could not be judged.", number, partial(_fail, number)):
            ended.append(_judged(number))
    return [night for night in ended if night]


def _fail(number: int, error: Exception) -> None:
    GoldenNight.objects.filter(pk=number, state=State.RUNNING).update(state=State.FAILED, reason="stopped")


@transaction.atomic
def _judged(number: int) -> GoldenNight | None:
    """The night with its verdict and, if it needs one, its alarm, in one transaction."""
    rows = GoldenNight.objects.select_for_update(skip_locked=True, of=("self",)).select_related("nightly")
    night = rows.filter(pk=number, state=State.RUNNING).first()
    if night is None:
        return None
    done = night.evaluation
    if done is None or done.state != Evaluation.State.FINISHED or not done.report.get("n"):
        night.state, night.reason = State.FAILED, "stopped"
    else:
        _compare(night, done)
    if night.state == State.DROPPED and is_news(night):
        night.is_alarm = True
        asked = GoldenQuestion.objects.filter(pk__in=night.evaluation.questions if night.evaluation else [])
        owners = asked.order_by("owner").values_list("owner", flat=True).distinct()
        told = [GoldenAlarm(owner_id=owner, night=night) for owner in owners]
        GoldenAlarm.objects.bulk_create(told, ignore_conflicts=True)
        _tell(night, GOLDEN_DROPPED)
    elif night.state == State.PASSED and not night.reason and standing_alarm(night):
        _tell(night, GOLDEN_RECOVERED)
    night.save()
    return night


def _compare(night: GoldenNight, done: Evaluation) -> None:
    out = _interrupted(done)
    night.failed = len(out)
    if night.failed >= max(1, TOO_MANY * done.report["n"]):
        night.state, night.reason = State.FAILED, "outage"
        return
    known = [night.nightly.baseline] if night.nightly.baseline else _good(night)
    night.state, night.reason = State.PASSED, "nothing_shared" if known else "first"
    after: dict[str, Any] = {"questions": ()}
    # With the last good night and, so that no slow fall is missed, with the first of many.
    for against in known:
        interrupted = out | _interrupted(against)
        before, after = _without(against.report, interrupted), _without(done.report, interrupted)
        if not comparison.pairs(before, after):
            continue
        night.reason = ""
        night.regressions = [
            {"figure": each.name, "n": each.difference.n}
            | {name: round(getattr(each.difference, name), 4) for name in ("mean", "low", "high")}
            for each in comparison.regressions(before, after)
        ]
        if night.regressions or not night.against:
            night.against = against
        if night.regressions:
            break
    if night.nightly.collection == MISSES:
        night.regressions += _fallen(night, after["questions"])
    if night.regressions:
        night.state = State.DROPPED


def is_right(row: Mapping[str, Any]) -> bool:
    """Whether a question of a report chose something that holds its evidence."""
    return bool(row["f1"] > 0)


def _fallen(night: GoldenNight, asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The questions that were right in an earlier night and are not now, as a figure of their own; no statistics,
    because each of them went wrong once already."""
    earlier = Evaluation.objects.filter(pk__in=night.nightly.nights.filter(pk__lt=night.pk).values("evaluation"))
    reports = earlier.order_by("-pk").values_list("report", flat=True)[:_NIGHTS_BEFORE]
    right = {row["qid"] for report in reports for row in report.get("questions", ()) if is_right(row)}
    fell = [row["qid"] for row in asked if row["qid"] in right and not is_right(row)]
    share = round(-len(fell) / len(asked), 4) if fell else 0.0
    figure = {"figure": KEPT, "n": len(asked), "mean": share, "low": share, "high": share, "questions": fell}
    return [figure] if fell else []


def _good(night: GoldenNight) -> list[Evaluation]:
    """The evaluations of the last night before this one that did not drop, by the same strategy, and of the first of
    the last thirty."""
    good = GoldenNight.objects.filter(nightly=night.nightly_id, state=State.PASSED, pk__lt=night.pk)
    rows = good.filter(evaluation__strategy=night.nightly.strategy).order_by("-pk")
    numbers = list(rows.values_list("evaluation", flat=True)[:_NIGHTS_BEFORE])
    return list(Evaluation.objects.filter(pk__in={*numbers[:1], *numbers[-1:]}).order_by("-pk"))


def _interrupted(evaluation: Evaluation) -> set[str]:
    """The questions whose run ended by an outage; of runs that are gone nothing is known."""
    runs = Run.objects.filter(evaluation=evaluation, fallback__in=OUTAGES).values_list("pk", flat=True)
    numbers = {str(pk) for pk in runs}
    return {row["qid"] for row in evaluation.report.get("questions", ()) if row["run"] in numbers}


def _without(report: Mapping[str, Any], out: set[str]) -> dict[str, Any]:
    return {**report, "questions": [row for row in report.get("questions", ()) if row["qid"] not in out]}
