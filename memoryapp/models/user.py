"""The chat user: the person whose memory it is. Not the operator, who is Django's user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.conf import settings
from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from django.db import connection, models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.engine.cells import within
from memoryapp.engine.sight import LONGEST, into

if TYPE_CHECKING:
    from memoryapp.models.operator import Operator


# Bounds of a memory's settings, wherever they come from.
SILENCE_SECONDS = (60, 30 * 86_400)
SESSION_MESSAGES = (2, 10_000)
TOPIC_MESSAGES = (1, 1_000)
CERTAINTY = (0, 100)
CAP_USD = (0, 1_000_000)
QUOTA = (0, 10**15)
MOST_PROFILE_CHARS = 16_000


def between(least: int, most: int) -> tuple[MinValueValidator, MaxValueValidator]:
    return MinValueValidator(least), MaxValueValidator(most)


class Row(models.Model):
    """``shown`` is what a row is called, with attributes of its own."""

    shown = "{0.pk}"

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.shown.format(self)


class RecallMode(models.TextChoices):
    """How a topic, a person or a fact is recalled, as somebody decided; empty is the usual way."""

    PINNED = "pinned", _("pinned")
    NEVER = "never", _("never recalled")


class ChatUserQuerySet(models.QuerySet["ChatUser"]):
    def seen_by(self, operator: Operator) -> Self:
        """The chat users this operator may look at."""
        if operator.sees_everyone:
            return self
        return self.filter(access__operator=operator)


_WithErased = models.Manager.from_queryset(ChatUserQuerySet)


class ChatUserManager(_WithErased["ChatUser"]):
    """Chat users, without those being erased."""

    def get_queryset(self) -> ChatUserQuerySet:
        return ChatUserQuerySet(self.model, using=self._db).filter(erasing_since__isnull=True)


class ChatUser(Row):
    """``objects`` are the chat users, ``with_erased`` also those that are being erased.

    A session ends after ``silence_seconds`` or at ``session_messages``; a topic has at least ``topic_messages``. Where
    these are null the settings apply. From ``least_certainty`` on, in percent, the embedded scorer chooses; null is the
    usual one. A day costs ``daily_cap_usd``, the memory holds ``most_messages`` and ``most_bytes``; null is no bound of
    its own. ``guard`` and ``guard_out`` are the policies of the guard by kind, where they are not those of the
    settings. ``consolidation`` and ``extraction`` say what is done automatically. The memory's rows lie in ``cell``.
    """

    class Consolidation(models.TextChoices):
        AUTOMATIC = "automatic", pgettext_lazy("mode", "merge similar topics")
        SUGGEST = "suggest", pgettext_lazy("mode", "suggest merges")
        OFF = "off", pgettext_lazy("mode", "off")

    class Extraction(models.TextChoices):
        AUTOMATIC = "automatic", pgettext_lazy("mode", "use what is extracted at once")
        REVIEW = "review", pgettext_lazy("mode", "a person confirms what is extracted")
        OFF = "off", pgettext_lazy("mode", "off")

    name = models.CharField(_("name"), max_length=200, unique=True)
    display_name = models.CharField(_("shown as"), max_length=200, blank=True)
    profile = models.TextField(_("profile"), blank=True, validators=[MaxLengthValidator(MOST_PROFILE_CHARS)])
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    silence_seconds = models.PositiveIntegerField(
        _("silence that ends a session, s"), null=True, blank=True, validators=between(*SILENCE_SECONDS)
    )
    session_messages = models.PositiveIntegerField(
        _("most messages of a session"), null=True, blank=True, validators=between(*SESSION_MESSAGES)
    )
    topic_messages = models.PositiveIntegerField(
        _("least messages of a topic"), null=True, blank=True, validators=between(*TOPIC_MESSAGES)
    )
    least_certainty = models.PositiveSmallIntegerField(
        _("least certainty of a choice, %"), null=True, blank=True, validators=between(*CERTAINTY)
    )
    daily_cap_usd = models.FloatField(_("cap of a day, $"), null=True, blank=True, validators=between(*CAP_USD))
    most_messages = models.PositiveBigIntegerField(_("most messages"), null=True, blank=True)
    most_bytes = models.PositiveBigIntegerField(_("most bytes"), null=True, blank=True)
    consolidation = models.CharField(
        _("consolidation"), max_length=16, choices=Consolidation, default=Consolidation.SUGGEST, db_default="suggest"
    )
    extraction = models.CharField(
        _("extraction"), max_length=16, choices=Extraction, default=Extraction.REVIEW, db_default="review"
    )

    guard = models.JSONField(_("what must not be stored"), default=dict, db_default={}, blank=True)
    guard_out = models.JSONField(_("what must not be handed over"), default=dict, db_default={}, blank=True)

    cell = models.PositiveSmallIntegerField(_("cell"), default=0, db_default=0, editable=False)
    erasing_since = models.DateTimeField(_("being erased since"), null=True, blank=True, editable=False)

    objects = ChatUserManager()
    with_erased = ChatUserQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        verbose_name = _("chat user")
        verbose_name_plural = _("chat users")

    def __str__(self) -> str:
        return self.display_name or self.name

    def save(self, *args: Any, **options: Any) -> None:
        """Gives a new memory its number, which says in what cell it lies: they are filled in turn."""
        if settings.CELLS > 1 and self.pk is None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT nextval(pg_get_serial_sequence('memoryapp_chatuser', 'id'))")
                self.pk = cursor.fetchone()[0]
            self.cell = self.pk % settings.CELLS + 1
        is_new = self._state.adding
        super().save(*args, **options)
        if is_new:
            with within(self.cell):
                Talk.objects.get_or_create(owner=self)


class ProjectField(models.CharField):  # type: ignore[type-arg]
    """The label of the project or place that a row belongs to; empty for what is common to all."""

    def __init__(self, **options: Any) -> None:
        given = {"max_length": LONGEST, "blank": True, "default": into, "db_default": "", **options}
        super().__init__(given.pop("verbose_name", _("project")), **given)

    def deconstruct(self) -> Any:
        name, _path, args, options = super().deconstruct()
        return name, "django.db.models.CharField", args, options


class Owned(Row):
    """A row of a chat user's memory; it is deleted with the chat user. It lies in the cell of the memory, unless the
    table is one that all share (``in_cell``)."""

    in_cell = True
    owner = models.ForeignKey(ChatUser, models.CASCADE, db_index=False, verbose_name=_("chat user"))

    class Meta:
        abstract = True


class Talk(Owned):
    """How often the passages of the owner's active sessions changed; searches compare it with what they keep. In a cell
    all rows of the memory refer to this one, which says that they lie there."""

    changes = models.PositiveBigIntegerField(_("changes of the talk"), default=0, db_default=0)
    shown = "{0.owner_id} {0.changes}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("owner",), name="talk_once"),)
        verbose_name = _("changes of the talk")
        verbose_name_plural = _("changes of the talk")
