"""A chat file from its upload to its import: its content, the answers and decisions of a person, the progress."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from memoryapp.curation import CurationError, history
from memoryapp.importers import FORMATS, NOBODY
from memoryapp.intake.imports import IMPORT
from memoryapp.intake.transfer import files
from memoryapp.memory import guard
from memoryapp.memory.content import projects_of
from memoryapp.models import (
    Artifact,
    ChatUser,
    Fact,
    GuardKind,
    ImportBatch,
    ImportFile,
    Message,
    Person,
    Role,
    Suggestion,
    Topic,
    TopicEdit,
)
from memoryapp.platform import work
from memoryapp.platform.accounts import operators
from memoryapp.platform.storage import NoSpace
from rerankui.frame import toasts
from rerankui.frame.access import open_to, operator_of, visible_owners
from rerankui.frame.forms import BadProject, MemoryForm, project_sent
from rerankui.frame.pages import page_of, show
from rerankui.frame.toasts import undo_address
from rerankui.history.entry_views import Rewording
from rerankui.pipeline.pipeline import panel_for
from rerankui.text.differences import difference
from rerankui.web import uploads
from rerankui.web.pages import zone_names

# How many places are named for a reason.
MOST_PLACES = 3
# How long the page of an imported file follows the making of topics by itself.
FOLLOWED = timedelta(minutes=30)
# What people are shown of a whole memory; the rest comes along with it.
_SHOWN = (Message, Topic, Fact, Person, Artifact, Suggestion, TopicEdit)


@csrf_exempt
@open_to(Role.CURATOR, post=Role.CURATOR)
def upload(request: HttpRequest, owner: ChatUser, ticket: str) -> HttpResponse:
    """Takes chat files over, each to be looked through by the worker; leads to the page of the last one."""
    if request.method != "POST":
        # Who had to sign in first comes back here without a file.
        return redirect("imports", owner.pk)
    there = _upload(request, owner, ticket)
    # A script follows the way itself, so that nothing is shown to it instead of to the person.
    return HttpResponse(status=201, headers={"Location": there}) if "X-Upload" in request.headers else redirect(there)


def _upload(request: HttpRequest, owner: ChatUser, ticket: str) -> str:
    """The address to go on at."""
    here = reverse("imports", args=[owner.pk])
    if not uploads.admits(ticket, owner.pk, int(request.user.pk or 0)):
        messages.error(request, _("This page was open for too long; choose the file once more."))
        return here
    try:
        with uploads.receive(request) as found:
            who = request.user.get_username()
            zone = timezone.get_current_timezone_name()
            staged = [files.stage(owner, file.path, file.name, who, zone) for file in found if file.size]
    except NoSpace as error:
        messages.error(request, str(error))
        return here
    if not staged:
        sentence = _("No file arrived: choose one of at most %(size)s that is not empty.")
        messages.error(request, sentence % {"size": largest_file()})
    return reverse("import_file", args=[owner.pk, staged[0].pk]) if len(staged) == 1 else here


def largest_file() -> str:
    """The largest size of a file that is accepted, in words."""
    most = int(settings.IMPORT_MAX_BYTES)
    return _("%(size)s MB") % {"size": most // 1_000_000} if most >= 1_000_000 else filesizeformat(most)


def upload_form(request: HttpRequest, owner: ChatUser) -> dict[str, Any]:
    return {
        "ticket": uploads.ticket(owner.pk, int(request.user.pk or 0)),
        "most_bytes": settings.IMPORT_MAX_BYTES,
        "most": largest_file(),
    }


@never_cache
@open_to(Role.VIEWER, post=Role.CURATOR)
def import_file(request: HttpRequest, owner: ChatUser, file: int) -> HttpResponse:
    """What is in the file, and when posted a person's answer or decision."""
    row = get_object_or_404(ImportFile, owner=owner, pk=file)
    if request.method == "POST":
        return _decide(request, owner, row)
    return render(request, "pages/imports/import_file.html", _context(request, row))


def _decide(request: HttpRequest, owner: ChatUser, row: ImportFile) -> HttpResponse:
    deed = request.POST.get("do", "")
    try:
        if deed == "answer":
            files.answer(row, **_answers(request, row))
        elif deed in _DEEDS:
            if deed in ("begin", "take"):
                project = project_sent(request.POST.get("project") or row.project)
                ImportFile.objects.filter(pk=row.pk).update(project=project)
            _DEEDS[deed](row)
            if deed in ("begin", "take", "resume") and (paused := work.pause_sentence(IMPORT, owner)):
                messages.warning(request, paused)
    except (files.FileActionRefused, BadProject) as error:
        messages.error(request, str(error))
    if deed == "discard" and not ImportFile.objects.filter(pk=row.pk).exists():
        messages.success(request, _("%(name)s was removed.") % {"name": row.source})
        return redirect("imports", owner.pk)
    return redirect("import_file", owner.pk, row.pk)


# The orders of day, month and year that a person may name.
_DATE_ORDERS = ("dmy", "mdy")

_DEEDS: dict[str, Callable[[ImportFile], None]] = {
    "begin": partial(files.begin, takes_changes=False),
    "take": partial(files.begin, takes_changes=True),
    "resume": files.begin,
    "pause": files.pause,
    "discard": files.discard,
}


def _answers(request: HttpRequest, row: ImportFile) -> dict[str, Any]:
    """The answers among what was posted. Raises Refused."""
    posted, answers = request.POST, dict[str, Any]()
    if "me" in posted:
        answers["me"] = posted["me"].strip()[:200]
    if "timezone" in posted:
        answers["timezone"] = posted["timezone"]
        if posted["timezone"] not in _zones(row):
            raise files.FileActionRefused(_("Choose a time zone from the list."))
    if posted.get("dates") in _DATE_ORDERS:
        answers["dates"] = posted["dates"]
    if "start" in posted:
        answers["start"] = _date(posted["start"])
    if "period" in posted:
        answers["since"] = _day(posted.get("since", ""))
        answers["until"] = _day(posted.get("until", ""), days=1)
    if "chats" in posted:
        answers["chats"] = _chosen_chats(posted.getlist("chat"), row)
    if "addressee" in posted:
        answers["addressee"] = posted["addressee"].strip()[:200]
        if answers["addressee"] == ImportFile.EVERYBODY and not _may_fill_all(request, row):
            raise files.FileActionRefused(_("Only operators who may see every chat user can import for all of them."))
    return answers


def _zones(row: ImportFile) -> list[str]:
    """The zones to choose from; the file's own may have come from a browser that uses another name."""
    names = zone_names()
    return names if not row.timezone or row.timezone in names else [row.timezone, *names]


def _chosen_chats(ticked: list[str], row: ImportFile) -> list[str]:
    """The ids of the ticked chats; none if all are ticked, which also takes those that the page does not list."""
    listed = [chat["id"] for chat in row.findings.get("chats", ())]
    chosen = [id for id in listed if id in set(ticked)]
    if not chosen:
        raise files.FileActionRefused(_("Tick at least one chat."))
    return chosen if len(chosen) < len(listed) else []


def _day(given: str, *, days: int = 0) -> datetime | None:
    """The beginning of a day, or of one ``days`` later; None if nothing was given."""
    return _date(given) + timedelta(days=days) if given.strip() else None


def _date(given: str) -> datetime:
    try:
        day = parse_date(given)
    except ValueError:
        day = None
    if day is None or day.year < 1970:
        raise files.FileActionRefused(_("Give the date as in 2025-07-25."))
    return datetime.combine(day, time(), timezone.get_current_timezone()).astimezone(UTC)


def _may_fill_all(request: HttpRequest, row: ImportFile) -> bool:
    """Whether the person may write into the memories of all users the file names."""
    if operator_of(request).sees_everyone:
        return True
    names = {user["name"] for user in row.findings.get("users", ())}
    return len(names) < files.MOST_USERS and visible_owners(request).filter(name__in=names).count() == len(names)


def _context(request: HttpRequest, row: ImportFile) -> dict[str, Any]:
    findings, format = row.findings, FORMATS.get(row.format)
    # The speaker who is called as the memory is.
    names = {row.owner.name.casefold(), row.owner.display_name.casefold()}
    speakers = [speaker.get("author", "") for speaker in row.findings.get("speakers", ())]
    return {
        "owner": row.owner,
        "file": row,
        "found": findings,
        "question": _question(row),
        "first": _moment(findings.get("first")),
        "last": _moment(findings.get("last")),
        "samples": [{**sample, "at": _moment(sample["at"])} for sample in findings.get("samples", ())],
        "changes": [
            {
                **item,
                "rewordings": [Rewording("", changed)] if (changed := difference(item["old"], item["new"])) else (),
            }
            for item in findings.get("changes", ())
        ],
        "batches": files.batches(row) if row.state != ImportFile.State.REHEARSING else (),
        "percent": int(row.share * 100),
        "asks_who": bool(format and format.asks_who),
        "account": _account(findings),
        "chats": _listed_chats(row, request.GET.get("tick", "")),
        "rejections": _grouped(findings),
        "held": guard.held(row.owner).filter(batch__in=files.batches(row)).count(),
        "guarded": [(GuardKind(kind).label, count) for kind, count in findings.get("guarded", {}).items()],
        "may_choose": _may_choose(request, row),
        "projects": projects_of(row.owner),
        "until_day": row.until - timedelta(days=1) if row.until else None,
        "zones": _zones(row) if format and format.asks_zone and row.state == row.State.READY else (),
        "restores": _kinds(findings.get("restores", {})),
        "brings": _kinds(findings.get("brings", {})),
        "nobody": NOBODY,
        "everybody": ImportFile.EVERYBODY,
        "may_change": operator_of(request).may(Role.CURATOR),
        "may_fill_all": _may_fill_all(request, row),
        "likely": next((author for author in speakers if author and author.casefold() in names), ""),
        **_topics_made(row),
    }


def _topics_made(row: ImportFile) -> dict[str, Any]:
    """How far the topics of an imported chat are; ``is_followed`` while the page asks for what is new."""
    if row.state != row.State.DONE or row.addressee == ImportFile.EVERYBODY:
        return {"is_followed": row.is_worked_on}
    unfinished = work.unfinished(ChatUser.objects.filter(pk=row.owner_id))
    archive = next((item for item in unfinished if item.work.kind == work.ARCHIVE), None)
    paused = work.pause_sentence(work.ARCHIVE, row.owner)
    is_asked = bool(archive and (archive.is_going_on or archive.work.asked_at))
    return {
        "archive": archive,
        "archive_paused": paused,
        "is_followed": is_asked and not paused and row.at > timezone.now() - FOLLOWED,
        "topics": Topic.objects.of(row.owner).live().count(),
        "waiting": Message.objects.of(row.owner).active().count(),
    }


def _account(findings: dict[str, Any]) -> dict[str, int]:
    """What becomes of everything in the file; what another program made of the messages is counted with them."""
    brings, before, left_out = (sum(findings.get(key, {}).values()) for key in ("brings", "brought_before", "left_out"))
    account = {
        "new": findings.get("added", 0) + brings,
        "known": findings.get("skipped", 0) + before,
        "changed": findings.get("changed", 0),
        "rejected": findings.get("rejected", 0),
        "left_out": left_out,
    }
    return {"total": sum(account.values()), **account}


def _listed_chats(row: ImportFile, tick: str) -> list[dict[str, Any]]:
    """The chats of the file as the page lists them, each with whether it is ticked: as chosen, ``all`` or ``none``."""
    listed = row.findings.get("chats", ())
    ticked = {"all": {chat["id"] for chat in listed}, "none": set()}.get(tick, set(row.chats))
    takes_all = tick != "none" and not ticked
    return [{**chat, "last": _last(chat["last"]), "is_chosen": takes_all or chat["id"] in ticked} for chat in listed]


def _may_choose(request: HttpRequest, row: ImportFile) -> bool:
    """Whether a part of the file can be chosen: not of a whole memory, and not of memories without messages."""
    findings = row.findings
    is_whole = findings.get("restores") or (findings.get("brings") and not findings.get("messages"))
    return row.state == row.State.READY and not is_whole and operator_of(request).may(Role.CURATOR)


def _grouped(findings: dict[str, Any]) -> list[dict[str, Any]]:
    """Why something cannot be taken: each reason with the first places and the count."""
    places: dict[str, list[int | str]] = {}
    for item in findings.get("rejections", ()):
        places.setdefault(item["reason"], []).append(item["line"])
    counts = findings.get("rejected_reasons", {})
    groups = ((reason, lines, max(len(lines), counts.get(reason, 0))) for reason, lines in places.items())
    return [
        {"reason": reason, "places": lines[:MOST_PLACES], "count": count, "more": count > MOST_PLACES}
        for reason, lines, count in groups
    ]


def _last(text: str) -> datetime | None:
    """The time of a chat's last message; None if the file has something else there."""
    try:
        return parse_datetime(text)
    except ValueError:
        return None


def _kinds(counts: dict[str, int]) -> list[tuple[str, int]]:
    """What comes, perhaps beside messages: the kind in people's words, and how many."""
    kinds = ((model._meta.verbose_name_plural, str(model._meta.model_name)) for model in _SHOWN)
    return [(str(kind), counts[name]) for kind, name in kinds if counts.get(name)]


def _question(row: ImportFile) -> str:
    """What the file does not tell: who the user is, whose messages are meant, how it writes dates, or when it began."""
    if row.state != ImportFile.State.ASKING:
        return ""
    if "messages" in row.findings:
        return "start"
    return next((asked for asked in ("users", "dates") if asked in row.findings), "me")


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


# What became of each import, and the withdrawal of one, looked at in numbers before it is made.


MOST_FILES = 20


@open_to(Role.VIEWER)
def imports(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    page = page_of(request, ImportBatch.objects.filter(owner=owner), ("-started_at", "-id"))
    files = ImportFile.objects.filter(owner=owner).exclude(state=ImportFile.State.DONE)
    context = {
        "owner": owner,
        "page": page,
        "imports": history.imports(page.rows),
        "may_change": operator_of(request).may(Role.CURATOR),
        "files": files[:MOST_FILES],
        "more_files": max(0, files.count() - MOST_FILES),
        **upload_form(request, owner),
        **panel_for(owner),
    }
    return show(request, "pages/imports/imports.html", "partials/imports/imports.html", context)


@open_to(Role.CURATOR, post=Role.CURATOR)
def withdraw(request: HttpRequest, owner: ChatUser, batch: int) -> HttpResponse:
    """What withdrawing an import would do, in numbers, and when posted the withdrawal."""
    found = get_object_or_404(ImportBatch, owner=owner, pk=batch)
    context: dict[str, Any] = {"owner": owner, "batch": found, "sentence": ""}
    try:
        if request.method == "POST":
            reason = request.POST.get("reason", "").strip()
            edit = history.withdraw(owner, found, actor=request.user.get_username(), reason=reason)
            back = reverse("history", args=[owner.pk])
            sentence = _("Withdrew the import %(source)s") % {"source": found.source}
            toasts.add(request, sentence, undo_address(edit, back), _("Undo"))
            return redirect(back)
        context["numbers"] = history.withdrawal(owner, found)
    except CurationError as error:
        context["sentence"] = str(error)
    return render(request, "pages/imports/withdraw.html", context, status=409 if request.method == "POST" else 200)


# A new memory: a name, and the chat file with which it begins.


@open_to(Role.CURATOR, post=Role.CURATOR)
def memory_make(request: HttpRequest) -> HttpResponse:
    """The form of a new memory; a post makes it and leads to where its first file is given. A script that has the file
    already gets the address to which it may send it, or a sentence."""
    form = MemoryForm(request.POST if request.method == "POST" else None)
    has_script = "X-Upload" in request.headers
    if form.is_valid():
        made = operators.make_memory(form.cleaned_data["name"], operator_of(request), by=cast(User, request.user))
        if has_script:
            ticket = uploads.ticket(made.pk, int(request.user.pk or 0))
            there = reverse("import_upload", args=[made.pk, ticket])
            return HttpResponse(status=201, headers={"Location": there})
        messages.success(request, _("The memory of %(name)s exists now. Give it a chat.") % {"name": made})
        return redirect("imports", made.pk)
    if form.is_bound and has_script:
        return HttpResponse(
            " ".join(map(str, form.errors["name"])), status=422, content_type="text/plain; charset=utf-8"
        )
    context = {"form": form, "most_bytes": settings.IMPORT_MAX_BYTES, "most": largest_file()}
    return render(request, "pages/imports/memory_make.html", context, status=422 if form.is_bound else 200)
