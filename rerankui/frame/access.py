"""Access: decides who may see what. Every view asks here; none filters by itself.

A row of a chat user whom the operator may not see gets the same answer as a row that does not exist: 404. A person who
is signed in without being an operator is refused with a sentence, because an admin can change that.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.http.request import HttpHeaders
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django_htmx.middleware import HtmxDetails

from memoryapp.engine.cells import enter
from memoryapp.models import AgentCall, ChatUser, Message, Operator, Role, Run, Topic
from memoryapp.models.audit import Deed, Door
from memoryapp.platform import cells
from memoryapp.platform.accounts import signing_in
from memoryapp.platform.accounts.operators import operator_for
from memoryapp.platform.audit import entries
from rerankui.web.moment import PastMoment, past_of, refusal

View = Callable[..., Any]
Row = TypeVar("Row", bound=Model)


class Request(HttpRequest):
    """A request as the middleware and this module leave it."""

    htmx: HtmxDetails
    operator: Operator
    owner: ChatUser
    past: PastMoment


def operator_of(request: HttpRequest) -> Operator:
    """The operator who made the request. Raises PermissionDenied for a user who is no operator."""
    asked = cast(Request, request)
    if not hasattr(asked, "operator"):
        operator = operator_for(request.user)
        if operator is None:
            raise PermissionDenied(_("Your account is not an operator yet. An admin can make it one."))
        asked.operator = operator
        operator.only_reads = past_of(request) is not None
        signing_in.note(request)
    return asked.operator


def open_to(
    read: Role | None = None, *, post: Role | None = None, deed: Deed | None = None, whole: bool = False
) -> Callable[[View], View]:
    """Lets operators with the role ``read`` get the page, and those with the role ``post`` send to it; refuses others
    with 403, and other methods with 405. A view whose address names a memory is given its ``owner``, or 404 is.

    ``deed`` is what the audit log calls a request that is sent or, where nothing can be, one for the page. A page that
    concerns the ``whole`` memory is closed to operators who are limited to projects."""
    roles = {"GET": read, "HEAD": read, "POST": post}

    def decorate(view: View) -> View:
        @require_http_methods([method for method, role in roles.items() if role])
        @wraps(view)
        def gated(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            _check(request, cast(Role, roles[request.method or ""]))
            if whole:
                check_whole(request)
            begin_audit(request, deed if deed and (request.method == "POST" or not post) else None)
            if "owner_id" in kwargs:
                kwargs = {"owner": owner_or_404(request, kwargs.pop("owner_id")), **kwargs}
            answer = view(request, *args, **kwargs)
            entries.end()
            return answer

        cast(Any, gated).whole = whole
        return gated

    return decorate


def check_whole(request: HttpRequest) -> None:
    """Raises PermissionDenied for an operator who is limited to projects."""
    if operator_of(request).projects is not None:
        raise PermissionDenied(_("This concerns the whole memory, and you see only some projects of it."))


def _check(request: HttpRequest, role: Role) -> None:
    operator = operator_of(request)
    if operator.only_reads and not operator.may(role):
        raise PermissionDenied(refusal())
    if not operator.may(role):
        raise PermissionDenied(_("This needs the role “%(role)s”.") % {"role": role.label})


def begin_audit(request: HttpRequest, deed: Deed | None = None) -> None:
    """Tells the audit log who asks for which address; a list asked for as a file is an export."""
    match = request.resolver_match
    is_sent, is_file = request.method == "POST", request.GET.get("format") in ("csv", "json", "jsonl")
    deed = deed or (Deed.CHANGE if is_sent else Deed.EXPORT if is_file else Deed.READ)
    what = entries.named((match.url_name or "").partition("_")[0], match.kwargs) if match else ""
    entries.begin(request.user.get_username(), Door.PAGE, deed, what, request)


def visible_owners(request: HttpRequest) -> QuerySet[ChatUser]:
    return ChatUser.objects.seen_by(operator_of(request))


def owner_or_404(request: HttpRequest, pk: int) -> ChatUser:
    """The chat user, who becomes the one that the frame shows."""
    return remember(request, get_object_or_404(visible_owners(request), pk=pk))


def message_or_404(request: HttpRequest, pk: int) -> Message:
    return row_or_404(request, Message.objects.all(), pk)


def topic_or_404(request: HttpRequest, pk: int) -> Topic:
    return row_or_404(request, Topic.objects.all(), pk)


def run_or_404(request: HttpRequest, pk: uuid.UUID) -> Run:
    """A run with its owner, and the operator or token that started it."""
    return row_or_404(request, Run.objects.select_related("operator"), pk)


def own_run_or_404(request: HttpRequest, pk: uuid.UUID) -> Run:
    """``run_or_404`` for what needs the memory that the run searched: not for runs of other programs."""
    run = run_or_404(request, pk)
    if run.is_foreign:
        raise Http404
    return run


def agent_call_or_404(request: HttpRequest, pk: int) -> AgentCall:
    return row_or_404(request, AgentCall.objects.all(), pk)


def row_or_404(request: HttpRequest, rows: QuerySet[Row], pk: int | uuid.UUID) -> Row:
    """The row, in whichever cell it lies, with its owner, whose memory the page is then about."""
    seen = rows.filter(owner__in=visible_owners(request), pk=pk)
    row = cells.first(seen.select_related("owner"), pk)
    if row is None:
        raise Http404
    remember(request, cast(Any, row).owner)
    return row


def remember(request: HttpRequest, owner: ChatUser) -> ChatUser:
    """Pages without a chat user of their own (the runs, the overview) keep showing the last one."""
    entries.saw(owner.pk)
    enter(owner.cell)
    cast(Request, request).owner = owner
    if request.session.get("owner") != owner.pk:
        request.session["owner"] = owner.pk
    return owner


def run_still_seen_by(session_key: str | None, pk: uuid.UUID) -> bool:
    """Whether the present user of the session, perhaps signed out or with another role by now, may see this run."""
    return _owner_of_run(signing_in.user_of(session_key), pk) is not None


def run_seen_by(user: AbstractBaseUser | AnonymousUser, pk: uuid.UUID, scope: Mapping[str, Any]) -> bool:
    """Whether this user may look at this run, for the socket of this ``scope``, which has no request."""
    number = _owner_of_run(user, pk)
    if number is not None:
        request, headers = HttpRequest(), {key.decode(): value.decode("latin-1") for key, value in scope["headers"]}
        request.META = HttpHeaders.to_wsgi_names(headers) | {"REMOTE_ADDR": (scope.get("client") or [""])[0]}
        entries.begin(user.get_username(), Door.PAGE, Deed.READ, f"run {pk}", request)
        entries.saw(number)
    return number is not None


def _owner_of_run(user: AbstractBaseUser | AnonymousUser, pk: uuid.UUID) -> int | None:
    operator = operator_for(user)
    if operator is None:
        return None
    run = cells.first(Run.objects.filter(owner__in=ChatUser.objects.seen_by(operator), pk=pk).only("owner"), pk)
    return run.owner_id if run else None
