"""The frame of every page: the navigation, the chat-user switcher, the theme.

Everything is looked up when a template asks for it, so a fragment, which shows no frame, costs no query.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from django.conf import settings
from django.http import HttpRequest
from django.urls import resolve, reverse
from django.utils import timezone
from django.utils.translation import get_language, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.curation.suggestions.inbox import Waiting, waiting_in
from memoryapp.engine.cells import within
from memoryapp.models import ChatUser, Operator, Role
from memoryapp.platform import cells
from memoryapp.platform.accounts.operators import operator_for
from memoryapp.upkeep import demo
from rerankui.frame import toasts
from rerankui.frame.navigation import GROUPS, ON_A_PHONE, OVERVIEW, SECTIONS, TABS, Destination, section_of, tab_of
from rerankui.frame.toasts import Toast
from rerankui.past.pages import PastHead

DENSITIES = {"roomy": pgettext_lazy("density", "comfortable"), "dense": pgettext_lazy("density", "compact")}
THEMES = {"auto": pgettext_lazy("theme", "system"), "light": _("light"), "dark": _("dark")}
MOST_OWNERS = 30
CLOSED_COOKIE = "closed_groups"


@dataclass(frozen=True)
class Section:
    """``waiting`` is the number of decisions that are waiting there."""

    name: str
    label: str
    icon: str
    href: str
    is_current: bool
    waiting: int = 0


@dataclass(frozen=True)
class SectionGroup:
    name: str
    label: str
    sections: list[Section]
    is_open: bool


class PageFrame:
    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @property
    def theme(self) -> str:
        chosen = self._request.COOKIES.get("theme", "")
        return chosen if chosen in THEMES else "auto"

    @property
    def themes(self) -> list[tuple[str, str]]:
        return [(key, str(label)) for key, label in THEMES.items()]

    @property
    def density(self) -> str:
        """How closely the rows of lists stand."""
        chosen = self._request.COOKIES.get("density", "")
        return chosen if chosen in DENSITIES else "roomy"

    @property
    def zone(self) -> str:
        """The time zone of all times on the page, as its browser named it."""
        return timezone.get_current_timezone_name()

    @property
    def densities(self) -> list[tuple[str, str]]:
        return [(key, str(label)) for key, label in DENSITIES.items()]

    @property
    def is_demo(self) -> bool:
        """Whether everybody may look, and nothing is changed."""
        return bool(settings.DEMO_READ_ONLY)

    @cached_property
    def operator(self) -> Operator | None:
        """None on the sign-in page and for a user who is no operator: the frame is then empty."""
        return operator_for(self._request.user) if hasattr(self._request, "user") else None

    @cached_property
    def owners(self) -> list[ChatUser]:
        """The first chat users by name, one more than the switcher lists."""
        return list(ChatUser.objects.seen_by(self.operator)[: MOST_OWNERS + 1]) if self.operator else []

    @property
    def listed_owners(self) -> list[ChatUser]:
        return self.owners[:MOST_OWNERS]

    @property
    def has_more_owners(self) -> bool:
        return len(self.owners) > MOST_OWNERS

    @cached_property
    def owner(self) -> ChatUser | None:
        """The chat user of this page, else the last one looked at, else the first."""
        here = getattr(self._request, "owner", None)
        if here is not None or self.operator is None:
            return here
        last = ChatUser.objects.seen_by(self.operator).filter(pk=self._request.session.get("owner", 0)).first()
        return last or self._of_the_readers_language or next(iter(self.owners), None)

    @property
    def _of_the_readers_language(self) -> ChatUser | None:
        name = demo.FIRST.get(get_language() or "")
        return next((owner for owner in self.owners if owner.name == name), None)

    @property
    def _address(self) -> str:
        """As its pattern says it: ``memory/<int:owner_id>/people/``."""
        return self._request.resolver_match.route if self._request.resolver_match else "/none"

    @cached_property
    def past(self) -> PastHead | None:
        """The moment whose memory is shown, and the choice of another; None without a memory."""
        match = self._request.resolver_match
        return PastHead(self._request, (match and match.url_name) or "", self.owner) if self.owner else None

    @property
    def current(self) -> str:
        return section_of(self._address)

    @property
    def owner_route(self) -> str:
        """The target of the switcher: the same section of the other chat user."""
        place = SECTIONS.get(self.current)
        return place.name if place and place.of_memory else "memory"

    @property
    def section(self) -> Section | None:
        return next((section for section in self.sections if section.is_current), None)

    @cached_property
    def groups(self) -> list[SectionGroup]:
        """The sections below the overview; a group is open unless the browser remembers that it was closed."""
        closed = self._request.COOKIES.get(CLOSED_COOKIE, "").split(".")
        groups = [
            SectionGroup(group.name, str(group.label), self._sections(*group.sections), group.name not in closed)
            for group in GROUPS
        ]
        return [group for group in groups if group.sections]

    @cached_property
    def sections(self) -> list[Section]:
        return [*self._sections("overview"), *(section for group in self.groups for section in group.sections)]

    @property
    def on_a_phone(self) -> list[Section]:
        return [section for section in self.sections if section.name in ON_A_PHONE]

    @property
    def behind_more(self) -> list[Section]:
        """The sections that a phone's bar has no room for."""
        return [section for section in self.sections if section.name not in ON_A_PHONE]

    @property
    def is_behind_more(self) -> bool:
        return any(section.is_current for section in self.behind_more)

    @cached_property
    def tabs(self) -> list[Section]:
        """The tabs of this page's section, if it has several for this operator."""
        if self.section is None:
            return []
        tabs = [
            self.shown(place, is_current=place.name == tab_of(self._address)) for place in TABS.get(self.current, ())
        ]
        found = [tab for tab in tabs if tab]
        return found if len(found) > 1 else []

    @property
    def tab(self) -> Section | None:
        """The tab on which this page is, unless it is the first."""
        return next((tab for tab in self.tabs[1:] if tab.is_current), None)

    def _sections(self, *names: str) -> list[Section]:
        found = [self._section(name, OVERVIEW if name == "overview" else SECTIONS[name]) for name in names]
        return [section for section in found if section]

    def _section(self, name: str, place: Destination) -> Section | None:
        section = self.shown(place, is_current=name == self.current)
        return replace(section, name=name) if section else None

    def shown(self, place: Destination, *, is_current: bool = False) -> Section | None:
        """A place with its address; None where the operator may not go, or where there is no chat user yet."""
        if self.operator is None or not self.operator.may(place.role) or (place.of_memory and self.owner is None):
            return None
        href = reverse(place.name, args=[self.owner.pk] if place.of_memory and self.owner else [])
        if self.operator.projects is not None and getattr(resolve(href).func, "whole", False):
            return None
        href += "#latest" if place.name == "messages" else ""
        return Section(place.name, str(place.label), place.icon, href, is_current, self._waiting(place.name))

    def _waiting(self, name: str) -> int:
        counts = {
            "inbox": lambda: self.waiting.total,
            "queue": lambda: self.waiting.suggestions,
            "review": lambda: self.waiting.findings,
            "failures": lambda: self.waiting.failures,
            "misses": lambda: self.waiting.misses,
        }
        return counts[name]() if name in counts else 0

    @property
    def may_make_memory(self) -> bool:
        return self.operator is not None and self.operator.may(Role.CURATOR)

    @cached_property
    def toasts(self) -> list[Toast]:
        return toasts.take(self._request)

    @cached_property
    def waiting(self) -> Waiting:
        """What waits for a decision in this memory."""
        if self.owner is None:
            return Waiting()
        owner = self.owner
        with within(owner.cell):
            return next(iter(cells.tried(lambda: waiting_in(owner))), Waiting())

    @property
    def unreached(self) -> int:
        """How many cells could not be asked for what is above this on the page."""
        return len(cells.unreached())


def frame(request: HttpRequest) -> dict[str, PageFrame]:
    return {"frame": PageFrame(request)}
