"""Operators: Django users with a role, the chat users they may see, and the views of lists that they keep."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import Owned


class Role(models.TextChoices):
    """What an operator may do; each role includes the ones before it."""

    VIEWER = "viewer", _("viewer")
    DEBUGGER = "debugger", _("debugger")
    CURATOR = "curator", _("curator")
    ADMIN = "admin", _("admin")

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class Operator(models.Model):
    """``only_reads`` is set for one request, while its pages show the memory of an earlier moment."""

    only_reads = False
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"))
    role = models.CharField(_("role"), max_length=16, choices=Role, default=Role.VIEWER)

    class Meta:
        verbose_name = _("operator")
        verbose_name_plural = _("operators")

    def __str__(self) -> str:
        return self.user.get_username()

    @property
    def sees_everyone(self) -> bool:
        return self.role == Role.ADMIN

    def may(self, role: Role) -> bool:
        return Role(self.role).includes(role) and not (self.only_reads and role in (Role.CURATOR, Role.ADMIN))


class Access(Owned):
    """This operator may see this chat user's memory."""

    operator = models.ForeignKey(Operator, models.CASCADE, verbose_name=_("operator"))

    class Meta:
        constraints = (models.UniqueConstraint(fields=("operator", "owner"), name="access_once"),)
        indexes = (models.Index(fields=("owner",), name="access_owner"),)
        verbose_name = _("access")
        verbose_name_plural = _("access")

    def __str__(self) -> str:
        return f"{self.operator} → {self.owner}"


class SavedView(Owned):
    """What narrows and orders a list of this memory, under a name: an address that somebody kept.

    ``query`` are the parameters of the address with their values, not escaped, so that an erasure finds what they
    quote. A shared one is offered to everybody who may see the memory, another to its ``user`` alone.
    """

    class List(models.TextChoices):
        TOPICS = "topics", _("topics")
        MESSAGES = "messages", _("messages")
        PEOPLE = "people", _("people")
        FACTS = "facts", _("facts")
        ARTIFACTS = "artifacts", _("artifacts")
        RUNS = "runs", _("runs")

    list = models.CharField(_("list"), max_length=12, choices=List)
    name = models.CharField(_("name"), max_length=80)
    query = models.JSONField(_("query"), default=dict)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=pgettext_lazy("view", "saved by"))
    is_shared = models.BooleanField(_("shared"), default=False)
    at = models.DateTimeField(_("at"), auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "list", "user", "name"), name="savedview_once"),)
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")

    def __str__(self) -> str:
        return self.name
