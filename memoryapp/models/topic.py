"""Topics, and the edits that replace them.

The content of a topic's row never changes: an edit retires some topics and puts others in over the same messages.
Retired topics keep their messages (``TopicMessage``), so an old run shows what the model saw; ``Message.topic`` refers
to the live topic.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypeAlias

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.text.lexical import fold
from memoryapp.models.agent import AgentCall
from memoryapp.models.message import ImportBatch, Message
from memoryapp.models.user import ChatUser, Owned, ProjectField, RecallMode


class SummaryTerms(SearchVectorField):  # type: ignore[type-arg]
    """The words of the row's summary, folded as those of passages are, and made again whenever the row is written."""

    def pre_save(self, model_instance: Any, add: bool) -> SearchVector:
        return SearchVector(
            models.Value(fold(model_instance.summary), output_field=models.TextField()), config="russian"
        )


class TopicQuerySet(models.QuerySet["Topic"]):
    def of(self, owner: ChatUser | int) -> Self:
        return self.filter(owner=owner)

    def live(self) -> Self:
        return self.filter(is_live=True)


class Topic(Owned):
    """``erased_at`` is when messages of it, or words from them, were erased; its summary was then written again.

    ``terms`` are the words of the summary, for search. ``recall`` is what somebody decided; a topic that gets most of
    its messages from this one takes it over.
    """

    summary = models.TextField(_("summary"), blank=True)
    project = ProjectField()
    started_at = models.DateTimeField(_("first message"))
    ended_at = models.DateTimeField(_("last message"))
    message_count = models.PositiveIntegerField(_("messages"))
    size_chars = models.PositiveIntegerField(_("characters"))
    is_live = models.BooleanField(_("live"), default=True)
    facts_extracted = models.BooleanField(_("facts extracted"), default=False)
    is_consolidated = models.BooleanField(_("consolidated"), default=False)
    consolidation_checked = models.BooleanField(_("consolidation checked"), default=False)
    locked_by_hand = models.BooleanField(_("edited by hand"), default=False)
    erased_at = models.DateTimeField(_("messages erased"), null=True, blank=True)
    recall = models.CharField(
        pgettext_lazy("noun", "recall"), max_length=6, choices=RecallMode, blank=True, default="", db_default=""
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    terms = SummaryTerms(_("terms"), editable=False)

    objects = TopicQuerySet.as_manager()
    shown = "Topic:{0.pk} {0.summary:.80}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "id"), name="topic_owner"),)
        indexes = (
            models.Index(
                fields=("owner", "-ended_at", "-id"), condition=models.Q(is_live=True), name="topic_live_order"
            ),
            GinIndex(fields=("terms",), name="topic_terms"),
            models.Index(
                fields=("owner",), condition=models.Q(is_live=True) & ~models.Q(recall=""), name="topic_recall"
            ),
        )
        verbose_name = _("topic")
        verbose_name_plural = _("topics")


class TopicMessage(Owned):
    """Which messages a topic was made from, live or retired."""

    topic = models.ForeignKey(Topic, models.CASCADE, db_index=False)
    message = models.ForeignKey(Message, models.CASCADE)
    shown = "{0.topic_id} ∋ {0.message_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("topic", "message"), name="topicmessage_once"),)
        verbose_name = _("message of a topic")
        verbose_name_plural = _("messages of topics")


class EditKind(str):
    """What an edit did: the name of an operation of curation, or one of these, which the program tells from others."""

    __slots__ = ()

    ARCHIVE: ClassVar[EditKind]
    MERGE: ClassVar[EditKind]
    WITHDRAW: ClassVar[EditKind]
    REWORD: ClassVar[EditKind]
    LABEL: ClassVar[EditKind]
    UNDO: ClassVar[EditKind]


EditKind.ARCHIVE = EditKind("archive")
EditKind.MERGE = EditKind("merge")
EditKind.WITHDRAW = EditKind("withdraw")
EditKind.REWORD = EditKind("reword")
EditKind.LABEL = EditKind("label")
EditKind.UNDO = EditKind("undo")

# What the edits of each operation are called; curation registers its operations.
OPERATION_KINDS: dict[str, Promise] = {}


def edit_kinds() -> list[tuple[str, Promise]]:
    """The choices of ``TopicEdit.kind``."""
    return [
        (EditKind.ARCHIVE, _("archived")),
        *OPERATION_KINDS.items(),
        (EditKind.WITHDRAW, _("withdrew messages")),
        (EditKind.REWORD, _("took changed texts")),
        (EditKind.UNDO, _("undone")),
    ]


class TopicEdit(Owned):
    """Topics out, topics in, over the same messages.

    ``archive`` retires nothing; ``withdraw`` leaves the messages of ``batch`` in no topic; ``reword`` puts them in
    place of older wordings. ``undoes`` is the edit that this one reverses; ``call`` is the agent's call whose answer
    this edit carries out. For an archive that is the call about the session; if it has no answer, the segmenter made
    the topics.
    """

    Kind: TypeAlias = EditKind

    kind = models.CharField(_("kind"), max_length=16, choices=edit_kinds)
    actor = models.CharField(_("by"), max_length=200)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    at = models.DateTimeField(_("at"), auto_now_add=True)
    undoes = models.OneToOneField("self", models.CASCADE, null=True, blank=True, verbose_name=_("undoes"))
    batch = models.ForeignKey(ImportBatch, models.RESTRICT, null=True, blank=True, verbose_name=_("import"))
    call = models.ForeignKey(AgentCall, models.SET_NULL, null=True, blank=True, verbose_name=_("agent's question"))
    topics = models.ManyToManyField(Topic, through="EditedTopic", verbose_name=_("topics"))

    class Meta:
        ordering = ("-at", "-id")
        constraints = (models.UniqueConstraint(fields=("owner", "id"), name="topicedit_number"),)
        indexes = (models.Index(fields=("owner", "-at", "-id"), name="topicedit_owner"),)
        verbose_name = _("edit")
        verbose_name_plural = _("edits")

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.actor})"


class EditedTopic(Owned):
    """A topic on one side of an edit."""

    class Side(models.TextChoices):
        OUT = "out", _("taken out")
        IN = "in", _("put in")

    edit = models.ForeignKey(TopicEdit, models.CASCADE, db_index=False)
    topic = models.ForeignKey(Topic, models.CASCADE)
    side = models.CharField(_("side"), max_length=3, choices=Side)
    shown = "{0.edit_id} {0.side} {0.topic_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("edit", "topic"), name="editedtopic_once"),)
        verbose_name = _("topic of an edit")
        verbose_name_plural = _("topics of edits")


# What is proposed and a person decides about: merges and splits by the program, messages to be erased by agents.


class Suggestion(Owned):
    """``topics`` are the numbers of topics that were live when it was made; ``evidence`` contains the reasons.

    ``key`` is equal for the same suggestion, so that it is made once. The person who works on it has a lease
    (``held_by``), which lapses. ``call`` is the merger's call about it, answered or not; ``tries`` counts those that no
    model answered before.
    """

    class Kind(models.TextChoices):
        MERGE = "merge", pgettext_lazy("suggestion", "merge")
        SPLIT = "split", _("split")

    class State(models.TextChoices):
        OPEN = "open", _("open")
        ACCEPTED = "accepted", _("accepted")
        NEVER = "never", _("never")
        OUTDATED = "outdated", _("outdated")
        DECLINED = "declined", pgettext_lazy("suggestion", "declined by the merger")

    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    key = models.CharField(_("key"), max_length=64)
    topics = models.JSONField(_("topics"), default=list)
    score = models.FloatField(_("score"), default=0)
    evidence = models.JSONField(_("evidence"), default=dict, blank=True)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.OPEN)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    held_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, verbose_name=_("held by")
    )
    held_at = models.DateTimeField(_("held since"), null=True, blank=True)
    decided_by = models.CharField(_("decided by"), max_length=200, blank=True)
    decided_at = models.DateTimeField(pgettext_lazy("suggestion", "decided"), null=True, blank=True)
    edit = models.ForeignKey(TopicEdit, models.SET_NULL, null=True, blank=True, verbose_name=_("edit"))
    call = models.ForeignKey(AgentCall, models.SET_NULL, null=True, blank=True, verbose_name=_("agent's question"))
    tries = models.PositiveSmallIntegerField(_("questions without an answer"), default=0, db_default=0)
    shown = "{0.kind} {0.topics}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "key"), name="suggestion_once"),)
        indexes = (models.Index(fields=("owner", "state", "-score", "-id"), name="suggestion_queue"),)
        verbose_name = _("suggestion")
        verbose_name_plural = _("suggestions")


class ForgetRequest(Owned):
    """A message that an agent asks to have erased; it waits for a person, who erases it or keeps it. Either way the row
    is gone: with its message, or by the decision to keep it. ``asked_by`` names the agent's token."""

    message = models.OneToOneField("memoryapp.Message", models.CASCADE, verbose_name=_("message"))
    asked_by = models.CharField(_("asked by"), max_length=200)
    at = models.DateTimeField(_("at"), auto_now_add=True)
    shown = "{0.message_id}"

    class Meta:
        indexes = (models.Index(fields=("owner", "id"), name="forgetrequest_owner"),)
        verbose_name = _("request to forget")
        verbose_name_plural = _("requests to forget")
