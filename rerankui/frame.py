"""The frame of every page: the navigation, the chat-user switcher, the theme.

Everything is looked up when a template asks for it, so a fragment, which shows no frame, costs no query.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models import ChatUser, Finding, Operator, Role, Suggestion
from rerankui import toasts
from rerankui.access import operator_for
from rerankui.toasts import Toast

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

THEMES = {"auto": pgettext_lazy("theme", "system"), "light": _("light"), "dark": _("dark")}
MOST_OWNERS = 30
MOST_WAITING = 1_000

# name of the route, what the rail says, icon, whether the route is one chat user's
_SECTIONS = (
    ("overview", _("Overview"), "layout-dashboard", False),
    ("ask", pgettext_lazy("section", "Ask"), "message-question", True),
    ("recall", pgettext_lazy("section", "Recall"), "radar-2", True),
    ("runs", _("Runs"), "history", False),
    ("topics", _("Topics"), "stack-2", True),
    ("messages", _("Messages"), "messages", True),
    ("people", _("People"), "users", True),
    ("artifacts", _("Artifacts"), "paperclip", True),
    ("facts", _("Facts"), "bulb", True),
    ("review", pgettext_lazy("section", "Review"), "check", True),
    ("queue", _("Curate"), "checklist", True),
    ("history", _("History"), "clock", True),
    ("pipeline", _("Pipeline"), "hourglass", False),
    ("agents", pgettext_lazy("section", "Agents"), "robot", False),
    ("prompts", _("Prompts"), "terminal-2", False),
    ("embedding", pgettext_lazy("section", "Embedding"), "chart-dots", False),
    ("tokens", pgettext_lazy("section", "API tokens"), "lock", False),
)
_FOR_ADMINS = {"embedding", "tokens"}
# A phone's bar has room for five; the others are behind its last entry.
_ON_A_PHONE = {"overview", "recall", "runs", "topics", "queue"}
_SECTION_OF = {
    "memory": "overview",
    "memory_settings": "overview",
    "memory_work": "pipeline",
    "topic": "topics",
    "topic_pick": "topics",
    "resplit": "topics",
    "change": "topics",
    "change_effect": "topics",
    "topic_map": "topics",
    "merge": "topics",
    "suggestion": "queue",
    "finding": "review",
    "extraction": "facts",
    "undo": "history",
    "undo_preview": "history",
    "undo_change": "history",
    "undo_range": "history",
    "imports": "history",
    "import_file": "history",
    "withdraw": "history",
    "person": "people",
    "person_edit": "people",
    "person_add": "people",
    "person_delete": "people",
    "people_merge": "people",
    "fact": "facts",
    "fact_edit": "facts",
    "fact_add": "facts",
    "fact_delete": "facts",
    "artifact": "artifacts",
    "artifact_edit": "artifacts",
    "artifact_retry": "artifacts",
    "artifact_upload": "artifacts",
    "artifact_delete": "artifacts",
    "run": "runs",
    "answer": "ask",
    "source": "ask",
    "judge": "ask",
    "filter_lab": "runs",
    "filter_effect": "runs",
    "filter_preset": "runs",
    "evaluations": "runs",
    "evaluation": "runs",
    "memory_pipeline": "pipeline",
    "work": "pipeline",
    "agent_call": "agents",
    "prompt": "prompts",
    "prompt_version": "prompts",
    "prompt_diff": "prompts",
    "prompt_try": "runs",
    "embedding_change": "embedding",
    "embedding_similarities": "embedding",
    "token_make": "tokens",
    "token_revoke": "tokens",
}


@dataclass(frozen=True)
class Section:
    """``waiting`` is the number of decisions that are waiting there."""

    name: str
    label: str
    icon: str
    href: str
    is_current: bool
    waiting: int = 0

    @property
    def is_on_a_phone(self) -> bool:
        return self.name in _ON_A_PHONE


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
        return last or next(iter(self.owners), None)

    @property
    def current(self) -> str:
        match = self._request.resolver_match
        name = (match.url_name or "") if match else ""
        return _SECTION_OF.get(name, name)

    @property
    def owner_route(self) -> str:
        """The target of the switcher: the same section of the other chat user."""
        of_one = {name for name, _label, _icon, is_owned in _SECTIONS if is_owned}
        return self.current if self.current in of_one else "memory"

    @property
    def section(self) -> Section | None:
        """The section this page belongs to."""
        return next((section for section in self.sections if section.is_current), None)

    @property
    def behind_more(self) -> list[Section]:
        """The sections that a phone's bar has no room for."""
        return [section for section in self.sections if not section.is_on_a_phone]

    @property
    def is_behind_more(self) -> bool:
        return any(section.is_current for section in self.behind_more)

    @cached_property
    def sections(self) -> list[Section]:
        shown = [self._section(*section) for section in _SECTIONS] if self.operator else []
        return [section for section in shown if section]

    def _section(self, name: str, label: StrOrPromise, icon: str, is_owned: bool) -> Section | None:
        if is_owned and self.owner is None or name in _FOR_ADMINS and not self._is_admin:
            return None
        href = reverse(name, args=[self.owner.pk] if is_owned and self.owner else [])
        place = "#latest" if name == "messages" else ""
        waiting = self.suggestions if name == "queue" else self._findings if name == "review" else 0
        return Section(name, str(label), icon, href + place, name == self.current, waiting)

    @property
    def _is_admin(self) -> bool:
        return self.operator is not None and self.operator.may(Role.ADMIN)

    @cached_property
    def toasts(self) -> list[Toast]:
        return toasts.take(self._request)

    @cached_property
    def _findings(self) -> int:
        """How many findings of this chat user wait for a decision."""
        rows = Finding.objects.filter(owner=self.owner, state=Finding.State.WAITING)
        return len(rows.order_by()[:MOST_WAITING].values_list("pk")) if self.owner else 0

    @cached_property
    def suggestions(self) -> int:
        """How many suggestions of this chat user wait for a decision."""
        rows = Suggestion.objects.filter(owner=self.owner, state=Suggestion.State.OPEN)
        return len(rows.order_by()[:MOST_WAITING].values_list("pk")) if self.owner else 0


def frame(request: HttpRequest) -> dict[str, PageFrame]:
    return {"frame": PageFrame(request)}
