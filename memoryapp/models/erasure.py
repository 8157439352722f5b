"""The record of an erasure: numbers, deleted rows of each table, and marks with which residue is found."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from memoryapp.models.user import Row


class Erasure(Row):
    """A receipt. ``owner_number`` was the id of the chat user; neither name nor text is stored.

    ``messages`` and ``person`` are the numbers of what is erased from a memory that remains, ``others`` those of facts,
    runs or media by noun, until they are gone; all are empty when the whole chat user is erased. Masks are put
    and taken back under a receipt, too. The rows were deleted
    at ``cut_at``; while ``ended_at`` is null the erasure is going on; at ``looked_again_at`` it checked once more for
    rows that were being written meanwhile. ``counts`` are deleted rows by table, and ``files``. While ``others`` has a
    ``name``, the marks of a whole chat user include what others hold as well; so many, the first, are of names.

    ``salt`` and ``marks`` are keyed hashes of the erased words (see docs/decisions), of ``lengths`` words each.
    ``share`` is the part of all such runs that has a mark: 1 unless the memory is large. It is null in receipts of
    earlier versions, which have three marks for a text of a whole chat user. ``unmarked`` counts texts that cannot be
    looked for, because they are too short or also occur elsewhere. ``residue`` is what the scanner found last, as
    ``{"place", "count"}``.
    """

    class Kind(models.TextChoices):
        USER = "user", _("chat user")
        MESSAGES = "messages", _("messages")
        TOPIC = "topic", _("messages of a topic")
        PERSON = "person", _("person")
        MASK = "mask", _("masks")
        UNMASK = "unmask", _("a mask taken back")
        EXPIRED = "expired", _("what expired")
        PROJECT = "project", _("project")

    kind = models.CharField(_("kind"), max_length=16, choices=Kind, default=Kind.USER)
    owner_number = models.BigIntegerField(_("number of the chat user"))
    messages = models.JSONField(_("messages"), default=list, blank=True)
    person = models.BigIntegerField(_("person"), null=True, blank=True)
    others = models.JSONField(
        _("other rows"), default=dict, blank=True, db_default=models.Value({}, models.JSONField())
    )
    actor = models.CharField(_("by"), max_length=200)
    began_at = models.DateTimeField(_("began"), auto_now_add=True)
    marked_at = models.DateTimeField(_("marks made"), null=True, blank=True)
    cut_at = models.DateTimeField(_("rows gone"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    looked_again_at = models.DateTimeField(_("looked again"), null=True, blank=True)
    counts = models.JSONField(_("rows by table"), default=dict, blank=True)
    redacted = models.JSONField(_("rows redacted"), default=dict, blank=True)
    touched = models.JSONField(_("topics touched"), default=list, blank=True)
    salt = models.BinaryField(_("salt"), default=bytes, blank=True)
    marks = models.BinaryField(_("marks"), default=bytes, blank=True)
    lengths = models.JSONField(_("words of a mark"), default=list, blank=True)
    share = models.FloatField(_("share of runs with a mark"), null=True, blank=True)
    unmarked = models.PositiveIntegerField(_("texts without a mark"), default=0)
    verify_asked_at = models.DateTimeField(_("check asked for"), null=True, blank=True)
    verified_at = models.DateTimeField(_("checked"), null=True, blank=True)
    residue = models.JSONField(_("residue"), default=list, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("owner_number",), condition=models.Q(kind="user"), name="erasure_once"),
        )
        ordering = ("-began_at", "-id")
        verbose_name = _("erasure")
        verbose_name_plural = _("erasures")

    @property
    def rows(self) -> int:
        """How many rows have been deleted."""
        return sum(int(count) for table, count in self.counts.items() if table != "files")

    @property
    def tables(self) -> list[tuple[str, int]]:
        """What ``counts`` holds, by name."""
        return sorted(self.counts.items())

    @property
    def redactions(self) -> list[tuple[str, int]]:
        """What ``redacted`` holds, by name."""
        return sorted(self.redacted.items())

    @property
    def mark_count(self) -> int:
        return len(self.marks) // MARK_BYTES


MARK_BYTES = 8
