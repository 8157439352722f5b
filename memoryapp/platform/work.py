"""Background work and its progress: one row for each archive, import or embedding.

The rows are for people who watch or wait; a worker finds its work in the messages and passages themselves. The row of a
killed process is no longer updated, and the next sweep continues the work.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from django.db import DatabaseError, IntegrityError, InterfaceError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.engine.notes import Note, NotedError, english
from memoryapp.engine.sight import looking
from memoryapp.models import ChatUser, Pause, StagePause, Work
from memoryapp.models.work import KINDS, MESSAGES, WorkKind
from memoryapp.platform.cells import everywhere, of_owner
from memoryapp.platform.database import StagePaused, lease_holds, log_and_continue
from memoryapp.platform.logs import cause

# The heartbeat of a row is written at most this often; after this long without one, nobody is at work.
BEAT_SECONDS = 0.5
SILENT = timedelta(seconds=60)
# How long a failure is shown.
REMEMBERED = timedelta(days=1)

# How long work rests after each fault of the program; after one more a person has to ask for it.
RESTS = (timedelta(minutes=1), timedelta(minutes=10))
MOST_TRIES = len(RESTS) + 1

ARCHIVE = WorkKind("archive", gettext_lazy("Archiving"))

WORKER = "worker"
# Before the label of a session whose archiving alone was asked for; the whole is within the length of a source.
_OF_SESSION = "session:"
UNBEGUN: Mapping[str, Any] = MappingProxyType({"done": 0, "share": 0.0, "fault": "", "fault_note": None})


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """A piece of work as people are shown it; ``rate`` per second and ``seconds_left`` are None while unknown."""

    work: Work
    is_going_on: bool
    rate: float | None
    seconds_left: float | None

    @property
    def percent(self) -> int:
        return int(self.work.share * 100)


Report = Callable[[WorkProgress], None]


class Steps:
    """Writes the progress of the work into its row; ``report`` is called after each write. The worker stops when its
    kind of work was paused meanwhile; a person's own command continues."""

    def __init__(self, row: Work, report: Report, *, heeds_pauses: bool) -> None:
        self._row, self._report, self._written = row, report, time.monotonic()
        self._heeds_pauses = heeds_pauses

    def reached(self, done: int, share: float) -> None:
        """``done`` is the number of messages or passages, ``share`` its share of the total. Raises StagePaused."""
        self._row.done, self._row.share = done, min(1.0, share)
        if time.monotonic() - self._written >= BEAT_SECONDS:
            self.write(Work.State.GOING_ON)
            self._written = time.monotonic()
            self._report(progress(self._row))
            if self._heeds_pauses and is_paused(self._row.kind, self._row.owner_id):
                raise StagePaused

    def write(self, state: Work.State, fault: str = "", note: Note | None = None) -> None:
        row = self._row
        row.state, row.fault, row.fault_note, row.at = state, fault, note.stored() if note else None, timezone.now()
        # An update, because the chat user may be erased meanwhile.
        fields = ("state", "fault", "fault_note", "at", "done", "share")
        Work.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in fields})


def process(name: str) -> str:
    """Returns a name for this process, which ``process_words`` puts into words for people who ask who is at work."""
    return f"{name}#{os.getpid()}"


def process_words(process: str) -> str:
    name, _mark, pid = process.rpartition("#")
    return _("%(name)s (process %(pid)s)") % {"name": name, "pid": pid} if name else process


@contextmanager
def tracked(
    owner: ChatUser | int, kind: WorkKind, worker: str = WORKER, source: str = "", report: Report = lambda shown: None
) -> Iterator[Steps]:
    """Keeps the row of a piece of work while the block runs; afterwards the row is done, or failed with the reason."""
    owner_id = owner if isinstance(owner, int) else owner.pk
    began = timezone.now()
    begins = {"state": Work.State.GOING_ON, "worker": process(worker), "started_at": began, **UNBEGUN}
    row, _made = Work.objects.update_or_create(owner_id=owner_id, kind=kind, source=source[:300], defaults=begins)
    steps = Steps(row, report, heeds_pauses=worker == WORKER)
    try:
        yield steps
    except StagePaused:
        steps.write(Work.State.WAITING)
        raise
    except BaseException as error:
        # The lost connection may be the reason of the failure; a row without heartbeat says the same.
        with suppress(DatabaseError, InterfaceError):
            steps.write(Work.State.FAILED, *_fault(error))
            if isinstance(error, Exception):
                Work.objects.filter(pk=row.pk).update(asked_at=None)
        raise
    row.share = 1.0
    steps.write(Work.State.DONE)
    Work.objects.filter(pk=row.pk, tries__gt=0).update(tries=0)
    # A later request is for more than was done here.
    Work.objects.filter(pk=row.pk, asked_at=row.asked_at).update(asked_at=None)


def _fault(error: BaseException) -> tuple[str, Note | None]:
    """Returns the fault as a sentence, and as a code with values, where there is one."""
    if isinstance(error, Exception) and str(error):
        return cause(str(error)), error.note if isinstance(error, NotedError) else None
    interrupted = Note("interrupted")
    return english([interrupted]), interrupted


class JointWork:
    """One piece of work for several chat users at once; ``totals`` is the amount for each, by id."""

    def __init__(
        self, kind: WorkKind, worker: str, totals: Mapping[int, int], report: Report, source: str = ""
    ) -> None:
        self._kind, self._worker, self._totals, self._report = kind, worker, totals, report
        self._source = source
        self._stack = ExitStack()
        self._steps: dict[int, Steps] = {}
        self._done: Counter[int] = Counter()

    def begin(self, owners: Iterable[int]) -> None:
        """Begins the work: the rows exist before the first item is done, and time counts from now."""
        for owner in set(owners):
            # A chat user who is erased meanwhile needs no row, and must not stop the work for others.
            with suppress(IntegrityError):
                self._of(owner)

    def add(self, owners: Sequence[int]) -> None:
        """Counts one item as done for each of ``owners``."""
        for owner, count in Counter(owners).items():
            self._done[owner] += count
            with suppress(IntegrityError):
                self._of(owner).reached(self._done[owner], self._done[owner] / max(1, self._totals.get(owner, 1)))

    def _of(self, owner: int) -> Steps:
        if owner not in self._steps:
            row = tracked(owner, self._kind, self._worker, self._source, self._report)
            self._steps[owner] = self._stack.enter_context(row)
        return self._steps[owner]

    def end(self, error: BaseException | None = None) -> None:
        self._stack.__exit__(type(error) if error else None, error, None)


class ProgressLines:
    """Progress as lines for a terminal: the first one at once, then one every few seconds."""

    def __init__(self, write: Callable[[str], object], every: float = 2.0) -> None:
        self._write, self._every, self._written_at = write, every, 0.0

    def __call__(self, shown: WorkProgress) -> None:
        if self._is_due():
            self._write(sentence(shown))

    def watch(self, owner: ChatUser | None, kind: WorkKind) -> None:
        """Prints a line about the work of another process."""
        if self._is_due():
            shown = current(owner, kind)
            self._write(sentence(shown) if shown else _("Another process is working on it; waiting until it ends."))

    def _is_due(self) -> bool:
        if self._written_at and time.monotonic() - self._written_at < self._every:
            return False
        self._written_at = time.monotonic()
        return True


@looking()
def ask_to_archive(owner: ChatUser, asked_by: str, session: str | None = None) -> None:
    """Asks the worker to archive the owner's sessions soon, including active ones, or only those with the label
    ``session``; a second call changes nothing."""
    asked = {"asked_at": timezone.now(), "asked_by": asked_by[:150]}
    waits = {**asked, "state": Work.State.WAITING, **UNBEGUN}
    try_again(owner, ARCHIVE)
    source = "" if session is None else _OF_SESSION + session
    row, made = Work.objects.get_or_create(owner=owner, kind=ARCHIVE, source=source, defaults=waits)
    if not made:
        is_at_it = _going_on()
        Work.objects.filter(is_at_it, pk=row.pk).update(**asked)
        Work.objects.filter(~is_at_it, pk=row.pk).update(**waits, at=timezone.now())


def asked_to_archive() -> QuerySet[ChatUser]:
    """Returns the chat users for whom somebody asked to archive now."""
    asked = Work.objects.filter(kind=ARCHIVE, asked_at__isnull=False)
    return ChatUser.objects.filter(pk__in=asked.values("owner")).order_by("pk")


@dataclass(frozen=True, slots=True)
class AskedSessions:
    """What archiving was asked for: ``everything``, or sessions of the ``labels``, with the time of the request."""

    everything: bool
    labels: Mapping[str, datetime | None]

    def __bool__(self) -> bool:
        return self.everything or bool(self.labels)

    @classmethod
    def of(cls, owner: ChatUser) -> AskedSessions:
        rows = Work.objects.filter(owner=owner, kind=ARCHIVE, asked_at__isnull=False)
        asked = dict(rows.values_list("source", "asked_at"))
        of_labels = {source.removeprefix(_OF_SESSION): at for source, at in asked.items() if source}
        return cls("" in asked, of_labels)

    def end(self, owner: ChatUser) -> None:
        """Removes the requests for single sessions, which were carried out or have failed."""
        for label, at in self.labels.items():
            # A later request is for more than was done here.
            Work.objects.filter(owner=owner, source=_OF_SESSION + label, asked_at=at).delete()


def pause(kind: WorkKind, by: str, owner: ChatUser | None = None) -> None:
    """Pauses this kind of work, for one chat user or, without one, for all; a second call changes nothing."""
    if owner:
        Pause.objects.get_or_create(owner=owner, kind=kind, defaults={"by": by[:150]})
    else:
        StagePause.objects.get_or_create(kind=kind, defaults={"by": by[:150]})


def resume(kind: WorkKind, owner: ChatUser | None = None) -> None:
    """Ends a pause; ending the pause for all chat users does not end that of a single one."""
    paused = Pause.objects.filter(owner=owner) if owner else StagePause.objects.all()
    paused.filter(kind=kind).delete()
    if owner:
        try_again(owner, kind)


def is_paused(kind: str, owner: ChatUser | int | None = None) -> bool:
    if StagePause.objects.filter(kind=kind).exists():
        return True
    return owner is not None and Pause.objects.filter(kind=kind, owner=owner).exists()


def unpaused(owners: QuerySet[ChatUser], kind: WorkKind) -> QuerySet[ChatUser]:
    """Those of ``owners`` for whom this kind of work is not paused."""
    if is_paused(kind):
        return owners.none()
    return owners.exclude(pk__in=Pause.objects.filter(kind=kind).values("owner"))


def do_for_each(
    owners: QuerySet[ChatUser], kind: WorkKind, act: Callable[[ChatUser], object], enough: Callable[[], bool]
) -> None:
    """Does this kind of work for one chat user after another, until it is ``enough``.

    A fault of the program ends as a failed row of that chat user and keeps nobody else waiting. The work is tried again
    after each of ``RESTS``, then only when a person asks for it (``try_again``).
    """
    for owner in list(unpaused(owners, kind).exclude(pk__in=at_rest(kind))):
        if enough() or is_paused(kind):
            return
        serve(owner, kind, act)


@of_owner
def serve(owner: ChatUser, kind: WorkKind, act: Callable[[ChatUser], object], source: str = "") -> None:
    """Does this kind of work for one chat user; its fault is kept, and forgotten after a success."""
    began, message = timezone.now(), f"{kind.capitalize()}: the work for chat user %s failed."
    keep = partial(_keep_fault, owner.pk, kind, source)
    with suppress(StagePaused), log_and_continue(message, owner.pk, keep):
        act(owner)
        # Not a failure that the work itself has written meanwhile.
        rows = Work.objects.filter(owner=owner, kind=kind, source=source, tries__gt=0, at__lt=began)
        rows.update(tries=0, state=Work.State.DONE)


def _keep_fault(owner_id: int, kind: WorkKind, source: str, error: Exception) -> None:
    fault, note = _fault(error)
    failed = {
        "state": Work.State.FAILED,
        "fault": fault,
        "fault_note": note.stored() if note else None,
        "asked_at": None,
        "at": timezone.now(),
    }
    # A chat user who is erased meanwhile needs no row.
    with suppress(IntegrityError), transaction.atomic():
        row, _made = Work.objects.update_or_create(owner_id=owner_id, kind=kind, source=source, defaults=failed)
        Work.objects.filter(pk=row.pk).update(tries=F("tries") + 1)


def at_rest(kind: WorkKind, source: str = "") -> QuerySet[Work, int]:
    """The chat users whose work of this kind failed by a fault, and rests or was given up."""
    rests = Q(tries__gte=MOST_TRIES)
    for tries, rest in enumerate(RESTS, start=1):
        rests |= Q(tries=tries) & lease_holds("at", rest)
    return Work.objects.filter(rests, kind=kind, source=source).values_list("owner", flat=True)


def try_again(owner: ChatUser, kind: str) -> None:
    """Lets the next sweep do what rests or was given up after faults."""
    Work.objects.filter(owner=owner, kind=kind).update(tries=0)


def pause_sentence(kind: WorkKind, owner: ChatUser) -> str:
    """Returns the sentence that this kind of work is paused for the chat user or for all; empty when it is not."""
    everybodys = StagePause.objects.filter(kind=kind).first()
    paused = everybodys or Pause.objects.filter(kind=kind, owner=owner).first()
    if paused is None:
        return ""
    form = _("%(stage)s is paused for all chat users by %(who)s; it goes on when the pause ends.")
    if not everybodys:
        form = _("%(stage)s is paused for this chat user by %(who)s; it goes on when the pause ends.")
    return form % {"stage": paused.get_kind_display(), "who": paused.by}


@everywhere(order=lambda shown: (shown.work.started_at is None, shown.work.started_at or shown.work.at), most=20)
def unfinished(owners: QuerySet[ChatUser]) -> list[WorkProgress]:
    """Work that was requested, is running, or failed recently for these chat users, the latest first."""
    going = _going_on() | Q(asked_at__isnull=False)
    failed = Q(state=Work.State.FAILED) & (Q(at__gte=timezone.now() - REMEMBERED) | Q(tries__gte=MOST_TRIES))
    rows = Work.objects.filter(going | failed, owner__in=owners).select_related("owner")
    return [progress(row) for row in rows.order_by("-started_at", "-pk")[:20]]


def _going_on() -> Q:
    return Q(state=Work.State.GOING_ON) & lease_holds("at", SILENT)


@everywhere(join=lambda one, other: one or other)
def current(owner: ChatUser | None, kind: WorkKind) -> WorkProgress | None:
    """Returns the work of a kind that runs for this chat user, or for anybody."""
    rows = Work.objects.filter(_going_on(), kind=kind)
    row = (rows.filter(owner=owner) if owner else rows).select_related("owner").order_by("-at").first()
    return progress(row) if row else None


def progress(row: Work) -> WorkProgress:
    is_going_on = row.state == Work.State.GOING_ON and abs(timezone.now() - row.at) <= SILENT
    elapsed = (row.at - row.started_at).total_seconds() if row.started_at else 0.0
    is_known = is_going_on and elapsed > 0 and row.done > 0
    left = elapsed * (1 - row.share) / row.share if is_known and row.share > 0 else None
    return WorkProgress(row, is_going_on, row.done / elapsed if is_known else None, left)


def sentence(shown: WorkProgress) -> str:
    """Returns the work that is running, for whom, and its progress."""
    return f"{shown.work.get_kind_display()} ({shown.work.owner}): {line(shown)}"


def line(shown: WorkProgress) -> str:
    """Returns the progress of a piece of work: how much, how fast, the remaining time, and who does it."""
    parts = [counted(shown)]
    if shown.rate is not None:
        rate = f"{shown.rate:,.0f}" if shown.rate >= 10 else f"{shown.rate:.1f}"
        parts.append(_("%(rate)s a second") % {"rate": rate})
    if shown.seconds_left is not None:
        parts.append(_("%(time)s left") % {"time": duration(shown.seconds_left)})
    return ", ".join([*parts, process_words(shown.work.worker)])


def counted(shown: WorkProgress) -> str:
    """Returns how much is done, in what this kind of work counts, and its share of the whole."""
    kind, done = KINDS.get(shown.work.kind), shown.work.done
    form = kind.counted if kind else MESSAGES
    return str(form % {"n": done, "done": f"{done:,}", "percent": shown.percent})


def duration(seconds: float) -> str:
    """Returns a rough duration: in seconds up to two minutes, then minutes, then hours."""
    if seconds < 120:
        return _("%(n)s s") % {"n": round(seconds)}
    return (
        _("%(n)s min") % {"n": round(seconds / 60)} if seconds < 7200 else _("%(n)s h") % {"n": round(seconds / 3600)}
    )
