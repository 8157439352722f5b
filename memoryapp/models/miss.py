"""What an assistant forgot: a question that went wrong, why, what was done about it, and whether it stayed right."""

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.evaluation import GoldenQuestion
from memoryapp.models.knowledge import KnowledgeEdit
from memoryapp.models.run import Run
from memoryapp.models.topic import TopicEdit
from memoryapp.models.user import Owned


class Miss(Owned):
    """A question with what should have been known (``expected``) or the wrong ``answer``, and its ``run``.

    Why not? finds the ``stage`` that lost it, and ``lost``, the id under which the run met it; both are empty until the
    run has ended. ``evidence`` are the numbers of the messages that say it. A repair is a ``remedy`` by name with what
    it made: an edit of topics, a ``change`` of knowledge or a ``fork``. ``golden`` is the question that nights ask.
    """

    class State(models.TextChoices):
        OPEN = "open", pgettext_lazy("miss", "open")
        REPAIRED = "repaired", pgettext_lazy("miss", "put right")
        KEPT = "kept", pgettext_lazy("miss", "kept right")
        DISMISSED = "dismissed", pgettext_lazy("miss", "not a miss")

    question = models.TextField(_("question"))
    expected = models.TextField(_("what should have been known"), blank=True)
    answer = models.TextField(_("the wrong answer"), blank=True)
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="misses", verbose_name=_("run"))
    at = models.DateTimeField(_("at"), auto_now_add=True)
    moment = models.DateTimeField(_("answered wrongly at"))
    stage = models.CharField(_("stage"), max_length=24, blank=True)
    lost = models.CharField(_("what was lost"), max_length=60, blank=True)
    evidence = models.JSONField(_("evidence"), default=list, blank=True)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.OPEN)
    remedy = models.CharField(_("remedy"), max_length=24, blank=True)
    topic_edit = models.ForeignKey(
        TopicEdit, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("edit of topics")
    )
    change = models.ForeignKey(
        KnowledgeEdit, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("change")
    )
    again = models.ForeignKey(
        Run, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("asked again")
    )
    golden = models.ForeignKey(
        GoldenQuestion, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("golden question")
    )
    reported_by = models.CharField(_("by"), max_length=150)
    repaired_at = models.DateTimeField(_("put right"), null=True, blank=True)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("owner", "-at", "-id"), name="miss_owner"),
            models.Index(fields=("id",), condition=models.Q(state="open", stage=""), name="miss_unexplained"),
        )
        verbose_name = _("miss")
        verbose_name_plural = _("misses")

    def __str__(self) -> str:
        return self.question[:60]
