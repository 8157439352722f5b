"""Operators: Django users with a role, the chat users they may see, and the views of lists that they keep."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import ChatUser, Owned, Row

# Every visitor of a demo with ``DEMO_READ_ONLY``.
GUEST = "guest"


class Role(models.TextChoices):
    """What an operator may do; each role includes the ones before it."""

    VIEWER = "viewer", _("viewer")
    DEBUGGER = "debugger", _("debugger")
    CURATOR = "curator", _("curator")
    ADMIN = "admin", _("admin")

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class Operator(Row):
    """``projects`` are those whose rows the operator sees, beside what is common; None for all. ``only_reads`` is set
    for one request, while its pages show the memory of an earlier moment."""

    only_reads = False
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"))
    role = models.CharField(_("role"), max_length=16, choices=Role, default=Role.VIEWER)
    projects = models.JSONField(_("projects"), null=True, blank=True)

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

    in_cell = False
    operator = models.ForeignKey(Operator, models.CASCADE, verbose_name=_("operator"))
    shown = "{0.operator} → {0.owner}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("operator", "owner"), name="access_once"),)
        indexes = (models.Index(fields=("owner",), name="access_owner"),)
        verbose_name = _("access")
        verbose_name_plural = _("access")


class SavedView(Owned):
    """What narrows and orders a list of this memory, under a name: an address that somebody kept.

    ``query`` are the parameters of the address with their values, not escaped, so that an erasure finds what they
    quote. A shared one is offered to everybody who may see the memory, another to its ``user`` alone.
    """

    in_cell = False

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
    shown = "{0.name}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner", "list", "user", "name"), name="savedview_once"),)
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")


# Login sessions: Django's, with device and time, so that people can tell their own sessions from others.


class LoginSession(AbstractBaseSession):
    """``user`` is None before somebody signs in; ``device`` is what the browser calls itself."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    device = models.CharField(max_length=300, default="")
    address = models.GenericIPAddressField(null=True)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("login session")
        verbose_name_plural = _("login sessions")

    @classmethod
    def get_session_store_class(cls) -> Any:
        raise NotImplementedError("settings.SESSION_ENGINE names the store")


# API tokens: what a program may do, and with whose memory. Only the digest of a token is stored.


class ApiToken(Row):
    """``scopes`` lists words of ``Scope``. The token opens the memories of ``owners``, or all of them with
    ``everyone``.

    What it asks may cost ``daily_cap_usd`` a day; null is no cap. Messages were last stored with it at ``captured_at``.
    ``projects`` are those in which it reads and writes, beside what is common; None for all.

    ``when_unsure`` is the default of that parameter for what it asks; empty for the usual one.

    ``counted`` requests were sent since ``counted_from``, in seconds since 1970, see ``accounts.rates``.

    An empty list does not mean every memory: erasing the only chat user of a token must not open all others to it.
    """

    class Scope(models.TextChoices):
        RECALL = "recall", _("recall")
        INGEST = "ingest", _("add messages")
        READ = "read", _("read")
        CURATE = "curate", _("curate")
        FORGET = "forget", _("forget")
        AUDIT = "audit", _("read the audit log")
        EVERYONE = "everyone", _("every memory")

    name = models.CharField(_("name"), max_length=200)
    prefix = models.CharField(_("begins with"), max_length=16)
    digest = models.CharField("SHA-256", max_length=64, unique=True)
    scopes = models.JSONField(pgettext_lazy("rights", "may"), default=list)
    owners = models.ManyToManyField(ChatUser, blank=True, verbose_name=_("chat users"))
    projects = models.JSONField(_("projects"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    when_unsure = models.CharField(_("when unsure"), max_length=10, blank=True, default="", db_default="")
    daily_cap_usd = models.FloatField(_("cap of a day, $"), null=True, blank=True)
    captured_at = models.DateTimeField(_("last message stored"), null=True, blank=True)
    counted = models.BigIntegerField(_("requests counted"), default=0, db_default=0, editable=False)
    counted_from = models.BigIntegerField(_("counted from"), default=0, db_default=0, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    shown = "{0.name} ({0.prefix}…)"

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
