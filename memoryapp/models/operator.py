"""Operators: Django users with a role and the chat users they may see."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

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
