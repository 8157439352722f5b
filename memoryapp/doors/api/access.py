"""Access to the API: a token needs the right scope, and opens the memories of its chat users.

Anything that a token may not see is answered as if it did not exist. All processes together count the requests of a
token against ``API_RATE``.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import unquote

from django.conf import settings
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder
from ninja.security import HttpBearer
from pydantic import BaseModel

from memoryapp.doors.api.shapes.fields import LARGEST_ID, Answer, ErrorAnswer, PendingAnswer, RequestRefused
from memoryapp.engine.cells import enter
from memoryapp.engine.sight import OutOfSight, Sight, as_project, limited_to, look, sight
from memoryapp.importers.values import clean
from memoryapp.memory import content, guard
from memoryapp.models import ApiToken, ChatUser, Run
from memoryapp.models.audit import Deed, Door
from memoryapp.platform import cells
from memoryapp.platform.accounts import tokens
from memoryapp.platform.accounts.tokens import Allowances, Grant
from memoryapp.platform.audit import entries
from memoryapp.platform.database import in_thread

Scope = ApiToken.Scope
Row = TypeVar("Row", bound=Model)
# For programs that need Authorization for the key of a provider.
TOKEN_HEADER = "X-Mnemoscope-Token"
# One project of the memory, and what is common to all, for everything that the request reads and writes.
PROJECT_HEADER = "X-Mnemoscope-Project"

# What the audit log calls a request, by the first scope that admits it; one with GET reads.
_DEEDS = {Scope.RECALL: Deed.ASK, Scope.INGEST: Deed.CHANGE, Scope.CURATE: Deed.CHANGE, Scope.FORGET: Deed.ERASE}

_allowances = Allowances()


class Token(HttpBearer):
    """Admits a request whose token has one of these scopes; the grant is then the request's ``auth``.

    If ``of_all`` is given, a token with that scope is also admitted if it opens every memory. The header
    ``X-Mnemoscope-Token`` takes the place of ``Authorization``, where that one holds the key of a provider. ``deed`` is
    what the audit log calls the request, if neither its method nor the scopes say it. What concerns the ``whole``
    memory is refused where only some projects are seen.
    """

    def __init__(
        self, *scopes: Scope, of_all: Scope | None = None, deed: Deed | None = None, whole: bool = False
    ) -> None:
        super().__init__()
        self.scopes = scopes
        self.of_all = of_all
        self.deed = deed
        self.whole = whole

    def __call__(self, request: HttpRequest) -> Any:
        named = request.headers.get(TOKEN_HEADER)
        return self.authenticate(request, named.strip()) if named else super().__call__(request)

    def check(self, request: HttpRequest, text: str) -> Grant | None:
        """Returns what the text opens; in a thread of the database."""
        return tokens.check(text)

    async def authenticate(self, request: HttpRequest, token: str) -> Grant | None:
        grant = await in_thread(lambda: _counted(self.check(request, token)))
        if grant:
            is_of_all = self.of_all is not None and grant.opens_all and grant.may(self.of_all)
            if not is_of_all and not any(grant.may(scope) for scope in self.scopes):
                needed = " or ".join(self.scopes)
                raise RequestRefused(403, f"This token may not do that: it needs the scope {needed}.")
            self._begin_audit(request, grant)
            look(limited_to(grant.token.projects))
            if named := unquote(request.headers.get(PROJECT_HEADER, "")):
                look(within(named))
            if self.whole:
                check_whole(grant)
        return grant

    def _begin_audit(self, request: HttpRequest, grant: Grant) -> None:
        match = request.resolver_match
        by_method = Deed.READ if request.method == "GET" else _DEEDS.get(self.scopes[0], Deed.READ)
        door = Door.CHAT if match and match.url_name == "complete" else Door.HTTP
        what = entries.named(f"{request.method} /{match.route}", match.kwargs) if match else ""
        entries.begin(who(grant), door, self.deed or by_method, what, request)


def who(grant: Grant) -> str:
    """What the audit log calls a token: its name may be one of the chat user, who can be erased."""
    return f"{grant.token.prefix}…"


def check_whole(grant: Grant) -> None:
    """Raises RequestRefused where only some projects of the memory are seen."""
    if grant.token.projects is not None:
        raise RequestRefused(403, "This concerns the whole memory, and this token is limited to projects.")
    if sight().projects is not None:
        raise RequestRefused(422, f"This concerns the whole memory: send it without {PROJECT_HEADER}.")


def within(project: str) -> Sight:
    """The sight of that project as the request names it, or else of the one in which the token writes. Raises
    RequestRefused for one that the token may not see."""
    try:
        return sight().within(as_project(project) or sight().into)
    except ValueError as error:
        raise RequestRefused(422, f"project: {error}.") from None
    except OutOfSight as seen:
        raise RequestRefused(403, f"This token is limited to projects; name one of them: {seen}.") from None


def grant_of(request: HttpRequest) -> Grant:
    """Returns the grant of a request whose token ``Token`` has checked."""
    return cast(Grant, cast(Any, request).auth)


def _counted(grant: Grant | None) -> Grant | None:
    """Returns the grant. Raises RequestRefused if too many requests came with its token."""
    if grant and (wait := _allowances.wait(grant.token.pk)):
        most, seconds = settings.API_RATE
        raise RequestRefused(429, f"More than {most} requests in {seconds:g} s; slow down.", wait=wait)
    return grant


def owner_named(grant: Grant, name: str) -> ChatUser | None:
    """Returns the chat user of that name, or None if it does not exist or the token does not open its memory."""
    owner = grant.visible_owners().filter(name=clean(name)).first()
    if owner is not None:
        entries.saw(owner.pk)
        enter(owner.cell)
    return owner


def owner_or_404(grant: Grant, name: str) -> ChatUser:
    """Like ``owner_named``, but raises RequestRefused instead of returning None, and BeingErased during an erasure."""
    owner = owner_named(grant, name)
    if owner is None:
        if grant.opens_all and content.being_erased(clean(name)):
            raise content.BeingErased("This chat user is being erased.")
        raise RequestRefused(404, "There is no chat user of that name.")
    return owner


def row_or_404(grant: Grant, rows: QuerySet[Row], number: Any, noun: str) -> Row:
    """Returns the row of that number in a memory that the token opens. Raises RequestRefused for any other number."""
    is_possible = not isinstance(number, int) or 0 <= number <= LARGEST_ID
    seen = rows.filter(owner__in=grant.visible_owners()).select_related("owner")
    row = cells.first(seen.filter(pk=number), number) if is_possible and number is not None else None
    if row is None:
        raise RequestRefused(404, f"There is no {noun}.")
    entries.saw(cast(Any, row).owner_id)
    return row


# What all answers share: the description for OpenAPI, from rows and values to shapes, and the paging of lists.

ALWAYS = (401, 403, 429, 503)

Shape = TypeVar("Shape", bound=Answer)
Given = ParamSpec("Given")


def described(answer: type[BaseModel] | None, *refusals: int) -> dict[Any, Any]:
    """Returns the statuses of an endpoint for its description, including those that any endpoint may answer; 202 is
    no refusal but says that the work goes on."""
    pending = {202: PendingAnswer} if 202 in refusals else {}
    return {200: answer, **pending, frozenset({*ALWAYS, *refusals} - {202}): ErrorAnswer}


class WholeTimes(NinjaJSONEncoder):
    """Writes times with microseconds and zone."""

    def default(self, o: Any) -> Any:
        return o.isoformat() if isinstance(o, datetime) else super().default(o)


class UnescapedJSON(JSONRenderer):
    """JSON with unescaped Cyrillic."""

    encoder_class = WholeTimes
    json_dumps_params: Mapping[str, Any] = {"ensure_ascii": False}


async def answered(shape: type[Shape], work: Callable[Given, Any], *args: Given.args, **named: Given.kwargs) -> Shape:
    """Returns what the work gives, in the shape of an answer. Both are made in a thread of the database: attributes of
    rows may have to be read."""
    return await in_thread(lambda: shape.model_validate(work(*args, **named)))


def handed_over(shape: type[Shape], given: Any, run: Run) -> Shape:
    """What a run gives, in the shape of an answer as an assistant may have it."""
    answer, change = shape.model_validate(given), guard.handing_over(run.owner)

    def changed(value: Any) -> Any:
        if isinstance(value, BaseModel):
            texts = {name: each for name in value.model_fields_set if (each := getattr(value, name)) and name != "id"}
            return value.model_copy(update={name: changed(each) for name, each in texts.items()})
        if isinstance(value, list | tuple):
            return type(value)(map(changed, value))
        return change(value, ()) if change and isinstance(value, str) else value

    return cast(Shape, changed(answer)) if change else answer


def written(answer: Answer, request: HttpRequest | None = None) -> str:
    """Returns the answer as JSON, as an endpoint sends it."""
    values = answer.model_dump(by_alias=True, exclude_unset=True, context={"request": request})
    return json.dumps(values, cls=WholeTimes, ensure_ascii=False)


def page_of(rows: QuerySet[Row], limit: int) -> tuple[list[Row], Row | None]:
    """Returns the first ``limit`` rows, and the last of them if more follow: the next page begins after it."""
    found = list(rows[: limit + 1])
    page = found[:limit]
    return page, page[-1] if len(found) > limit else None


def values_of(answer: Answer, request: HttpRequest | None = None) -> dict[str, Any]:
    """Returns the answer as values of JSON."""
    values: dict[str, Any] = json.loads(written(answer, request))
    return values
