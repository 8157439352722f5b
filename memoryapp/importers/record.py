"""What every reader yields: a message that can be stored, or the place and reason of one that cannot.

A file is data from strangers, so the one door ``message`` looks at every field: NUL and lone surrogates
become U+FFFD (PostgreSQL stores neither), lengths and depths are bounded, times are aware and in UTC.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

ROLES = ("user", "assistant", "peer", "system")
MOST_TEXT = 1_000_000
MOST_DEPTH = 32
LONGEST = {
    "user": 200,
    "external_id": 300,
    "author": 200,
    "session": 200,
    "reply_to": 300,
    "forwarded_from": 200,
    "text": MOST_TEXT,
}

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class UnreadableFile(Exception):
    """Nothing can be read from this file; the text is a sentence for people."""


class BadRecord(Exception):
    """This one record cannot be taken; the text says why."""


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of a file. ``user`` is the chat user the file names, or empty.

    ``external_id`` is unique within the chat user, ``sent_at`` aware and in UTC, ``session`` an optional
    label of what belongs together, ``line`` the place in the file.
    """

    user: str
    external_id: str
    role: str
    author: str
    sent_at: datetime
    text: str
    session: str = ""
    reply_to: str = ""
    forwarded_from: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int | str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record left out: its place (a line number, or a path in the document), why, and whose it was."""

    line: int | str
    reason: str
    user: str = ""


def message(**fields: Any) -> MessageRecord:
    """The record of these fields, cleaned and checked. Raises BadRecord."""
    fields["metadata"] = {str(key): value for key, value in clean(fields.get("metadata") or {}).items()}
    if fields["metadata"] and len(json.dumps(fields["metadata"])) > MOST_TEXT:
        raise BadRecord(
            _("what it carries beside its text is longer than %(most)s characters") % {"most": f"{MOST_TEXT:,}"}
        )
    for name, most in LONGEST.items():
        fields[name] = words(fields.get(name, ""), name)
        if len(fields[name]) > most:
            raise BadRecord(_("%(name)s is longer than %(most)s characters") % {"name": name, "most": f"{most:,}"})
    if not fields["external_id"]:
        raise BadRecord(_("it has no id"))
    if fields["role"] not in ROLES:
        raise BadRecord(
            _("the role must be one of %(roles)s, not %(role)s")
            % {"roles": ", ".join(ROLES), "role": shown(fields["role"])}
        )
    return MessageRecord(**fields)


def words(value: object, name: str) -> str:
    """Text as it can be stored; whole numbers count as text, null as none. Raises BadRecord."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRecord(_("%(name)s must be text, not %(value)s") % {"name": name, "value": shown(value)})
    return _UNSTORABLE.sub("\ufffd", value)


def clean(value: Any, depth: int = 0) -> Any:
    """A JSON value as ``jsonb`` can hold it. Raises BadRecord when it is nested too deeply."""
    if depth > MOST_DEPTH:
        raise BadRecord(_("it is nested deeper than %(most)s levels") % {"most": MOST_DEPTH})
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {clean(key, depth + 1): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def moment(value: object) -> datetime:
    """An ISO 8601 text or seconds since 1970 as an aware time in UTC; no zone means UTC. Raises BadRecord."""
    if value is None or value == "":
        raise BadRecord(_("it has no time"))
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            read = datetime.fromisoformat(value.strip())
            return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise BadRecord(_("%(value)s is not a time such as 2025-07-25T14:30:00Z") % {"value": shown(value)})


def shown(value: object) -> str:
    """A value of the file in a sentence: quoted, short."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
