"""What is proposed and a person decides about: merges and splits by the program, messages to be erased by agents."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.agent import AgentCall
from memoryapp.models.topic import TopicEdit
from memoryapp.models.user import Owned


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

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "key"), name="suggestion_once"),)
        indexes = (models.Index(fields=("owner", "state", "-score", "-id"), name="suggestion_queue"),)
        verbose_name = _("suggestion")
        verbose_name_plural = _("suggestions")

    def __str__(self) -> str:
        return f"{self.kind} {self.topics}"


class ForgetRequest(Owned):
    """A message that an agent asks to have erased; it waits for a person, who erases it or keeps it.

    Either way the row is gone: with its message, or by the decision to keep it. ``asked_by`` names the agent's token.
    """

    message = models.OneToOneField("memoryapp.Message", models.CASCADE, verbose_name=_("message"))
    asked_by = models.CharField(_("asked by"), max_length=200)
    at = models.DateTimeField(_("at"), auto_now_add=True)

    class Meta:
        indexes = (models.Index(fields=("owner", "id"), name="forgetrequest_owner"),)
        verbose_name = _("request to forget")
        verbose_name_plural = _("requests to forget")

    def __str__(self) -> str:
        return f"{self.message_id}"
