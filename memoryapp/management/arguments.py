"""Arguments that several commands share; a wrong value is reported in one sentence."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from memoryapp.models import ChatUser


def utf8(argument: str) -> str:
    """Returns an argument that is not a path. Bytes that are not UTF-8 arrive as surrogates, which cannot be stored."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError(_("%(value)s is not UTF-8 text") % {"value": repr(argument)}) from None
    return argument


def named_user(name: str) -> ChatUser:
    """Returns the chat user of that name. Raises CommandError, which lists known names, if there is none."""
    owner = ChatUser.objects.filter(name=name).first()
    if owner:
        return owner
    known = list(ChatUser.objects.values_list("name", flat=True)[:10])
    there = f"There are: {', '.join(known)}." if known else "There is none yet; import a chat first."
    raise CommandError(f"There is no chat user “{name}”. {there}")


def settings_given(pairs: Sequence[str]) -> dict[str, str]:
    """Returns ``["max_topics=5"]`` as a dict."""
    given = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise CommandError(f"--set takes KEY=VALUE, not “{pair}”.")
        given[name.strip()] = value.strip()
    return given
