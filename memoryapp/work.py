"""Work in sight: each piece of work that takes a while keeps a row with how far it is.

The rows are for those who look and for those who wait; whoever works finds what to do in the messages and
passages themselves. A process that is killed leaves its row without signs of life, and the next sweep takes the
work up.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from django.db import DatabaseError, IntegrityError, InterfaceError
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.logs import cause
from memoryapp.models import ChatUser, Work

# Signs of life are written this often at most; without one for this long, nobody is at work.
BEAT_SECONDS = 0.5
SILENT = timedelta(seconds=60)
# How long a failure is shown.
REMEMBERED = timedelta(days=1)

WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Progress:
    """One piece of work as people are shown it: ``rate`` a second and ``seconds_left`` are None while unknown."""

    work: Work
    is_going_on: bool
    rate: float | None
    seconds_left: float | None

    @property
    def percent(self) -> int:
        return int(self.work.share * 100)


Report = Callable[[Progress], None]


class Steps:
    """Where who works says how far it is; ``report`` is called when that is written down."""

    def __init__(self, row: Work, report: Report) -> None:
        self._row, self._report, self._written = row, report, time.monotonic()

    def reached(self, done: int, share: float) -> None:
        """``done`` is the number of messages or passages so far, ``share`` what part of all that is."""
        self._row.done, self._row.share = done, min(1.0, share)
        if time.monotonic() - self._written >= BEAT_SECONDS:
            self.write(Work.State.GOING_ON)
            self._written = time.monotonic()
            self._report(progress(self._row))

    def write(self, state: Work.State, fault: str = "") -> None:
        row = self._row
        row.state, row.fault, row.at = state, fault, timezone.now()
        # An update, for the chat user may be erased meanwhile.
        fields = ("state", "fault", "at", "done", "share")
        Work.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in fields})


def process(name: str) -> str:
    """This process, for those who ask who works."""
    return _("%(name)s (process %(pid)s)") % {"name": name, "pid": os.getpid()}


@contextmanager
def going_on(
    owner: ChatUser | int, kind: Work.Kind, worker: str = WORKER, source: str = "", report: Report = lambda shown: None
) -> Iterator[Steps]:
    """The row of a piece of work while it goes on; it ends as done, or as failed with what went wrong."""
    owner_id = owner if isinstance(owner, int) else owner.pk
    began = timezone.now()
    fields = {"state": Work.State.GOING_ON, "worker": process(worker), "started_at": began}
    row, _made = Work.objects.update_or_create(
        owner_id=owner_id, kind=kind, source=source[:300], defaults={**fields, "done": 0, "share": 0.0, "fault": ""}
    )
    steps = Steps(row, report)
    try:
        yield steps
    except BaseException as error:
        # The connection may be what is lost; a row without signs of life tells the same.
        with suppress(DatabaseError, InterfaceError):
            steps.write(Work.State.FAILED, _fault(error))
            if isinstance(error, Exception):
                Work.objects.filter(pk=row.pk).update(asked_at=None)
        raise
    row.share = 1.0
    steps.write(Work.State.DONE)
    Work.objects.filter(pk=row.pk, asked_at__lte=began).update(asked_at=None)


def _fault(error: BaseException) -> str:
    return cause(str(error)) if isinstance(error, Exception) and str(error) else _("It was interrupted.")


class Joint:
    """One piece of work for several chat users at once; ``totals`` has how much there is for each, by id."""

    def __init__(self, kind: Work.Kind, worker: str, totals: Mapping[int, int], report: Report) -> None:
        self._kind, self._worker, self._totals, self._report = kind, worker, totals, report
        self._stack = ExitStack()
        self._steps: dict[int, Steps] = {}
        self._done: Counter[int] = Counter()

    def add(self, owners: Sequence[int]) -> None:
        """One thing more is done for each of ``owners``."""
        for owner, count in Counter(owners).items():
            self._done[owner] += count
            # A chat user who is erased meanwhile needs no row, and takes nobody's work down.
            with suppress(IntegrityError):
                self._of(owner).reached(self._done[owner], self._done[owner] / max(1, self._totals.get(owner, 1)))

    def _of(self, owner: int) -> Steps:
        if owner not in self._steps:
            row = going_on(owner, self._kind, self._worker, report=self._report)
            self._steps[owner] = self._stack.enter_context(row)
        return self._steps[owner]

    def end(self, error: BaseException | None = None) -> None:
        """Ends the rows; when the work failed, with its error."""
        self._stack.__exit__(type(error) if error else None, error, None)


class Lines:
    """Progress as lines for who waits at a terminal, at once and then one every few seconds."""

    def __init__(self, write: Callable[[str], object], every: float = 2.0) -> None:
        self._write, self._every, self._told = write, every, 0.0

    def __call__(self, shown: Progress) -> None:
        if self._is_due():
            self._write(sentence(shown))

    def watch(self, owner: ChatUser | None, kind: Work.Kind) -> None:
        """A line about what another process does."""
        if self._is_due():
            shown = of(owner, kind)
            self._write(sentence(shown) if shown else _("Another process is at it; waiting until it ends."))

    def _is_due(self) -> bool:
        if self._told and time.monotonic() - self._told < self._every:
            return False
        self._told = time.monotonic()
        return True


def ask_to_archive(owner: ChatUser, asked_by: str) -> None:
    """The worker archives the owner's sessions soon, those that may still go on too; asking twice is asking once."""
    asked = {"asked_at": timezone.now(), "asked_by": asked_by[:150]}
    waits = {**asked, "state": Work.State.WAITING, "done": 0, "share": 0.0, "fault": ""}
    row, made = Work.objects.get_or_create(owner=owner, kind=Work.Kind.ARCHIVE, source="", defaults=waits)
    if not made:
        is_at_it = Q(state=Work.State.GOING_ON, at__gte=timezone.now() - SILENT)
        Work.objects.filter(is_at_it, pk=row.pk).update(**asked)
        Work.objects.filter(~is_at_it, pk=row.pk).update(**waits, at=timezone.now())


def asked_to_archive() -> QuerySet[ChatUser]:
    """The chat users whose archive somebody waits for."""
    asked = Work.objects.filter(kind=Work.Kind.ARCHIVE, asked_at__isnull=False)
    return ChatUser.objects.filter(pk__in=asked.values("owner")).order_by("pk")


def is_asked(owner: ChatUser) -> bool:
    return asked_to_archive().filter(pk=owner.pk).exists()


def unfinished(owners: QuerySet[ChatUser]) -> list[Progress]:
    """What is asked for, goes on or failed lately for these chat users, the latest sign of life first."""
    now = timezone.now()
    going = Q(state=Work.State.GOING_ON, at__gte=now - SILENT) | Q(asked_at__isnull=False)
    failed = Q(state=Work.State.FAILED, at__gte=now - REMEMBERED)
    rows = Work.objects.filter(going | failed, owner__in=owners).select_related("owner")
    return [progress(row) for row in rows.order_by("-started_at", "-pk")[:20]]


def of(owner: ChatUser | None, kind: Work.Kind) -> Progress | None:
    """The work of a kind that goes on for this chat user, or for anybody."""
    rows = Work.objects.filter(kind=kind, state=Work.State.GOING_ON, at__gte=timezone.now() - SILENT)
    row = (rows.filter(owner=owner) if owner else rows).select_related("owner").order_by("-at").first()
    return progress(row) if row else None


def progress(row: Work) -> Progress:
    is_going_on = row.state == Work.State.GOING_ON and row.at >= timezone.now() - SILENT
    elapsed = (row.at - row.started_at).total_seconds() if row.started_at else 0.0
    is_known = is_going_on and elapsed > 0 and row.done > 0
    left = elapsed * (1 - row.share) / row.share if is_known and row.share > 0 else None
    return Progress(row, is_going_on, row.done / elapsed if is_known else None, left)


def sentence(shown: Progress) -> str:
    """What goes on for whom, and how far it is."""
    return f"{shown.work.get_kind_display()} ({shown.work.owner}): {line(shown)}"


def line(shown: Progress) -> str:
    """How far a piece of work is: how many, how fast, how long yet, and who is at it."""
    parts = [counted(shown)]
    if shown.rate is not None:
        rate = f"{shown.rate:,.0f}" if shown.rate >= 10 else f"{shown.rate:.1f}"
        parts.append(_("%(rate)s a second") % {"rate": rate})
    if shown.seconds_left is not None:
        parts.append(_("%(time)s left") % {"time": duration(shown.seconds_left)})
    return ", ".join([*parts, shown.work.worker])


def counted(shown: Progress) -> str:
    form = ngettext("%(done)s message (%(percent)s %%)", "%(done)s messages (%(percent)s %%)", shown.work.done)
    if shown.work.kind == Work.Kind.EMBED:
        form = ngettext("%(done)s passage (%(percent)s %%)", "%(done)s passages (%(percent)s %%)", shown.work.done)
    return form % {"done": f"{shown.work.done:,}", "percent": shown.percent}


def duration(seconds: float) -> str:
    """About how long: seconds up to two minutes, then minutes, then hours."""
    if seconds < 120:
        return _("%(n)s s") % {"n": round(seconds)}
    return (
        _("%(n)s min") % {"n": round(seconds / 60)} if seconds < 7200 else _("%(n)s h") % {"n": round(seconds / 3600)}
    )
