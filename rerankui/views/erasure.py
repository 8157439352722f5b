"""Erasing a chat user, messages or a person: what would be erased, a word to type as confirmation, the progress, the
receipt. For admins. An erasure cannot be undone, and each page says so before anything is deleted."""

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.cache import never_cache

from memoryapp import erasure
from memoryapp.doors.api.recall import FilePieces
from memoryapp.erasure import Target, scanner
from memoryapp.intake import transfer
from memoryapp.models import ChatUser, Erasure, Finding, Message, Person, Role, Topic
from memoryapp.models.audit import Deed
from rerankui.frame.access import open_to
from rerankui.frame.pages import page_of, show


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What a person wants erased: the target, its name in a sentence, and where they came from."""

    target: Target
    what: str
    quoted: str
    back: str


@never_cache
@open_to(Role.ADMIN, post=Role.ADMIN, deed=Deed.ERASE)
def erase(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The question in numbers; posted with the name, the erasure begins and the worker carries it out."""
    context: dict[str, Any] = {"owner": owner, "counts": erasure.holding(owner), "sentence": ""}
    if request.method != "POST":
        return render(request, "pages/erasure/erase.html", context)
    if request.POST.get("name", "").strip() != owner.name:
        context["sentence"] = _("That is not the name; nothing was erased.")
        return render(request, "pages/erasure/erase.html", context, status=422)
    begun = erasure.begin_user(owner, request.user.get_username())
    return redirect("erasure", pk=begun.pk)


@never_cache
@open_to(Role.ADMIN, post=Role.ADMIN, deed=Deed.ERASE)
def erase_part(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    """The same for one ``message``, the messages of one ``topic``, or one ``person``, by their numbers, or for a
    ``project``."""
    wanted = _erasure_request(request, owner)
    word = pgettext("word to type", "erase")
    context: dict[str, Any] = {"owner": owner, "wanted": wanted, "sentence": "", "word": word}
    if request.method == "POST":
        if request.POST.get("word", "").strip().lower() == word:
            try:
                begun = erasure.begin(wanted.target, request.user.get_username())
            except erasure.NothingToErase as error:
                context["sentence"] = str(error)
            else:
                return redirect("erasure", pk=begun.pk)
        else:
            context["sentence"] = _("That is not the word; nothing was erased.")
    reach = erasure.reach_of(wanted.target)
    context |= {
        "counts": reach,
        "by_hand": Topic.objects.filter(pk__in=reach.rewritten, locked_by_hand=True).count(),
        # The other findings are counted as the rows they became.
        "waiting": Finding.objects.filter(pk__in=reach.findings, state=Finding.State.WAITING).count(),
        "files": erasure.discardable(owner.pk).count() if reach.messages else 0,
    }
    return render(request, "pages/erasure/erase_part.html", context, status=422 if context["sentence"] else 200)


def _erasure_request(request: HttpRequest, owner: ChatUser) -> ErasureRequest:
    if project := request.GET.get("project", ""):
        what = _("everything in the project %(name)s") % {"name": project}
        return ErasureRequest(Target.of_project(owner, project), what, "", f"/memory/{owner.pk}/")
    number = {noun: request.GET.get(noun, "") for noun in ("message", "topic", "person")}
    if number["message"].isdecimal():
        message = get_object_or_404(Message.objects.of(owner), pk=number["message"])
        back = f"/memory/{owner.pk}/messages/?at={message.pk}"
        return ErasureRequest(Target(owner.pk, (message.pk,)), _("this message"), message.text, back)
    if number["topic"].isdecimal():
        topic = get_object_or_404(Topic.objects.of(owner), pk=number["topic"])
        listed = tuple(Message.objects.filter(topicmessage__topic=topic).values_list("pk", flat=True))
        target = Target(owner.pk, listed, kind=Erasure.Kind.TOPIC)
        return ErasureRequest(target, _("every message of this topic"), topic.summary, f"/topics/{topic.pk}/")
    if number["person"].isdecimal():
        person = get_object_or_404(Person.objects.filter(owner=owner), pk=number["person"])
        target = Target(owner.pk, person=person.pk, kind=Erasure.Kind.PERSON)
        back = f"/memory/{owner.pk}/people/{person.pk}/"
        return ErasureRequest(target, _("what is known of this person"), person.display_name, back)
    raise Http404


@never_cache
@open_to(Role.ADMIN)
def receipts(request: HttpRequest) -> HttpResponse:
    # Those of masks are on the page of the guard.
    rows = Erasure.objects.exclude(kind__in=(Erasure.Kind.MASK, Erasure.Kind.UNMASK))
    page = page_of(request, rows.defer("marks", "touched", "messages"), ("-began_at",))
    return show(request, "pages/erasure/erasures.html", "partials/erasure/erasures.html", {"page": page})


@never_cache
@open_to(Role.ADMIN)
def receipt(request: HttpRequest, pk: int) -> HttpResponse:
    """How many rows went from each table by now. The page asks again by itself until the end."""
    found = get_object_or_404(Erasure, pk=pk)
    is_waiting = found.ended_at is None or found.verify_asked_at is not None or "name" in found.others
    remark = scanner.thinning(scanner.share_of(found.share, found.kind)) if found.mark_count else ""
    context = {"erasure": found, "is_waiting": is_waiting, "remark": remark}
    return render(request, "pages/erasure/erasure.html", context)


@open_to(post=Role.ADMIN)
def receipt_verify(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks the worker to look for what is left."""
    found = get_object_or_404(Erasure, pk=pk)
    Erasure.objects.filter(pk=found.pk).update(verify_asked_at=timezone.now())
    return redirect("erasure", pk=found.pk)


@never_cache
@open_to(Role.ADMIN, deed=Deed.EXPORT)
def receipt_file(request: HttpRequest, pk: int) -> HttpResponse:
    """The receipt to keep elsewhere, when its marks are final; ``verify_erasure`` takes it."""
    found = get_object_or_404(Erasure.objects.exclude(pk__in=erasure.uncompared().values("pk")), pk=pk)
    response = HttpResponse(erasure.dumped(found), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="erasure-{found.pk}.json"'
    return response


@never_cache
@open_to(Role.ADMIN, deed=Deed.EXPORT)
def export(request: HttpRequest, owner: ChatUser) -> Any:
    project = request.GET.get("project", "")
    return FilePieces(transfer.file_of(owner, project), "application/jsonl", "memory.jsonl")
