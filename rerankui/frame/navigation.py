"""The navigation: sections in groups, the tabs of a section, and which section an address belongs to. It says where
everything is; ``frame.py`` shows it to the operator of a request, and the palette finds it by name."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryapp.models import Role


@dataclass(frozen=True, slots=True)
class Destination:
    """A page that the navigation or the palette leads to. ``name`` is its route, ``also`` are other words by which the
    palette finds it. ``of_memory`` says that the address contains the chat user."""

    name: str
    label: str | Promise
    icon: str
    of_memory: bool = False
    role: Role = Role.VIEWER
    also: str | Promise = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Sections under one heading; ``name`` is what the browser remembers when it is closed."""

    name: str
    label: str | Promise
    sections: tuple[str, ...]


GROUPS = (
    Group("ask", pgettext_lazy("group", "Ask"), ("ask", "runs", "evaluations")),
    Group(
        "memory",
        pgettext_lazy("group", "Memory"),
        ("topics", "messages", "people", "facts", "artifacts", "quality", "imports"),
    ),
    Group("todo", pgettext_lazy("group", "To do"), ("inbox", "history")),
    Group("system", pgettext_lazy("group", "System"), ("pipeline", "prompts", "access", "webhooks", "settings")),
)
OVERVIEW = Destination("overview", _("Overview"), "layout-dashboard", also=_("home, start, chat users"))
SECTIONS: Mapping[str, Destination] = {
    "ask": Destination(
        "ask", pgettext_lazy("section", "Ask"), "message-question", True, also=_("question, answer, recall")
    ),
    "runs": Destination("runs", _("Runs"), "history", also=_("replay, filter lab, fork")),
    "evaluations": Destination("evaluations", _("Evaluate"), "chart-dots", also=_("evaluations, golden questions")),
    "topics": Destination("topics", _("Topics"), "stack-2", True),
    "messages": Destination("messages", _("Messages"), "messages", True, also=_("chat, search")),
    "people": Destination("people", _("People"), "users", True),
    "facts": Destination("facts", _("Facts"), "bulb", True),
    "artifacts": Destination("artifacts", _("Artifacts"), "paperclip", True, also=_("files, documents")),
    "quality": Destination("quality", _("Quality"), "zoom-in", True, also=_("gaps, coverage, duplicates, statistics")),
    "imports": Destination("imports", _("Import"), "database-import", True, also=_("imports, upload, chat file")),
    "inbox": Destination("inbox", _("Inbox"), "checklist", True, also=_("to do, decisions")),
    "history": Destination("history", _("History"), "clock", True, also=_("undo, changes")),
    "pipeline": Destination("pipeline", _("Pipeline"), "hourglass", also=_("background work, worker, costs")),
    "prompts": Destination("prompts", _("Prompts"), "terminal-2"),
    "access": Destination("tokens", pgettext_lazy("section", "Access"), "lock", role=Role.ADMIN),
    "webhooks": Destination(
        "webhooks", _("Webhooks"), "share-3", role=Role.ADMIN, also=_("events, notifications, alarm")
    ),
    "settings": Destination("memory_settings", pgettext_lazy("section", "Settings"), "adjustments", True, Role.CURATOR),
}
TABS: Mapping[str, tuple[Destination, ...]] = {
    "inbox": (
        Destination("inbox", pgettext_lazy("tab", "All"), "checklist", True),
        Destination("clusters", _("Clusters"), "stack-2", True, also=_("similar topics, merge many")),
        Destination("queue", _("Suggestions"), "arrows-join", True, also=_("curate, queue, merge, split")),
        Destination("review", _("Findings"), "bulb", True, also=_("review, archivist, facts, people")),
        Destination(
            "contradictions", _("Contradictions"), "switch-horizontal", True, also=_("facts, conflict, both true")
        ),
        Destination("misses", _("Misses"), "zoom-in", True, also=_("forgot, wrong answer, repair, why not")),
        Destination("failures", _("Failures"), "alert-triangle", True, also=_("errors, faults")),
    ),
    "pipeline": (
        Destination("pipeline", _("Pipeline"), "hourglass"),
        Destination("alarms", _("Alarms"), "alert-triangle", also=_("trouble, heartbeat, silence, rhythm")),
        Destination(
            "agents", pgettext_lazy("section", "Agents"), "robot", also=_("splitter, merger, archivist, endpoint")
        ),
        Destination(
            "embedding", pgettext_lazy("section", "Embedding"), "chart-dots", role=Role.ADMIN, also=_("vectors")
        ),
    ),
    "access": (
        Destination("tokens", pgettext_lazy("section", "API tokens"), "lock", role=Role.ADMIN),
        Destination("audit", _("Audit log"), "history", role=Role.ADMIN, also=_("who read what, sign-ins, trail")),
        Destination("operators", _("Operators"), "users", role=Role.ADMIN, also=_("users, roles, passwords, access")),
    ),
    "settings": (
        Destination(
            "memory_settings", _("Memory settings"), "adjustments", True, Role.CURATOR, _("sessions, consolidation")
        ),
        Destination(
            "guard", _("What must not be stored"), "lock", True, Role.VIEWER, _("guard, secrets, masks, personal data")
        ),
        Destination("expiry", _("What expires"), "clock", True, Role.VIEWER, _("retention, rules, age, stale, expiry")),
        Destination("erase", _("Export and erase"), "eraser", True, Role.ADMIN, _("delete, download, backup")),
        Destination("erasures", _("Receipts of erasures"), "file-text", role=Role.ADMIN),
    ),
}
# Pages that only the palette names.
ELSEWHERE = (
    Destination("memory", _("This memory at a glance"), "layout-dashboard", True),
    Destination(
        "bulk", _("Work on many topics"), "refresh", True, Role.CURATOR, _("summaries again, split again, bulk")
    ),
    Destination("miss_report", _("Report a miss"), "alert-triangle", True, Role.DEBUGGER, _("forgot, this was wrong")),
    Destination("topic_map", _("Map of topics"), "chart-dots", True),
    Destination("expiry_all", _("What expires in all memories"), "clock", role=Role.ADMIN, also=_("retention, rules")),
    Destination("run_open", _("Open a run’s file"), "file-text"),
    Destination("run_times", _("Times and costs"), "chart-dots", also=_("latency, p95, slow runs, dollars a day")),
    Destination("account", _("Your account"), "user-circle", also=_("sessions, sign out")),
    Destination("password", _("Change the password"), "lock"),
)
# A phone's bar has room for five; the others are behind its last entry.
ON_A_PHONE = ("overview", "ask", "runs", "topics", "inbox")
# Where an address belongs whose first word, behind that of its memory, is the name of no section and of no tab.
_PLACES: Mapping[str, str] = {
    "": "overview",
    "new": "overview",
    "runs/answer": "ask",
    "recall": "ask",
    "compare": "runs",
    "several": "runs",
    "golden": "evaluations",
    "nights": "evaluations",
    "change": "topics",
    "map": "topics",
    "merge": "topics",
    "bulk": "topics",
    "sessions": "messages",
    "extraction": "facts",
    "edits": "history",
    "inbox/clusters": "clusters",
    "inbox/failures": "failures",
    "work": "pipeline",
    "pipeline/alarms": "alarms",
    "settings": "memory_settings",
    "export": "erase",
}
_SECTION_OF = {tab.name: section for section, tabs in TABS.items() for tab in tabs}


def tab_of(address: str) -> str:
    """The tab to which an address belongs, as its pattern says it; its section where that has no tabs."""
    steps = [step for step in address.removeprefix("memory/").split("/") if step and not step.startswith("<")]
    first = steps[0] if steps else ""
    return _PLACES.get("/".join(steps[:2])) or _PLACES.get(first, first)


def section_of(address: str) -> str:
    """The section to which an address belongs; its first word if it belongs to none."""
    return _SECTION_OF.get(tab_of(address), tab_of(address))
