"""Background work and its pauses. What is left to do is found in messages and passages, not here."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from memoryapp.models.user import Owned, ProjectField, Row

# Every kind that a room of the memory declares, by its name.
KINDS: dict[str, WorkKind] = {}
MESSAGES = ngettext_lazy("%(done)s message (%(percent)s %%)", "%(done)s messages (%(percent)s %%)", "n")


class WorkKind(str):
    """A kind of background work, as rows name it; the room that does the work declares it, which adds it to ``KINDS``.

    ``label`` names the work in sentences. ``counted`` says how much of it is done: it has the form of the number ``n``,
    which is written as ``done``, and the share ``percent``.
    """

    label: str | Promise
    counted: str | Promise

    def __new__(cls, name: str, label: str | Promise, counted: str | Promise = MESSAGES) -> WorkKind:
        made = super().__new__(cls, name)
        made.label, made.counted = label, counted
        KINDS[name] = made
        return made


def work_kinds() -> list[tuple[str, str | Promise]]:
    """The kinds that were declared, with their labels."""
    return [(str(kind), kind.label) for kind in KINDS.values()]


class Work(Owned):
    """The latest work of a kind for one chat user, asked for, going on or ended.

    ``source`` is the file of an import or the embedding profile that is to take over, ``worker`` the process at work.
    ``done`` counts messages or passages, ``share`` is how much of all that is, from 0 to 1. If it failed, ``fault`` is
    an English sentence, and ``fault_note`` the same as a code with values, where it has one. An archive that was asked
    for (``asked_at``, by ``asked_by``) also takes sessions that may still go on. ``tries`` counts the faults of the
    program since the last success: after each the work rests, and after some a person has to ask for it.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        GOING_ON = "going_on", _("going on")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    kind = models.CharField(_("kind"), max_length=16, choices=work_kinds)
    source = models.CharField(_("source"), max_length=300, blank=True)
    state = models.CharField(_("state"), max_length=16, choices=State)
    worker = models.CharField(_("worker"), max_length=100, blank=True)
    asked_by = models.CharField(_("asked by"), max_length=150, blank=True)
    asked_at = models.DateTimeField(_("asked"), null=True, blank=True)
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    at = models.DateTimeField(_("last sign of life"), auto_now=True)
    done = models.PositiveIntegerField(_("done"), default=0)
    share = models.FloatField(_("share"), default=0.0)
    fault = models.TextField(_("fault"), blank=True)
    fault_note = models.JSONField(_("fault as a code"), null=True, blank=True)
    tries = models.PositiveSmallIntegerField(_("attempts"), default=0, db_default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "kind", "source"), name="work_once"),)
        verbose_name = _("background work")
        verbose_name_plural = _("background work")

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.get_state_display()}"


class _Pausing(Row):
    """Who keeps the worker from a kind of work, and since when."""

    kind = models.CharField(_("kind"), max_length=16, choices=work_kinds)
    by = models.CharField(_("paused by"), max_length=150)
    at = models.DateTimeField(_("paused"), auto_now_add=True)

    class Meta:
        abstract = True


class StagePause(_Pausing):
    """The worker does nothing of this kind, for any chat user."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("kind",), name="stagepause_once"),)
        verbose_name = _("pause of a stage")
        verbose_name_plural = _("pauses of stages")

    def __str__(self) -> str:
        return self.get_kind_display()


class Pause(Owned, _Pausing):
    """The worker does nothing of this kind for one chat user."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "kind"), name="pause_once"),)
        verbose_name = _("pause for a chat user")
        verbose_name_plural = _("pauses for chat users")

    def __str__(self) -> str:
        return self.get_kind_display()


class BulkWork(Owned):
    """Work on many topics at once, as somebody asked for it; each of its ``BulkTopic`` rows says what is left to do.

    After a failure of a model nothing is tried again before ``rests_until``. ``project`` is the label that topics get.
    """

    class Kind(models.TextChoices):
        SUMMARISE = "summarise", _("write the summaries again")
        SPLIT = "split", _("split again")
        EXTRACT = "extract", _("extract facts and people again")
        EMBED = "embed", _("make the vectors again")
        LABEL = "label", _("give to a project")

    class State(models.TextChoices):
        GOING_ON = "going_on", _("going on")
        STOPPED = "stopped", _("stopped")
        DONE = "done", _("done")
        UNDONE = "undone", _("undone")

    kind = models.CharField(_("kind"), max_length=12, choices=Kind)
    project = ProjectField()
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.GOING_ON)
    asked_by = models.CharField(_("asked by"), max_length=150)
    asked_at = models.DateTimeField(_("asked"), auto_now_add=True)
    rests_until = models.DateTimeField(_("again at"), null=True, blank=True)
    at = models.DateTimeField(_("last sign of life"), auto_now=True)

    class Meta:
        indexes = (
            models.Index(fields=("owner", "-id"), name="bulkwork_owner"),
            models.Index(fields=("id",), condition=models.Q(state="going_on"), name="bulkwork_going_on"),
        )
        verbose_name = _("work on many topics")
        verbose_name_plural = _("work on many topics")

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.get_state_display()}"

    @property
    def is_untaken(self) -> bool:
        """Whether no worker has begun it; each sign of life of one is later than the row itself."""
        return self.state == self.State.GOING_ON and self.at - self.asked_at < timedelta(milliseconds=50)


class BulkTopic(Owned):
    """One topic of a ``BulkWork``: ``edit`` is what was made of it, ``fault`` a sentence why nothing was."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        DONE = "done", _("done")
        UNCHANGED = "unchanged", _("left as it is")
        FAILED = "failed", _("failed")

    work = models.ForeignKey(BulkWork, models.CASCADE, related_name="rows", db_index=False, verbose_name=_("work"))
    topic = models.ForeignKey("memoryapp.Topic", models.CASCADE, verbose_name=_("topic"))
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.WAITING)
    tries = models.PositiveSmallIntegerField(_("questions without an answer"), default=0)
    edit = models.ForeignKey(
        "memoryapp.TopicEdit", models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("edit")
    )
    fault = models.TextField(_("fault"), blank=True)
    shown = "{0.topic_id} {0.state}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("work", "topic"), name="bulktopic_once"),)
        verbose_name = _("topic of work on many")
        verbose_name_plural = _("topics of work on many")


# Heartbeats: when worker and beat were last alive.


class Heartbeat(Row):
    """One row for each kind of process, however many there are; ``at`` is read from the database's clock."""

    process = models.CharField(_("process"), max_length=16, primary_key=True)
    at = models.DateTimeField(_("last sign of life"))
    shown = "{0.process} {0.at:%Y-%m-%d %H:%M:%S}"

    class Meta:
        verbose_name = _("sign of life")
        verbose_name_plural = _("signs of life")
