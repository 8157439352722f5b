"""Calls of agents to a chat model outside of runs, stored so that their conversations can be shown."""

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.agents import AGENTS
from memoryapp.engine.prompt_registry import prompts
from memoryapp.models.user import Owned, Row


def named_agents() -> list[tuple[str, str]]:
    """The registered agents as choices, in the reader's language."""
    return [(agent.name, gettext(agent.label)) for agent in AGENTS.values()]


class AgentCall(Owned):
    """One question of an agent about ``topics`` (their numbers), with every event of the conversation.

    ``events`` are objects with ``kind``, ``payload`` and, for a reply, the raw ``message`` as JSON text. ``outcome`` is
    empty when there was an answer, otherwise the reason why there is none. Tokens and dollars are those of all turns.
    ``key`` is equal for the same question to the same model; ``asked_by`` is empty when no person asked.
    """

    agent = models.CharField(_("agent"), max_length=16, choices=named_agents)
    topics = models.JSONField(_("topics"), default=list, blank=True)
    key = models.CharField(_("key"), max_length=64, blank=True)
    asked_by = models.CharField(_("asked by"), max_length=150, blank=True)
    at = models.DateTimeField(_("at"), auto_now_add=True)
    model = models.CharField(_("model"), max_length=200, blank=True)
    prompt_version = models.CharField(_("prompt version"), max_length=40, blank=True)
    outcome = models.CharField(_("outcome"), max_length=32, blank=True)
    input_tokens = models.PositiveBigIntegerField(_("input tokens"), default=0)
    output_tokens = models.PositiveBigIntegerField(_("output tokens"), default=0)
    cost_usd = models.FloatField(_("cost, $"), default=0)
    seconds = models.FloatField(_("seconds"), default=0)
    events = models.JSONField(_("events"), default=list, blank=True)
    shown = "{0.agent} {0.pk}"

    class Meta:
        indexes = (
            models.Index(fields=("owner", "-at"), name="agentcall_owner"),
            # What was spent since midnight.
            models.Index(fields=("at",), include=("owner", "cost_usd"), name="agentcall_spent"),
            models.Index(fields=("owner", "key"), condition=models.Q(outcome=""), name="agentcall_answered"),
        )
        verbose_name = _("agent's question")
        verbose_name_plural = _("agents' questions")


# Prompt texts as people edited them. A text never changes: an edit is a new version.
#
# Without a row in force the engine's built-in text applies, which is version 0.


def named_prompts() -> list[tuple[str, str]]:
    """The prompts of the program as choices, in the reader's language."""
    return [(prompt.name, gettext(prompt.title)) for prompt in prompts().values()]


class Prompt(Row):
    """One version of one text. ``system`` and ``user`` contain ``$variables`` for ``string.Template``.

    ``forced_at`` and ``forced_by`` record when and by whom it was last put in force, ``replaced_at`` and
    ``replaced_by`` the end of that. The built-in text has no row: it is in force whenever no row is, since the last one
    was replaced.
    """

    name = models.CharField(_("prompt"), max_length=16, choices=named_prompts)
    language = models.CharField(_("language"), max_length=2, choices=[("en", _("English")), ("ru", _("Russian"))])
    version = models.PositiveIntegerField(_("version"))
    system = models.TextField(_("system message"))
    user = models.TextField(_("user message"))
    note = models.CharField(_("what changed"), max_length=500, blank=True)
    made_by = models.CharField(_("by"), max_length=200)
    made_at = models.DateTimeField(_("at"), auto_now_add=True)
    in_force = models.BooleanField(_("in force"), default=False)
    forced_at = models.DateTimeField(_("in force since"), null=True, blank=True)
    forced_by = models.CharField(_("put in force by"), max_length=200, blank=True, db_default="")
    replaced_at = models.DateTimeField(_("in force until"), null=True, blank=True)
    replaced_by = models.CharField(_("replaced by"), max_length=200, blank=True, db_default="")
    shown = "{0.name}-{0.language}-{0.version}"

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("name", "language", "version"), name="prompt_once"),
            models.UniqueConstraint(
                fields=("name", "language"), condition=models.Q(in_force=True), name="prompt_one_in_force"
            ),
            models.CheckConstraint(condition=models.Q(version__gte=1), name="prompt_version_from_one"),
        )
        ordering = ("name", "language", "-version")
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
