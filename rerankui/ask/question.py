"""The question box: one question, and two buttons that ask for an answer or for the memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import Promise

from memoryapp import past
from memoryapp.engine.strategies import ANSWERING, DEFAULT, PLAIN, PLANNING, REACT
from memoryapp.models import ChatUser, Message, Role, Run, Topic
from rerankui.access import operator_of
from rerankui.forms import AskForm, RecallForm
from rerankui.pages import PageContext
from rerankui.runs.page.answer_view import DOES, has_writer
from rerankui.web.moment import moment_of


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """A strategy in the form."""

    name: str
    does: Any
    is_chosen: bool
    is_off: bool


@dataclass(frozen=True, slots=True)
class QuestionBox(PageContext):
    """Both forms, of which one may be the one that was sent, and what the reader may do with them.

    ``topics`` counts those of the moment; ``may_write`` tells that answers come in a model's own words.
    """

    memory: ChatUser
    question: str
    form: AskForm
    recall_form: RecallForm
    query_errors: Sequence[str]
    other_errors: Sequence[str]
    choices: Sequence[StrategyChoice]
    choosing: Sequence[StrategyChoice]
    may_ask: bool
    not_allowed: str | Promise
    agent_is_off: bool
    may_write: bool
    topics: int
    is_past: bool
    is_begun: bool
    may_archive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPage(PageContext):
    """The context of a page with the question box, whose names it has beside its own.

    ``answers`` are those to one question, as HTML; ``memories_first`` puts the button for memories first.
    """

    box: QuestionBox
    answers: Sequence[tuple[Run, str]] = ()
    memories_first: bool = False

    def names(self, **more: Any) -> dict[str, Any]:
        return {**self.box.names(), **PageContext.names(self, **more)}


def usual_strategy() -> str:
    return REACT.name if settings.ENABLE_AGENT else PLAIN.name


def question_box(
    request: HttpRequest, memory: ChatUser, *, ask: AskForm | None = None, recall: RecallForm | None = None
) -> QuestionBox:
    query, moment = (ask or recall or AskForm())["query"].value() or "", moment_of(request)
    ask_form = ask or AskForm(initial={"query": query, "strategies": [usual_strategy()]})
    recall_form = recall or RecallForm(initial={"query": query})
    return QuestionBox(
        memory=memory,
        question=query,
        form=ask_form,
        recall_form=recall_form,
        query_errors=[*ask_form["query"].errors, *recall_form["query"].errors],
        other_errors=[
            *ask_form.non_field_errors(),
            *ask_form["strategies"].errors,
            *recall_form.non_field_errors(),
            *recall_form["strategy"].errors,
        ],
        choices=_answering(ask_form),
        choosing=_choosing(recall_form),
        may_ask=operator_of(request).may(Role.DEBUGGER),
        not_allowed=RecallForm.NOT_ALLOWED,
        agent_is_off=not settings.ENABLE_AGENT,
        may_write=has_writer(),
        topics=(past.topics_at(moment) if moment else Topic.objects.live()).filter(owner=memory).count(),
        is_past=moment is not None,
        is_begun=Message.objects.of(memory).active().exists(),
        may_archive=operator_of(request).may(Role.CURATOR),
    )


def _answering(form: AskForm) -> list[StrategyChoice]:
    chosen = form["strategies"].value() or []
    return [
        StrategyChoice(name, DOES.get(name, ""), name in chosen, name in PLANNING and not form.has_react)
        for name in form.STRATEGIES
    ]


def _choosing(form: RecallForm) -> list[StrategyChoice]:
    """Those that choose memories first, the others, which also answer, last."""
    chosen = form["strategy"].value() or DEFAULT.name
    names = sorted(form.strategies, key=lambda name: name in ANSWERING)
    return [StrategyChoice(name, DOES.get(name, ""), name == chosen, is_off=False) for name in names]
