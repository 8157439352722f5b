"""Moments in words, on the reader's clock."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _


def absolute(moment: datetime) -> str:
    """The moment on the reader's clock, with the zone it is of."""
    here = timezone.localtime(moment)
    zone = here.tzname() or ""
    # Zones without letters of their own are named by their distance: "+03".
    written = date_format(here, _("j F Y, H:i"))
    return f"{written} {f'UTC{zone}' if zone[:1] in '+-' else zone}"


def coming(moment: datetime) -> str:
    """A moment that is near on the reader's clock: the time alone if it is today, else with its date."""
    here = timezone.localtime(moment)
    return date_format(here, "H:i") if here.date() == timezone.localdate() else absolute(moment)
