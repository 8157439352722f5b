"""What a run says of a person or a file it found: events hold the line of the model, pages have their own form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.text.lines import NOT_ANALYSED, plain
from memoryapp.models import Person
from rerankui.text.counts import grouped

_BETWEEN = " | "
_MENTIONS = re.compile(r"(\d{1,9}) mentions")
# What follows a person's name: "(@login) (aka other, names) [Circle]".
_HEAD = re.compile(r"(?:\(@([^()]*)\) ?)?(?:\(aka ([^()]*)\) ?)?(?:\[([^][]*)\])?")
_LABELS: dict[str, Promise] = {
    "Entities: ": gettext_lazy("entities: %(words)s"),
    "Answers: ": gettext_lazy("answers: %(words)s"),
}


def details(item: ItemCandidate) -> str:
    """What is known of the item beside its name, its parts separated by dots."""
    line = item.line.partition(") ")[2] or item.line
    first, *rest = line.split(_BETWEEN)
    head = (
        _person(first.removeprefix(plain(item.name)).strip()) if item.id.startswith("Person:") else [_file_type(first)]
    )
    return " · ".join(filter(None, [*head, *map(_field, rest)]))


def _person(head: str) -> Iterator[str]:
    found = _HEAD.fullmatch(head)
    if not found:
        yield head
        return
    login, names, circle = found.groups(default="")
    yield f"@{login}" if login else ""
    yield _("also called %(names)s") % {"names": names} if names else ""
    yield str(dict(Person.Circle.choices).get(circle, circle))


def _file_type(first: str) -> str:
    return first.partition(': "')[0]


def _field(text: str) -> str:
    if text == NOT_ANALYSED:
        return _("not analysed yet")
    if counted := _MENTIONS.fullmatch(text):
        n = int(counted[1])
        return ngettext("%(m)s mention", "%(m)s mentions", n) % {"m": grouped(n)}
    label = next((label for label in _LABELS if text.startswith(label)), "")
    return str(_LABELS[label]) % {"words": text.removeprefix(label)} if label else text
