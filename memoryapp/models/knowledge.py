"""What was distilled from the talk: people, artifacts, facts, and what people changed of them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.message import Message
from memoryapp.models.topic import Topic
from memoryapp.models.user import Owned


class Person(Owned):
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
    mention_count = models.PositiveIntegerField(_("mentions"), default=0)
    first_seen = models.DateTimeField(_("first seen"), null=True, blank=True)
    last_seen = models.DateTimeField(_("last seen"), null=True, blank=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "display_name"), name="person_once"),)
        ordering = ("display_name", "id")
        verbose_name = _("person")
        verbose_name_plural = _("people")

    def __str__(self) -> str:
        return self.display_name


class Artifact(Owned):
    class State(models.TextChoices):
        PENDING = "pending", _("waiting")
        PROCESSING = "processing", _("being read")
        READY = "ready", _("ready")
        FAILED = "failed", _("failed")

    message = models.ForeignKey(Message, models.SET_NULL, null=True, blank=True, verbose_name=_("message"))
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
    created_at = models.DateTimeField(_("created"))
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "sha256"), name="artifact_once"),)
        ordering = ("-created_at", "-id")
        verbose_name = _("artifact")
        verbose_name_plural = _("artifacts")

    def __str__(self) -> str:
        return self.name


class Fact(Owned):
    class Type(models.TextChoices):
        IDENTITY = "identity", _("identity")
        CONTEXT = "context", _("context")
        STATUS = "status", _("status")

    topic = models.ForeignKey(Topic, models.SET_NULL, null=True, blank=True, verbose_name=_("topic"))
    relation = models.CharField(_("relation"), max_length=100)
    category = models.CharField(_("category"), max_length=100)
    content = models.TextField(_("content"))
    type = models.CharField(_("type"), max_length=16, choices=Type)
    importance = models.PositiveSmallIntegerField(_("importance"))
    created_at = models.DateTimeField(_("created"))

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("owner", "relation", "content"), name="fact_once"),
            models.CheckConstraint(condition=models.Q(importance__lte=100), name="fact_importance_0_to_100"),
        )
        ordering = ("-importance", "id")
        verbose_name = _("fact")
        verbose_name_plural = _("facts")

    def __str__(self) -> str:
        return self.content[:80]


class KnowledgeEdit(Owned):
    """A change by hand: the rows' values ``before`` and ``after``, by id; null where there is no such row."""

    class Kind(models.TextChoices):
        CREATE = "create", pgettext_lazy("change", "added")
        EDIT = "edit", _("edited")
        MERGE = "merge", _("merged")
        DELETE = "delete", _("deleted")
        UNDO = "undo", _("undone")

    class Noun(models.TextChoices):
        PERSON = "person", _("person")
        ARTIFACT = "artifact", _("artifact")
        FACT = "fact", _("fact")

    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    noun = models.CharField(_("noun"), max_length=8, choices=Noun)
    before = models.JSONField(_("before"), default=dict)
    after = models.JSONField(_("after"), default=dict)
    actor = models.CharField(_("by"), max_length=200)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    at = models.DateTimeField(_("at"), auto_now_add=True)
    undoes = models.OneToOneField("self", models.CASCADE, null=True, blank=True, verbose_name=_("undoes"))

    class Meta:
        ordering = ("-at", "-id")
        indexes = (models.Index(fields=("owner", "-at", "-id"), name="knowledgeedit_owner"),)
        verbose_name = _("change")
        verbose_name_plural = _("changes")

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.get_noun_display()} ({self.actor})"
