"""Endpoints as plain functions: each gets the grant of a request and what its other parameters name, and returns what
the shape of its answer is read from. Other doors call the same functions."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from django.http import HttpRequest

from memoryapp.doors.api.access import answered, described, grant_of
from memoryapp.doors.api.shapes.fields import Answer

Work = TypeVar("Work", bound=Callable[..., Any])
_REQUEST = Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=HttpRequest)


def serves(
    method: Callable[..., Any], path: str, id: str, answer: type[Answer], *refusals: int, **described_as: Any
) -> Callable[[Work], Work]:
    """Serves the function, in a thread of the database, by a method of a router such as ``router.get``; its docstring
    describes the endpoint, ``refusals`` are the statuses that it may refuse with, ``described_as`` is for the router.
    """

    def served(work: Work) -> Work:
        async def endpoint(request: HttpRequest, **asked: Any) -> Answer:
            return await answered(answer, work, grant_of(request), **asked)

        _grant, *parameters = signature(work).parameters.values()
        endpoint.__name__, endpoint.__doc__ = work.__name__, work.__doc__
        endpoint.__signature__ = Signature([_REQUEST, *parameters])  # type: ignore[attr-defined]
        method(path, operation_id=id, response=described(answer, *refusals), **described_as)(endpoint)
        return work

    return served
