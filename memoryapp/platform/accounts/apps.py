"""The name of the log of logins in the administration."""

from axes.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class LoginAttempts(AppConfig):  # type: ignore[misc]
    """Shows django-axes under the name of what it stores, not its own name."""

    verbose_name = _("Login attempts")
