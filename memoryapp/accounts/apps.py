"""What the administration calls the log of logins."""

from __future__ import annotations

from axes.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class LoginAttempts(AppConfig):  # type: ignore[misc]
    """django-axes, by what it keeps instead of by its own name."""

    verbose_name = _("Login attempts")
