"""Runs and their events, and the traces of which foreign runs are made.

The rows are the truth: page, socket and report read nothing else.
"""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import OuterRef, Q, Subquery, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _
from pgvector.django import HalfVectorField

from memoryapp.engine.cells import run_id
from memoryapp.models.agent import Prompt
from memoryapp.models.embedding import EmbeddingProfile
from memoryapp.models.evaluation import Evaluation
from memoryapp.models.operator import GUEST, ApiToken
from memoryapp.models.user import ChatUser, Owned, ProjectField

# What an ``answered`` event says of a question that nothing in the memory answers, or that no model answered.
NO_ANSWERS = ("refused", "passages")
UNANSWERED = "unanswered"


class RunQuerySet(models.QuerySet["Run"]):
    def of(self, owner: ChatUser | int) -> Self:
        return self.filter(owner=owner)

    def by_hand(self) -> Self:
        """Runs that a person or a program asked for, without those of evaluations and of the guests of a demo."""
        asked = self.filter(evaluation__isnull=True)
        return asked.exclude(operator__username=GUEST) if settings.DEMO_READ_ONLY else asked

    def ended_as(self, outcome: str) -> Self:
        """Finished runs with that ``Run.outcome``."""
        return self.filter(has_ended_as(outcome))

    def with_answers(self) -> Self:
        """Each with its ``answer``; otherwise that costs a statement for each run."""
        answered = RunEvent.objects.filter(run=OuterRef("pk"), kind="answered")
        outcome = Subquery(answered.values(text=KeyTextTransform("outcome", "payload"))[:1], output_field=TextField())
        return self.annotate(answer=Coalesce(outcome, Value(""), output_field=TextField()))

    def made_here(self) -> Self:
        """Runs without those of other programs, which say nothing of this memory."""
        return self.filter(origin="")


def has_ended_as(outcome: str) -> Q:
    """Whether a run has finished with that ``Run.outcome``."""
    nothing = Q(selected_count=0, selected_people_count=0, selected_artifact_count=0)
    own = {"none": Q(nothing, fallback=""), "chosen": Q(~nothing, fallback="")}
    return Q(own.get(outcome, Q(fallback=outcome)), state=Run.State.FINISHED)


def is_shown_as(ending: str) -> Q:
    """Whether a run ``with_answers`` has finished with that ``Run.ending``."""
    is_unanswered = Q(fallback="", answer__in=NO_ANSWERS)
    if ending == UNANSWERED:
        return Q(is_unanswered, state=Run.State.FINISHED)
    return has_ended_as(ending) & ~is_unanswered


class Run(Owned):
    """The totals are those of ``outline.summarise`` over its events, written with the last one.

    ``selected_count`` counts topics, including those of a fallback; people and artifacts are selected only by the
    model.

    ``messages`` is the running conversation that the caller sent, null for the active session. ``media`` names the
    files that came with the query, ``evidence`` the ids of the messages that answer it, if known. A run with a
    ``parent`` is a fork of it: what came before ``turn`` is replayed from the parent's events (null: nothing is), and
    ``changes`` say by name what differs; ``prompt`` is a stored prompt among them. ``delivered`` is what the assistant
    said with the context, and which of the chosen items that uses (``text, at, uses, unused``). ``stopped_by`` is the
    person who asked for its end. ``attempt`` counts how often it was begun again because its process was lost.

    ``project`` is the one in which it asks, beside what is common; empty where it searches the whole memory.

    ``traceparent`` names the span of the caller in whose trace the run belongs, as W3C Trace Context writes it.
    A run with an ``origin`` is foreign: the program of that name made it, and sent it as a trace. No process of this
    installation executes it.
    """

    class State(models.TextChoices):
        PENDING = "pending", _("waiting")
        RUNNING = "running", _("running")
        FINISHED = "finished", _("finished")

    id = models.UUIDField(primary_key=True, default=run_id, editable=False)
    strategy = models.CharField(_("strategy"), max_length=16)
    origin = models.CharField(_("origin"), max_length=120, blank=True, db_default="")
    query = models.TextField(_("query"))
    project = ProjectField()
    parameters = models.JSONField(_("parameters"), default=dict, blank=True)
    prompt_version = models.CharField(_("prompt version"), max_length=40, blank=True)
    traceparent = models.CharField(_("span of the caller"), max_length=55, blank=True, db_default="")
    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, verbose_name=_("asked by")
    )
    token = models.ForeignKey(ApiToken, models.SET_NULL, null=True, blank=True, verbose_name=_("API token"))
    messages = models.JSONField(_("conversation"), null=True, blank=True)
    media = models.JSONField(_("media"), default=list, blank=True)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, verbose_name=_("fork of"))
    turn = models.SmallIntegerField(_("forked at turn"), null=True, blank=True)
    changes = models.JSONField(_("changes"), default=dict, blank=True, db_default=Value({}, models.JSONField()))
    prompt = models.ForeignKey(Prompt, models.SET_NULL, null=True, blank=True, verbose_name=_("prompt"))
    delivered = models.JSONField(_("what the assistant said"), null=True, blank=True)
    evidence = models.JSONField(_("evidence"), default=list, blank=True)
    evaluation = models.ForeignKey(Evaluation, models.CASCADE, null=True, blank=True, verbose_name=_("evaluation"))
    state = models.CharField(_("state"), max_length=16, choices=State, default=State.PENDING)
    created_at = models.DateTimeField(_("asked"), auto_now_add=True)
    heartbeat_at = models.DateTimeField(_("last sign of life"), auto_now_add=True)
    attempt = models.PositiveSmallIntegerField(_("begun again"), default=0, db_default=0, editable=False)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)
    stopped_by = models.CharField(_("stopped by"), max_length=150, blank=True, db_default="")
    fallback = models.CharField(_("fallback"), max_length=32, blank=True)
    candidate_count = models.PositiveIntegerField(_("candidates"), default=0)
    selected_count = models.PositiveIntegerField(_("topics chosen"), default=0)
    selected_people_count = models.PositiveIntegerField(_("people chosen"), default=0, db_default=0)
    selected_artifact_count = models.PositiveIntegerField(_("artifacts chosen"), default=0, db_default=0)
    turns = models.PositiveIntegerField(_("turns"), default=0)
    tool_calls = models.PositiveIntegerField(_("tool calls"), default=0)
    input_tokens = models.PositiveIntegerField(_("input tokens"), default=0)
    output_tokens = models.PositiveIntegerField(_("output tokens"), default=0)
    cost_usd = models.FloatField(_("cost, $"), default=0)
    seconds = models.FloatField(_("seconds"), default=0)

    objects = RunQuerySet.as_manager()
    shown = "{0.short_id} {0.query:.60}"

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=("owner", "-created_at", "-id"), name="run_owner"),
            # The list of all chat users' runs reads its newest ones in this order instead of sorting every run.
            models.Index(
                fields=("-created_at", "-id"), condition=models.Q(evaluation__isnull=True), name="run_by_hand"
            ),
            models.Index(fields=("created_at",), include=("owner", "token", "state", "cost_usd"), name="run_spent"),
            models.Index(fields=("heartbeat_at",), condition=~models.Q(state="finished"), name="run_open"),
        )
        verbose_name = _("run")
        verbose_name_plural = _("runs")

    @property
    def short_id(self) -> str:
        return str(self.pk)[:4]

    @property
    def is_finished(self) -> bool:
        return self.state == self.State.FINISHED

    @property
    def outcome(self) -> str:
        """``chosen`` or ``none`` where what the model chose stands, else the code of the fallback; empty before the
        end."""
        chosen = self.selected_count or self.selected_people_count or self.selected_artifact_count
        return (self.fallback or ("chosen" if chosen else "none")) if self.is_finished else ""

    @cached_property
    def answer(self) -> str:
        """The outcome of the answer in words; empty where there is none."""
        said = self.events.filter(kind="answered").values_list("payload__outcome", flat=True).first()
        return str(said or "")

    @property
    def ending(self) -> str:
        """For people, ``outcome`` or ``unanswered``: the passages beside a question without an answer are no choice."""
        is_unanswered = self.is_finished and not self.fallback and self.answer in NO_ANSWERS
        return UNANSWERED if is_unanswered else self.outcome

    @property
    def is_foreign(self) -> bool:
        """Whether another program made it."""
        return bool(self.origin)


# One field of all candidates in a payload of ``candidates_found``, as a JSON array; ``below`` as in ``engine.earlier``.
CANDIDATE_FIELD = """(
    jsonb_path_query_array({payload}, '$.candidates[*].{name}') || coalesce({payload} #> '{{below,{name}}}', '[]')
)"""
# The ids of those that the model was shown.
SHOWN_IDS = "jsonb_path_query_array({payload}, '$.candidates[*] ? (@.shown == true).id')"


class RunEvent(Owned):
    """``seq`` counts from 1 without gaps; unique with the run, so two writers cannot mix."""

    run = models.ForeignKey(Run, models.CASCADE, db_index=False, related_name="events", verbose_name=_("run"))
    seq = models.PositiveIntegerField("seq")
    kind = models.CharField(_("kind"), max_length=32)
    at = models.DateTimeField(_("at"))
    payload = models.JSONField(_("payload"))
    shown = "{0.seq} {0.kind}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run", "seq"), name="runevent_once"),)
        ordering = ("run", "seq")
        verbose_name = _("event")
        verbose_name_plural = _("events")


class RawReply(Owned):
    """The assistant message of a turn as it came, stored beside its event; a fork sends it back. ``message`` is JSON
    text, because ``jsonb`` would reorder its keys and rewrite its numbers."""

    event = models.OneToOneField(
        RunEvent, models.CASCADE, primary_key=True, related_name="raw_reply", verbose_name=_("event")
    )
    message = models.TextField(_("message"))
    shown = "{0.event_id}"

    class Meta:
        verbose_name = _("raw reply")
        verbose_name_plural = _("raw replies")


class RunProgress(Owned):
    """The text that the model has sent so far in a turn. It is no event, and is deleted with the run's last one."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, verbose_name=_("run"))
    turn = models.PositiveIntegerField(_("turn"))
    text = models.TextField(_("text"), blank=True)
    reasoning = models.TextField(_("reasoning"), blank=True)
    at = models.DateTimeField(_("at"))
    shown = "{0.run_id} turn {0.turn}"

    class Meta:
        verbose_name = _("progress of a run")
        verbose_name_plural = _("progress of runs")


class QueryVector(Owned):
    """The vector of the query as the search compared it; the preview of edits uses it on past runs without a model.
    ``typed_vector`` is the vector of the query as it was typed, if a rewrite was searched as well."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, verbose_name=_("run"))
    profile = models.ForeignKey(EmbeddingProfile, models.PROTECT, db_index=False)
    vector = HalfVectorField(_("vector"))
    typed_vector = HalfVectorField(_("vector of the query as typed"), null=True)
    shown = "{0.run_id} in {0.profile_id}"

    class Meta:
        verbose_name = _("query vector")
        verbose_name_plural = _("query vectors")


class Trace(Owned):
    """A trace that a program sent: one run for each chat user. ``number`` is its id, 128 bits. ``has_root`` says that
    the span that encloses all others has ended."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, verbose_name=_("run"))
    number = models.UUIDField(_("trace id"))
    has_root = models.BooleanField(_("has ended"), default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "number"), name="trace_once"),)
        verbose_name = _("trace")
        verbose_name_plural = _("traces")

    def __str__(self) -> str:
        return self.number.hex


class TraceSpan(Owned):
    """A span as it was sent. It is kept while others of its trace may still come, then the run's events suffice.
    ``span`` is its id, 16 hexadecimal digits. Nothing else refers to a span."""

    trace = models.ForeignKey(Trace, models.CASCADE, db_index=False, related_name="spans", verbose_name=_("trace"))
    span = models.CharField(_("span"), max_length=16)
    body = models.JSONField(_("body"))
    shown = "{0.span}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("trace", "span"), name="tracespan_once"),)
        verbose_name = _("span of a trace")
        verbose_name_plural = _("spans of traces")
