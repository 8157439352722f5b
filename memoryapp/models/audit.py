"""The audit log: who read, asked, changed, exported or erased whose memory, and who signed in."""

from datetime import UTC
from typing import Any

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.user import Row


class Deed(models.TextChoices):
    READ = "read", pgettext_lazy("deed", "read")
    ASK = "ask", pgettext_lazy("deed", "asked")
    CHANGE = "change", pgettext_lazy("deed", "changed")
    EXPORT = "export", pgettext_lazy("deed", "exported")
    ERASE = "erase", pgettext_lazy("deed", "erased")
    SIGN_IN = "sign_in", pgettext_lazy("deed", "signed in")
    SIGN_IN_FAILED = "sign_in_failed", pgettext_lazy("deed", "failed to sign in")
    SIGN_OUT = "sign_out", pgettext_lazy("deed", "signed out")


class Door(models.TextChoices):
    PAGE = "page", pgettext_lazy("door", "page")
    HTTP = "http", pgettext_lazy("door", "HTTP")
    MCP = "mcp", "MCP"
    CHAT = "chat", pgettext_lazy("door", "chat endpoint")
    COMMAND = "command", pgettext_lazy("door", "command")


class AuditEntry(Row):
    """One deed. ``who`` is an operator's name, the beginning of a token or a command; ``owner_number`` the chat user
    whose memory it was, null where it was none or several; ``what`` an address's name with numbers, never a text.

    A sealed entry has its ``place`` in the chain, counted from 1, and ``seal``, the SHA-256 of the seal before it,
    ``former``, and its own ``document``. The database refuses every other change, and lets only the oldest sealed ones
    go (``memoryapp/migrations/audit.sql``). The number of the owner is no key, so that it outlives an erasure.
    """

    at = models.DateTimeField(_("at"), db_default=Now())
    who = models.CharField(pgettext_lazy("audit", "who"), max_length=200, blank=True)
    door = models.CharField(_("door"), max_length=8, choices=Door)
    deed = models.CharField(_("deed"), max_length=16, choices=Deed)
    owner_number = models.BigIntegerField(_("number of the chat user"), null=True, blank=True)
    what = models.CharField(pgettext_lazy("audit", "what"), max_length=200, blank=True)
    address = models.GenericIPAddressField(pgettext_lazy("audit", "from"), null=True, blank=True)
    place = models.BigIntegerField(_("place in the chain"), null=True, blank=True, unique=True)
    former = models.CharField(_("seal before it"), max_length=64, blank=True, db_default="", default="")
    seal = models.CharField(_("seal"), max_length=64, blank=True, db_default="", default="")
    shown = "{0.deed} {0.what}"

    class Meta:
        indexes = (
            models.Index(fields=("-at", "-id"), name="auditentry_at"),
            models.Index(fields=("owner_number", "-at", "-id"), name="auditentry_owner"),
            models.Index(fields=("id",), condition=models.Q(seal=""), name="auditentry_unsealed"),
        )
        ordering = ("-at", "-id")
        verbose_name = _("entry of the audit log")
        verbose_name_plural = _("audit log")

    @property
    def document(self) -> dict[str, Any]:
        """What is sealed."""
        at = self.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        named = {"place": self.place, "at": at, "who": self.who, "door": self.door, "deed": self.deed}
        return {**named, "user": self.owner_number, "what": self.what, "address": self.address}

    @property
    def sealed_document(self) -> dict[str, Any]:
        """What is exported."""
        return {**self.document, "former": self.former, "seal": self.seal}
