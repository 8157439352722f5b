"""The name of the log of logins in the administration, and the table that counts attempts at second factors."""

from typing import Any

from axes.apps import AppConfig
from django.conf import settings
from django.core.management import call_command
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class LoginAttempts(AppConfig):  # type: ignore[misc]
    """Shows django-axes under the name of what it stores, not its own name."""

    verbose_name = _("Login attempts")

    def ready(self) -> None:
        super().ready()
        if settings.SIGN_ON:
            post_migrate.connect(_make_table, sender=self)


def _make_table(**_: Any) -> None:
    call_command("createcachetable", verbosity=0)
