"""What was extracted from messages: people, artifacts, facts, their changes, and findings that wait for a decision."""

from typing import Self

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.core.validators import MaxLengthValidator
from django.db import models
from django.db.models.functions import MD5
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.agent import AgentCall
from memoryapp.models.message import ImportBatch, Message
from memoryapp.models.topic import Topic
from memoryapp.models.user import Owned, ProjectField, RecallMode

MOST_FACT_CHARS = 10_000


class Person(Owned):
    """Somebody of whom the chat user speaks. Names need not be unique: people may be namesakes."""

    class Circle(models.TextChoices):
        FAMILY = "Family", _("family")
        FRIENDS = "Friends", _("friends")
        WORK_INNER = "Work_Inner", _("close colleagues")
        WORK_OUTER = "Work_Outer", _("colleagues")
        OTHER = "Other", _("others")

    display_name = models.CharField(_("name"), max_length=200)
    aliases = models.JSONField(_("also called"), default=list, blank=True)
    username = models.CharField(_("username"), max_length=100, blank=True)
    circle = models.CharField(_("circle"), max_length=20, choices=Circle, default=Circle.OTHER)
    bio = models.TextField(_("about"), blank=True)
    project = ProjectField()
    mention_count = models.PositiveIntegerField(_("mentions"), default=0)
    first_seen = models.DateTimeField(_("first seen"), null=True, blank=True)
    last_seen = models.DateTimeField(_("last seen"), null=True, blank=True)
    recall = models.CharField(
        pgettext_lazy("noun", "recall"), max_length=6, choices=RecallMode, blank=True, default="", db_default=""
    )
    updated_at = models.DateTimeField(_("changed"), auto_now=True)
    shown = "{0.display_name}"

    class Meta:
        indexes = (models.Index(fields=("owner", "display_name"), name="person_name"),)
        ordering = ("display_name", "id")
        verbose_name = _("person")
        verbose_name_plural = _("people")


class Artifact(Owned):
    """``text`` is what was read from the file; ``described_by`` is the author of the summary: a model, or
    ``extractive``.

    A file is read at ``due_at``, or at once when that is null. ``fault`` is why it could not be read so far,
    in an English sentence, and ``fault_note`` the same as a code with values, where it has one; ``read_at`` is when it
    was read.
    """

    class State(models.TextChoices):
        PENDING = "pending", _("waiting")
        PROCESSING = "processing", _("being read")
        READY = "ready", _("ready")
        FAILED = "failed", _("failed")

    message = models.ForeignKey(Message, models.SET_NULL, null=True, blank=True, verbose_name=_("message"))
    project = ProjectField()
    file_type = models.CharField(_("type"), max_length=40)
    name = models.CharField(_("file name"), max_length=300)
    mime_type = models.CharField(_("MIME type"), max_length=100, blank=True)
    sha256 = models.CharField("SHA-256", max_length=64)
    size_bytes = models.PositiveBigIntegerField(_("bytes"), default=0)
    state = models.CharField(_("state"), max_length=16, choices=State, default=State.PENDING)
    summary = models.TextField(_("summary"), blank=True)
    keywords = models.JSONField(_("keywords"), default=list, blank=True)
    entities = models.JSONField(_("entities"), default=list, blank=True)
    rag_hints = models.JSONField(_("answers"), default=list, blank=True)
    text = models.TextField(_("text"), blank=True, db_default="")
    is_cut = models.BooleanField(_("longer than what was read"), default=False, db_default=False)
    described_by = models.CharField(_("described by"), max_length=200, blank=True, db_default="")
    attempts = models.PositiveIntegerField(_("attempts"), default=0, db_default=0)
    due_at = models.DateTimeField(_("again at"), null=True, blank=True)
    fault = models.TextField(_("fault"), blank=True, db_default="")
    fault_note = models.JSONField(_("fault as a code"), null=True, blank=True)
    read_at = models.DateTimeField(_("was read"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"))
    updated_at = models.DateTimeField(_("changed"), auto_now=True)
    shown = "{0.name}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "sha256", "project"), name="artifact_once"),)
        ordering = ("-created_at", "-id")
        verbose_name = _("artifact")
        verbose_name_plural = _("artifacts")


class FactQuerySet(models.QuerySet["Fact"]):
    def current(self) -> Self:
        """Facts that are true today, as far as is known."""
        return self.filter(superseded_at__isnull=True)


class Fact(Owned):
    """Something known about the chat user. ``superseded_at`` is the time of the fact that replaced it;
    null while it is true."""

    class Type(models.TextChoices):
        IDENTITY = "identity", _("identity")
        CONTEXT = "context", _("context")
        STATUS = "status", _("status")

    topic = models.ForeignKey(Topic, models.SET_NULL, null=True, blank=True, verbose_name=_("topic"))
    project = ProjectField()
    relation = models.CharField(_("relation"), max_length=100)
    category = models.CharField(_("category"), max_length=100)
    content = models.TextField(
        _("content"), max_length=MOST_FACT_CHARS, validators=[MaxLengthValidator(MOST_FACT_CHARS)]
    )
    type = models.CharField(_("type"), max_length=16, choices=Type)
    importance = models.PositiveSmallIntegerField(_("importance"))
    created_at = models.DateTimeField(_("created"))
    superseded_at = models.DateTimeField(_("true until"), null=True, blank=True)
    recall = models.CharField(
        pgettext_lazy("noun", "recall"), max_length=6, choices=RecallMode, blank=True, default="", db_default=""
    )

    objects = FactQuerySet.as_manager()
    shown = "{0.content:.80}"

    class Meta:
        # By which an erasure asks whether others say the same words.
        indexes = (GinIndex(SearchVector("content", config="russian"), name="fact_words"),)
        constraints = (
            # By the hash of its words, because an index takes no long text.
            models.UniqueConstraint(
                *("owner", "relation", MD5("content"), "project"),
                condition=models.Q(superseded_at__isnull=True),
                name="fact_once",
            ),
            models.CheckConstraint(condition=models.Q(importance__lte=100), name="fact_importance_0_to_100"),
        )
        ordering = ("-importance", "id")
        verbose_name = _("fact")
        verbose_name_plural = _("facts")


class KnowledgeEdit(Owned):
    """A change: the rows' values ``before`` and ``after``, by id; null when there is no such row.

    ``call`` is the agent's call whose answer this change carries out, automatically or confirmed by ``actor``.
    ``batch`` is the import that brought the rows, or whose withdrawal deleted them.
    """

    class Kind(models.TextChoices):
        CREATE = "create", pgettext_lazy("change", "added")
        EDIT = "edit", _("edited")
        MERGE = "merge", _("merged")
        DELETE = "delete", _("deleted")
        REPLACE = "replace", _("replaced")
        UNDO = "undo", _("undone")

    class Noun(models.TextChoices):
        PERSON = "person", _("person")
        ARTIFACT = "artifact", _("artifact")
        FACT = "fact", _("fact")
        TOPIC = "topic", _("topic")

    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    noun = models.CharField(_("noun"), max_length=8, choices=Noun)
    before = models.JSONField(_("before"), default=dict)
    after = models.JSONField(_("after"), default=dict)
    actor = models.CharField(_("by"), max_length=200)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    at = models.DateTimeField(_("at"), auto_now_add=True)
    undoes = models.OneToOneField("self", models.CASCADE, null=True, blank=True, verbose_name=_("undoes"))
    call = models.ForeignKey(AgentCall, models.SET_NULL, null=True, blank=True, verbose_name=_("agent's question"))
    batch = models.ForeignKey(ImportBatch, models.SET_NULL, null=True, blank=True, verbose_name=_("import"))

    class Meta:
        ordering = ("-at", "-id")
        indexes = (models.Index(fields=("owner", "-at", "-id"), name="knowledgeedit_owner"),)
        verbose_name = _("change")
        verbose_name_plural = _("changes")

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.get_noun_display()} ({self.actor})"


class Finding(Owned):
    """A fact or person that the archivist found in ``topic``, and what became of it.

    ``values`` are those of the row it would be, ``target`` is the number of the row it would change, ``follows`` a
    waiting finding that it would replace. ``stored`` is the number of a fact that is in the memory already, while the
    finding asks whether it is true instead of the target. ``row`` is the number of the row that it became or is part
    of, ``edit`` the change that did so. Other findings that wait or were rejected are not part of the memory. ``alike``
    are the numbers of rows that may be the same, the nearest first.
    """

    class State(models.TextChoices):
        WAITING = "waiting", pgettext_lazy("finding", "to be decided")
        CONFIRMED = "confirmed", pgettext_lazy("finding", "confirmed")
        REJECTED = "rejected", pgettext_lazy("finding", "rejected")

    noun = models.CharField(_("noun"), max_length=8, choices=KnowledgeEdit.Noun)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.WAITING)
    values = models.JSONField(_("values"), default=dict)
    topic = models.ForeignKey(Topic, models.SET_NULL, null=True, blank=True, verbose_name=_("topic"))
    call = models.ForeignKey(AgentCall, models.SET_NULL, null=True, blank=True, verbose_name=_("agent's question"))
    target = models.BigIntegerField(_("would change"), null=True, blank=True)
    follows = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, verbose_name=_("would follow"))
    stored = models.BigIntegerField(_("in the memory as"), null=True, blank=True)
    alike = models.JSONField(_("may be the same as"), default=list, blank=True)
    row = models.BigIntegerField(_("became"), null=True, blank=True)
    edit = models.ForeignKey(KnowledgeEdit, models.SET_NULL, null=True, blank=True, verbose_name=_("change"))
    found_at = models.DateTimeField(_("found"), auto_now_add=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    decided_by = models.CharField(_("decided by"), max_length=200, blank=True)

    class Meta:
        indexes = (
            models.Index(fields=("owner", "id"), condition=models.Q(state="waiting"), name="finding_queue"),
            models.Index(fields=("owner", "noun", "row"), name="finding_row"),
        )
        verbose_name = _("finding")
        verbose_name_plural = _("findings")

    def __str__(self) -> str:
        return str(self.values.get("content") or self.values.get("display_name") or self.pk)[:80]


class FindingMessage(Owned):
    """A message that states a finding."""

    finding = models.ForeignKey(Finding, models.CASCADE, db_index=False)
    message = models.ForeignKey(Message, models.CASCADE)
    shown = "{0.finding_id} ∋ {0.message_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("finding", "message"), name="findingmessage_once"),)
        verbose_name = _("message of a finding")
        verbose_name_plural = _("messages of findings")


class UnreadTopic(Owned):
    """A topic from which facts and people could not be extracted: it waits until ``due_at``, or failed and waits for a
    person. There is no row for a topic that was read, nor for one whose turn has not come."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        FAILED = "failed", _("failed")

    topic = models.OneToOneField(Topic, models.CASCADE, verbose_name=_("topic"))
    state = models.CharField(_("state"), max_length=8, choices=State)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    due_at = models.DateTimeField(_("again at"))
    fault = models.TextField(_("fault"), blank=True)
    at = models.DateTimeField(_("at"), auto_now=True)
    shown = "{0.topic_id} {0.state}"

    class Meta:
        indexes = (models.Index(fields=("owner", "state"), name="unreadtopic_owner"),)
        verbose_name = _("unread topic")
        verbose_name_plural = _("unread topics")
