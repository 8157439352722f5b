"""What the guard found in messages, and the texts that its masks hide."""

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models.message import Message
from memoryapp.models.user import Owned


class GuardKind(models.TextChoices):
    KEYS = "keys", _("keys, tokens and passwords")
    CARDS = "cards", _("card numbers")
    ACCOUNTS = "accounts", _("bank accounts")
    IDS = "ids", _("numbers of passports, taxes and insurance")
    EMAILS = "emails", _("e-mail addresses")
    PHONES = "phones", _("telephone numbers")
    ADDRESSES = "addresses", _("postal addresses")
    HEALTH = "health", _("words about health")
    INSTRUCTIONS = "instructions", _("sentences that instruct a model")


class GuardPolicy(models.TextChoices):
    """What happens to a message that arrives with something of a kind, from the weakest to the strongest."""

    OFF = "off", pgettext_lazy("guard", "leave")
    MARK = "mark", pgettext_lazy("guard", "mark")
    MASK = "mask", pgettext_lazy("guard", "mask")
    HOLD = "hold", pgettext_lazy("guard", "hold")


class GuardSpot(Owned):
    """A message contains something of the kind, or did before it was masked. ``by`` is who decided last, empty for the
    guard; a message that a person keeps as it is (``KEPT``) is not looked at again."""

    class State(models.TextChoices):
        MARKED = "marked", pgettext_lazy("guard", "marked")
        MASKED = "masked", pgettext_lazy("guard", "masked")
        HELD = "held", pgettext_lazy("guard", "held")
        KEPT = "kept", pgettext_lazy("guard", "kept as it is")

    message = models.ForeignKey(Message, models.CASCADE, related_name="spots", verbose_name=_("message"))
    kind = models.CharField(_("kind"), max_length=16, choices=GuardKind)
    state = models.CharField(_("state"), max_length=8, choices=State)
    by = models.CharField(_("by"), max_length=150, blank=True)
    at = models.DateTimeField(_("at"), auto_now_add=True)
    shown = "{0.kind} {0.message_id}"

    class Meta:
        constraints = (models.UniqueConstraint(fields=("message", "kind"), name="guardspot_once"),)
        indexes = (models.Index(fields=("owner", "state", "-id"), name="guardspot_owner"),)
        verbose_name = _("spot that the guard found")
        verbose_name_plural = _("spots that the guard found")


class UnmaskedText(Owned):
    """The text and the metadata of a masked message as they arrived; only a person's wish shows them."""

    message = models.OneToOneField(Message, models.CASCADE, related_name="unmasked", verbose_name=_("message"))
    text = models.TextField(_("text"))
    metadata = models.JSONField(_("metadata"), default=dict)
    shown = "{0.message_id}"

    class Meta:
        verbose_name = _("text behind masks")
        verbose_name_plural = _("texts behind masks")
