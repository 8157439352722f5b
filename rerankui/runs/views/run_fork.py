"""The editor of a fork: what a run's model was sent in a turn, and what may be changed there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from memoryapp.curation.suggestions import proposals
from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.events import Event, PromptMessage, TurnStarted
from memoryapp.engine.offline import scorer
from memoryapp.engine.outline import Outline
from memoryapp.engine.parameters import Declaration, declarations
from memoryapp.engine.strategies import ANSWERING, STRATEGIES
from memoryapp.models import Role, Run
from memoryapp.models.audit import Deed
from memoryapp.platform.llm import prompt_versions
from memoryapp.runs import forks
from memoryapp.runs.parameters import ParameterError
from memoryapp.runs.replays import CHANGES, ForkError, is_search_replayed
from memoryapp.runs.runner import runner
from rerankui.frame.access import Request, open_to, operator_of, own_run_or_404
from rerankui.frame.forms import RecallForm
from rerankui.frame.pages import show

_LISTED = ("candidates", "without")


@dataclass(frozen=True, slots=True)
class OwnParameter:
    """A parameter of the run's strategy, with its value in the run and the one that was typed."""

    declaration: Declaration
    value: str
    typed: str

    @property
    def is_changed(self) -> bool:
        return self.typed != self.value


@dataclass(frozen=True, slots=True)
class ForkEditor:
    """What the page shows. ``label`` is the prompt of the turn's conversation, ``prompts`` are all its versions,
    ``model`` is the one that the run asked, ``rewritten`` what its enricher made of the query."""

    run: Run
    turn: int
    turns: Sequence[int]
    messages: Sequence[PromptMessage]
    variables: Mapping[str, str]
    label: str
    prompts: Sequence[str]
    parameters: Sequence[OwnParameter]
    shows_candidates: bool
    shows_past: bool
    forecast: forks.Forecast
    may_fork: bool
    has_models: bool
    model: str
    typed: Mapping[str, str]
    rewritten: str = ""
    error: str = ""

    @property
    def has_changed_parameters(self) -> bool:
        return any(each.is_changed for each in self.parameters)

    @property
    def is_without_its_model(self) -> bool:
        """Whether a chat model was asked from here on, and none can be asked now."""
        asks = bool(self.messages or self.forecast.turns)
        return asks and not self.has_models and self.model not in ("", scorer.MODEL)

    @property
    def answers(self) -> bool:
        """Whether the strategy ends with words."""
        return self.run.strategy in ANSWERING

    @property
    def prompt_name(self) -> str:
        return self.label.partition("-")[0]


@open_to(Role.VIEWER, post=Role.VIEWER, deed=Deed.ASK)
def run_fork(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The editor at the ``turn`` that the address names; a fork that it makes goes on live on its own page."""
    parent = own_run_or_404(request, pk)
    events = forks.events_of(parent)
    error = ""
    if request.method == "POST":
        if not operator_of(request).may(Role.DEBUGGER):
            raise PermissionDenied(RecallForm.NOT_ALLOWED)
        try:
            return _forked(request, parent, events)
        except (ForkError, ParameterError) as refused:
            error = str(refused)
    editor = _editor(request, parent, events, error)
    context = {"fork": editor, "run": parent}
    return show(
        request, "pages/runs/run_fork.html", "partials/runs/fork/editor.html", context, status=422 if error else 200
    )


def _forked(request: HttpRequest, parent: Run, events: Sequence[Event]) -> HttpResponse:
    turn = _turn(request, events)
    fork = forks.fork(
        parent, turn=turn, changes=_changes(request.POST, parent, events, turn), operator=operator_of(request).user
    )
    runner.launch(fork.pk)
    if cast(Request, request).htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": reverse("run", args=[fork.pk])})
    return redirect("run", pk=fork.pk)


def _turn(request: HttpRequest, events: Sequence[Event]) -> int:
    """The turn that is asked for; the first one, if any, for an address that names none."""
    asked = request.POST.get("turn") or request.GET.get("turn", "")
    turns = _turns(events)
    return int(asked) if asked.isdecimal() and len(asked) < 6 else min(1, len(turns) - 1)


def _typed(request: HttpRequest) -> Mapping[str, str]:
    """What the form contains: what was sent, or what the address fills in."""
    return request.POST if request.method == "POST" else request.GET


def _turns(events: Sequence[Event]) -> range:
    """Where the run can be forked: before the query is rewritten, and at each turn."""
    return range(max(sum(isinstance(event, TurnStarted) for event in events), 1) + 1)


def _changes(typed: Mapping[str, str], parent: Run, events: Sequence[Event], turn: int) -> dict[str, Any]:
    """What was typed and differs from the run."""
    line = Outline.of(events).enriched
    own = {"query": parent.query, "prompt": _label(events, turn), "rewrite": line.enriched if line else ""}
    given = {name: typed.get(name, "").strip() for name in CHANGES if name != "parameters"}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value and value != own.get(name)}
    changes |= {name: changes[name].replace(" ", ",").split(",") for name in _LISTED if name in changes}
    changes |= {name: [each for each in changes[name] if each] for name in _LISTED if name in changes}
    parameters = {
        each.declaration.name: each.typed
        for each in _parameters(parent, typed)
        if each.typed != each.value and (each.typed or not each.declaration.is_number)
    }
    return {**changes, **({"parameters": parameters} if parameters else {})}


def _parameters(parent: Run, typed: Mapping[str, str]) -> list[OwnParameter]:
    strategy = STRATEGIES.get(parent.strategy)
    declared = declarations(strategy.parameters).values() if strategy else ()
    known = [(each, str(parent.parameters.get(each.name, each.default))) for each in declared]
    return [OwnParameter(each, value, typed.get(f"p_{each.name}", value).strip()) for each, value in known]


def _label(events: Sequence[Event], turn: int) -> str:
    """The prompt of the conversation to which the turn belongs; of the enricher's for turn 0."""
    line = Outline.of(events).enriched
    if turn == 0:
        return line.prompt_version if line else ""
    opened = [e.prompt_version for e in events if isinstance(e, TurnStarted) and e.turn <= turn and e.prompt_version]
    return opened[-1] if opened else ""


def _rewrites(parent: Run) -> bool:
    strategy = STRATEGIES.get(parent.strategy)
    return strategy is not None and ENRICH in strategy.prompts


def _versions(label: str) -> list[str]:
    """The labels of all versions of the prompt, the built-in one last."""
    name, _dash, rest = label.partition("-")
    language = rest.partition("-")[0]
    if not language:
        return []
    return [*map(str, prompt_versions.history((name, language))), f"{name}-{language}-0"]


def _editor(request: HttpRequest, parent: Run, events: Sequence[Event], error: str) -> ForkEditor:
    turn, outline = _turn(request, events), Outline.of(events)
    line = outline.enriched
    started = next((e for e in events if isinstance(e, TurnStarted) and e.turn == turn), None)
    label = _label(events, turn)
    return ForkEditor(
        run=parent,
        turn=turn,
        turns=_turns(events),
        messages=started.prompt if started else (),
        variables=line.variables if line and turn == 0 else {},
        label=label,
        prompts=_versions(label),
        parameters=_parameters(parent, _typed(request)),
        shows_candidates=turn == 1 and is_search_replayed(events),
        shows_past=turn < 2 and is_search_replayed(events),
        forecast=forks.forecast(events, turn),
        may_fork=operator_of(request).may(Role.DEBUGGER) and parent.is_finished,
        has_models=proposals.is_model_connected(),
        model=outline.started.model if outline.started else "",
        typed=_typed(request),
        rewritten=line.enriched if line and turn < 2 and _rewrites(parent) else "",
        error=error,
    )
