"""Login sessions: Django's, with device and time, so that people can tell their own sessions from others."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils.translation import gettext_lazy as _


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
