"""Messages as they were imported, the batches that brought them, and files waiting for import."""

import uuid
from pathlib import Path
from typing import Self

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.text.lexical import WIDE
from memoryapp.models.user import ChatUser, Owned, ProjectField

# The key that an import adds to the metadata of a message without a time in its file (``importers.record.Clock.mark``).
TIME_SOURCES = ("neighbour", "counted")


class ImportFile(Owned):
    """A file that a person gave to the page of imports, from its arrival until it is imported or discarded.

    It is in the data folder at ``path`` and is rehearsed first: ``findings`` is what that found (see
    ``ingestion.rehearsal``). ``me``, ``start``, ``dates`` and ``addressee`` are a person's answers: how the user is
    called in it, when a file without times began, whether its dates are ``dmy`` or ``mdy``, and whose messages are
    taken of a file that names several users (a name, or ``EVERYBODY``). ``chats`` are the ids of the chosen chats (none
    for all), ``project`` is the label that the messages get; only messages from ``since``
    on and before ``until`` are taken. ``takes_changes`` means that changed texts
    replace those in the memory. ``timezone`` is the zone of times written without one; it begins as that of the person
    who gave the file. ``language`` is that of the person who gave it or last answered or decided; ``fault`` and the
    reasons in ``findings`` are sentences in it. ``key`` marks the batches of the file, so that an interrupted import
    continues in them. ``done`` counts messages, ``share`` says how far the file was read, from 0 to 1. ``attempts``
    counts how often the worker began it and was lost.
    """

    class State(models.TextChoices):
        REHEARSING = "rehearsing", _("is looked through")
        ASKING = "asking", _("needs an answer")
        READY = "ready", _("waits for your decision")
        IMPORTING = "importing", _("is imported")
        PAUSED = "paused", _("paused")
        DONE = "done", _("imported")
        FAILED = "failed", _("failed")

    EVERYBODY = "*"

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    source = models.CharField(_("source"), max_length=300)
    size_bytes = models.PositiveBigIntegerField(_("size, bytes"))
    format = models.CharField(_("format"), max_length=20, blank=True)
    me = models.CharField(_("the user's name in the file"), max_length=200, blank=True)
    start = models.DateTimeField(_("began"), null=True, blank=True)
    dates = models.CharField(_("order of dates"), max_length=3, blank=True, db_default="")
    addressee = models.CharField(_("whose messages"), max_length=200, blank=True)
    project = ProjectField()
    chats = models.JSONField(_("chosen chats"), default=list, blank=True, db_default=[])
    since = models.DateTimeField(_("messages from"), null=True, blank=True)
    until = models.DateTimeField(_("messages before"), null=True, blank=True)
    takes_changes = models.BooleanField(_("with changed texts"), default=False, db_default=False)
    timezone = models.CharField(_("time zone"), max_length=64, blank=True, db_default="")
    language = models.CharField(_("language"), max_length=16, blank=True, db_default="")
    state = models.CharField(_("state"), max_length=16, choices=State, default=State.REHEARSING)
    findings = models.JSONField(_("findings"), default=dict, blank=True)
    done = models.PositiveIntegerField(_("done"), default=0)
    share = models.FloatField(_("share"), default=0.0)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0, db_default=0)
    fault = models.TextField(_("fault"), blank=True)
    asked_by = models.CharField(_("asked by"), max_length=150)
    asked_at = models.DateTimeField(_("asked"), auto_now_add=True)
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    at = models.DateTimeField(_("last sign of life"), auto_now=True)

    class Meta:
        ordering = ("-asked_at", "-id")
        indexes = (models.Index(fields=("owner", "-asked_at"), name="importfile_owner"),)
        verbose_name = _("file to import")
        verbose_name_plural = _("files to import")

    def __str__(self) -> str:
        return f"{self.source}: {self.get_state_display()}"

    @property
    def path(self) -> Path:
        return Path(settings.IMPORT_DIR) / str(self.key)

    @property
    def is_worked_on(self) -> bool:
        """Whether the worker has work to do on it."""
        return self.state in (self.State.REHEARSING, self.State.IMPORTING)


class ImportBatch(Owned):
    """One import of one file for one chat user.

    ``rejected`` lists ``{"line", "reason"}``, ``left_out`` what else of the file was not stored, as ``{"reason",
    "count"}``. ``file`` is the key of the ``ImportFile`` if the file came by the page of imports, or a key derived from
    it for its changed texts.
    """

    source = models.CharField(_("source"), max_length=300)
    format = models.CharField(_("format"), max_length=20)
    started_at = models.DateTimeField(_("at"), auto_now_add=True)
    added = models.PositiveIntegerField(pgettext_lazy("messages", "added"), default=0)
    skipped = models.PositiveIntegerField(_("skipped"), default=0)
    rejected = models.JSONField(_("rejected"), default=list, blank=True)
    left_out = models.JSONField(pgettext_lazy("messages", "left out"), default=list, db_default=[], blank=True)
    file = models.UUIDField(_("file"), null=True, blank=True, editable=False)
    shown = "{0.source} ({0.added})"

    class Meta:
        ordering = ("-started_at", "-id")
        constraints = (models.UniqueConstraint(fields=("owner", "file"), name="importbatch_once"),)
        indexes = (models.Index(fields=("owner", "-started_at"), name="importbatch_owner"),)
        verbose_name = _("import")
        verbose_name_plural = _("imports")


class MessageQuerySet(models.QuerySet["Message"]):
    def of(self, owner: ChatUser | int) -> Self:
        return self.filter(owner=owner)

    def active(self) -> Self:
        """Messages that are in no topic yet: the active sessions."""
        return self.filter(topic__isnull=True, is_withdrawn=False)

    def present(self) -> Self:
        """Messages that were not withdrawn with their import."""
        return self.filter(is_withdrawn=False)

    def in_order(self) -> Self:
        return self.order_by("sent_at", "id")


class Message(Owned):
    class Author(models.TextChoices):
        USER = "user", pgettext_lazy("author", "user")
        ASSISTANT = "assistant", pgettext_lazy("author", "assistant")
        PEER = "peer", pgettext_lazy("author", "peer")
        SYSTEM = "system", pgettext_lazy("author", "system")

    external_id = models.CharField(_("external id"), max_length=300)
    role = models.CharField(_("role"), max_length=16, choices=Author)
    author = models.CharField(_("author"), max_length=200, blank=True)
    sent_at = models.DateTimeField(_("sent"))
    text = models.TextField(_("text"), blank=True)
    session = models.CharField(_("session"), max_length=200, blank=True)
    project = ProjectField()
    reply_to = models.CharField(_("reply to"), max_length=300, blank=True)
    forwarded_from = models.CharField(_("forwarded from"), max_length=200, blank=True)
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    content_hash = models.CharField(_("content hash"), max_length=64)
    topic = models.ForeignKey(
        "memoryapp.Topic", models.RESTRICT, null=True, blank=True, db_index=False, verbose_name=_("topic")
    )
    batch = models.ForeignKey(ImportBatch, models.SET_NULL, null=True, blank=True, verbose_name=_("import"))
    is_withdrawn = models.BooleanField(_("withdrawn"), default=False)

    objects = MessageQuerySet.as_manager()
    shown = "{0.author}: {0.text:.60}"

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("owner", "external_id", "project"), name="message_once"),
            models.CheckConstraint(
                condition=models.Q(is_withdrawn=False) | models.Q(topic__isnull=True),
                name="message_withdrawn_from_topics",
            ),
        )
        indexes = (
            # Counting messages, also by month, reads only this index.
            models.Index(fields=("owner", "sent_at", "id"), include=("is_withdrawn",), name="message_counted"),
            models.Index(fields=("topic", "sent_at", "id"), name="message_topic"),
            # What a search reads of all messages after an edit.
            models.Index(
                fields=("owner",),
                include=("id", "topic", "sent_at", "role", "author"),
                condition=models.Q(topic__isnull=False),
                name="message_in_topic",
            ),
            models.Index(
                fields=("owner",), condition=models.Q(topic__isnull=True, is_withdrawn=False), name="message_active"
            ),
            # What came last, and what has waited longest, among the messages of all chat users.
            models.Index(
                fields=("id",), condition=models.Q(topic__isnull=True, is_withdrawn=False), name="message_waiting"
            ),
        )
        verbose_name = _("message")
        verbose_name_plural = _("messages")

    @property
    def time_source(self) -> str:
        """How the import found the time of a message without one in its file, one of ``TIME_SOURCES``;
        otherwise empty."""
        source = self.metadata.get("time_source") if isinstance(self.metadata, dict) else None
        return source if source in TIME_SOURCES else ""


# Passages: the texts with which search compares a query.
#
# A passage is one exchange, or a piece of one, of about 600 characters. It belongs to messages, not to topics, so
# edits of topics need no new vectors; the passages of a topic are those that contain one of its messages.


class OctetLength(models.Func):
    function = "OCTET_LENGTH"
    output_field = models.IntegerField()


def is_wide_field() -> models.GeneratedField:
    """Whether most of ``text`` is written in non-Latin letters, as ``lexical.is_wide`` computes for a query."""
    return models.GeneratedField(
        expression=GreaterThan(OctetLength("text"), models.Value(WIDE) * Length("text")),
        output_field=models.BooleanField(),
        db_persist=True,
        verbose_name=_("beyond Latin"),
    )


class Passage(Owned):
    """``terms`` is the folded text in Postgres' ``russian`` configuration, ``term_count`` its number of words. The
    index ``passage_owner`` contains what every search reads of every passage, so that no text is read."""

    text = models.TextField(_("text"))
    terms = SearchVectorField(_("terms"))
    term_count = models.PositiveIntegerField(_("words"))
    is_wide = is_wide_field()
    messages = models.ManyToManyField(Message, through="PassageMessage", verbose_name=_("messages"))
    shown = "{0.text:.80}"

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("owner", "id"), include=("term_count", "is_wide"), name="passage_owner"),
        )
        indexes = (GinIndex(fields=("terms",), name="passage_terms"),)
        verbose_name = _("passage")
        verbose_name_plural = _("passages")


class PassageMessage(Owned):
    passage = models.ForeignKey(Passage, models.CASCADE, db_index=False)
    message = models.ForeignKey(Message, models.CASCADE)
    shown = "{0.passage_id} ∋ {0.message_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("passage", "message"), name="passagemessage_once"),)
        indexes = (models.Index(fields=("owner",), include=("message", "passage"), name="passagemessage_owner"),)
        verbose_name = _("message of a passage")
        verbose_name_plural = _("messages of passages")


# Images, sounds and files that came with a query: the bytes are stored under their hash, one row for each owner.


class Media(Owned):
    """The bytes are in the default storage under ``path``; the same bytes are stored once."""

    class Type(models.TextChoices):
        IMAGE = "image", _("image")
        AUDIO = "audio", _("audio")
        FILE = "file", _("file")

    sha256 = models.CharField("SHA-256", max_length=64)
    type = models.CharField(_("type"), max_length=8, choices=Type)
    mime_type = models.CharField(_("MIME type"), max_length=100, blank=True)
    name = models.CharField(_("file name"), max_length=300, blank=True)
    size_bytes = models.PositiveBigIntegerField(_("bytes"))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "sha256"), name="media_once"),)
        verbose_name = _("media")
        verbose_name_plural = _("media")

    def __str__(self) -> str:
        return self.name or self.sha256[:12]

    @property
    def path(self) -> str:
        return f"media/{self.sha256[:2]}/{self.sha256}"
