"""What the palette offers beside rows of the memory: every page by its names, and actions.

An action is a link or a form that is sent at once; only those are offered that the operator may carry out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from memoryapp.models import Role, Run
from rerankui.frame import THEMES, PageFrame, Section
from rerankui.navigation import ELSEWHERE, OVERVIEW, SECTIONS, TABS, Destination
from rerankui.pages import is_partial

ASK_WORDS = ("ask ", "спроси ", "спросить ")
_LANGUAGE_ICON = "messages"


@dataclass(frozen=True, slots=True)
class Action:
    """``values`` are sent by a form; without them the action is a link."""

    label: str
    icon: str
    address: str
    values: Mapping[str, str] = field(default_factory=dict)
    also: str = ""
    is_download: bool = False


def pages(frame: PageFrame, words: str) -> list[Section]:
    """The pages whose names contain the words, exact names first; without words, the sections."""
    if not words:
        return frame.sections
    found = [(_nearness(words, str(place.label), str(place.also)), place) for place in _places()]
    near = sorted(((nearness, place) for nearness, place in found if nearness is not None), key=lambda pair: pair[0])
    shown = [section for _nearness, place in near if (section := frame.shown(place))]
    # A tab may have the address of its section.
    nearest: dict[str, Section] = {}
    for section in shown:
        nearest.setdefault(section.href, section)
    return [*nearest.values(), *_filter_lab(frame, words)]


def _places() -> list[Destination]:
    return [OVERVIEW, *SECTIONS.values(), *(tab for tabs in TABS.values() for tab in tabs), *ELSEWHERE]


def _nearness(words: str, label: str, also: str) -> int | None:
    """0 for the name itself, 1 for its beginning, 2 for a part of it, 3 for another word for it; else None."""
    sought, name = words.casefold(), label.casefold()
    if sought == name:
        return 0
    if name.startswith(sought):
        return 1
    if sought in name:
        return 2
    return 3 if len(sought) > 1 and sought in also.casefold() else None


def _filter_lab(frame: PageFrame, words: str) -> Iterator[Section]:
    """The filter lab belongs to a run: that of the latest run of this memory which has one."""
    label = _("Filter lab of the latest run")
    if frame.owner is None or _nearness(words, label, "") is None:
        return
    run = Run.objects.of(frame.owner).by_hand().filter(state=Run.State.FINISHED).order_by("-created_at").first()
    if run:
        yield Section("filter_lab", label, "adjustments", reverse("filter_lab", args=[run.pk]), is_current=False)


def actions(request: HttpRequest, frame: PageFrame, words: str) -> Sequence[Action]:
    """The actions whose names contain the words."""
    possible = [*_of_memory(frame), *_of_look(request, frame)]
    return [action for action in possible if not words or _nearness(words, action.label, action.also) is not None]


def _of_memory(frame: PageFrame) -> Iterator[Action]:
    operator, owner = frame.operator, frame.owner
    if operator is None:
        return
    if operator.may(Role.CURATOR):
        yield Action(_("New memory…"), "plus", reverse("memory_make"), also=_("chat user, import, create"))
    if owner is None:
        return
    if operator.may(Role.CURATOR):
        label = _("Archive the messages of %(owner)s now") % {"owner": owner}
        address = reverse("memory_work", args=[owner.pk])
        yield Action(label, "stack-2", address, {"archive": "now"}, also=_("make topics, archive now"))
    if operator.may(Role.ADMIN):
        label = _("Export the memory of %(owner)s") % {"owner": owner}
        yield Action(label, "file-text", reverse("export", args=[owner.pk]), also=_("download"), is_download=True)


def _of_look(request: HttpRequest, frame: PageFrame) -> Iterator[Action]:
    back = _page_behind(request)
    for key, theme in THEMES.items():
        if key != frame.theme:
            label = _("Theme: %(name)s") % {"name": theme}
            yield Action(label, "adjustments", reverse("theme"), {"theme": key, "next": back}, _("appearance, colours"))
    for code, language in settings.LANGUAGES:
        if code != getattr(request, "LANGUAGE_CODE", ""):
            label = pgettext("action", "Language: %(name)s") % {"name": language}
            values = {"language": code, "next": back}
            yield Action(label, _LANGUAGE_ICON, reverse("language"), values, "English Russian русский английский")


def _page_behind(request: HttpRequest) -> str:
    """The page over which the palette is open."""
    htmx = getattr(request, "htmx", None)
    return (htmx.current_url_abs_path if htmx and is_partial(request) else request.get_full_path()) or "/"


def question(frame: PageFrame, words: str) -> Action | None:
    """Asks the memory what was typed, at once."""
    asked = next((words[len(word) :] for word in ASK_WORDS if words.casefold().startswith(word)), words).strip()
    asked = asked.strip('“”"«»')
    may_ask = frame.operator is not None and frame.operator.may(Role.DEBUGGER)
    if frame.owner is None or not may_ask or len(asked) < 2:
        return None
    label = _("Ask the memory of %(owner)s: “%(question)s”") % {"owner": frame.owner, "question": asked}
    values = {"query": asked, "strategy": "flash"}
    return Action(label, "message-question", reverse("recall", args=[frame.owner.pk]), values)


def asks(words: str) -> bool:
    """Whether what was typed begins like a request to ask, so that the question comes first."""
    return words.casefold().startswith(ASK_WORDS) or words.endswith("?")
