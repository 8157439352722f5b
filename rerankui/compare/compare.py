"""Runs compared: two side by side, more as a matrix; and what a run may be compared with."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.curation.suggestions import proposals
from memoryapp.curation.suggestions.proposals import ProposalError
from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.outline import Outline
from memoryapp.engine.prompts.rerank import RERANK
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.engine.strategies.react.answering import ANSWER
from memoryapp.insight.compare import stability
from memoryapp.insight.compare.comparison import MOST_RUNS, CompareError, compare, meanwhile
from memoryapp.insight.compare.stability import MOST_WAYS, AskedModel, Cause, Causes, start_many
from memoryapp.models import ChatUser, Prompt, Role, Run
from memoryapp.models.audit import Deed
from memoryapp.platform.audit import entries
from memoryapp.runs import forks
from memoryapp.runs.lifecycle import LONGEST_QUERY
from memoryapp.runs.replays import ForkError
from memoryapp.runs.runner import runner
from rerankui.compare.pair import LEGEND, SORTS, STATE_WORDS, matrix_of, pair_of
from rerankui.frame.access import open_to, operator_of, own_run_or_404, run_or_404, visible_owners
from rerankui.frame.forms import AskForm, RecallForm
from rerankui.frame.pages import is_partial, show

# How many runs are proposed of each kind.
PROPOSED = 8


@open_to(Role.VIEWER)
def compared(request: HttpRequest) -> HttpResponse:
    """Two runs, or a matrix of more; a matrix is also shown while some of its runs go on."""
    runs = _runs(request)
    context: dict[str, Any] = {"runs": runs, "memory": runs[0].owner if runs else None}
    ended = [run for run in runs if run.is_finished]
    context["going"] = len(runs) - len(ended)
    try:
        comparison = compare(ended if len(runs) > 2 else runs)
    except CompareError as error:
        context["error"] = "" if len(runs) > 2 and context["going"] else str(error)
        return _shown(request, context, 422 if context["error"] else 200)
    if len(runs) > 2:
        context["matrix"] = matrix_of(comparison, request.GET.get("sort", ""))
        context["is_one_query"] = len({run.query for run in runs}) == 1
        context |= {"sorts": SORTS, "legend": [(name, STATE_WORDS[name]) for name in LEGEND]}
    else:
        a, b = comparison.runs
        context |= {
            "pair": pair_of(comparison),
            "divergence": comparison.divergence,
            "meanwhile": None if a.is_foreign and b.is_foreign else meanwhile(a, b),
            "left_out": comparison.left_out,
        }
    return _shown(request, context)


def _shown(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    return show(request, "pages/compare/compare.html", "partials/compare/compare.html", context, status=status)


def _runs(request: HttpRequest) -> list[Run]:
    """The runs that the address names, in its order. Raises Http404 for one that is not there or may not be seen."""
    named = list(dict.fromkeys(_id(given) for given in request.GET.getlist("run")[: MOST_RUNS + 1]))
    seen = Run.objects.filter(owner__in=visible_owners(request), pk__in=named).select_related("owner", "prompt")
    found = {run.pk: run for run in seen}
    if len(found) < len(named):
        raise Http404
    for run in found.values():
        entries.saw(run.owner_id)
    return [found[pk] for pk in named]


def _id(given: str) -> UUID:
    try:
        return UUID(given.strip())
    except ValueError as error:
        raise Http404 from error


@open_to(Role.VIEWER)
def run_compare(request: HttpRequest, pk: UUID) -> HttpResponse:
    """What this run may be compared with: the run that it was forked from, its forks, earlier runs of the question."""
    run = run_or_404(request, pk)
    context = {"run": run, "memory": run.owner, "proposals": list(_proposals(run))}
    return show(request, "pages/compare/choose.html", "partials/compare/choose.html", context)


def _proposals(run: Run) -> list[dict[str, Any]]:
    """Runs that it may be compared with, and why."""
    ended = Run.objects.of(run.owner_id).by_hand().filter(state=Run.State.FINISHED).exclude(pk=run.pk)
    ended = ended.select_related("owner", "prompt")
    kinds: list[tuple[str | Promise, Q]] = [
        (_FORKED_FROM, Q(pk=run.parent_id)),
        (_FORKS, Q(parent=run)),
        (_SAME_QUESTION, Q(query=run.query)),
        (_LATEST, Q()),
    ]
    proposed: list[dict[str, Any]] = []
    seen = {run.pk}
    for why, condition in kinds:
        found = [each for each in ended.filter(condition)[: PROPOSED + len(seen)] if each.pk not in seen][:PROPOSED]
        seen |= {each.pk for each in found}
        proposed += [{"why": why, "runs": found}] if found else []
    return proposed


_FORKED_FROM = gettext_lazy("The run that it was forked from")
_FORKS = gettext_lazy("Its forks")
_SAME_QUESTION = gettext_lazy("Other runs of this question")
_LATEST = gettext_lazy("The latest runs of this memory")


# The stability lab of a run: the same question again, unchanged or with what should not matter changed.


USUAL = 5
# Of what the address of the form carries, in characters; servers refuse addresses that are much longer.
_LONGEST_ADDRESS, _LONGEST_FIELD = 1_000, 60
KIND_WORDS: Mapping[str, str | Promise] = {
    "same": _("unchanged"),
    "shuffled": _("candidates shuffled"),
    "without_first": _("without the first candidate"),
    "unrewritten": _("without the enricher"),
    "paraphrased": _("paraphrased"),
    "prompted": _("with another prompt"),
}


@open_to(Role.VIEWER, post=Role.VIEWER, deed=Deed.ASK)
def run_lab(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The form with its cost, and the repetitions that there are; a partial answer is one of both."""
    run = own_run_or_404(request, pk)
    if not run.is_finished:
        raise Http404
    typed = request.POST if request.method == "POST" else request.GET
    made = stability.repetitions(run)
    events = forks.events_of(run)
    context: dict[str, Any] = {"run": run, "memory": run.owner, "typed": typed, "most": stability.MOST_TIMES}
    # Opened, the form proposes the simplest; a form that was sent says by itself what is ticked.
    is_sent = request.method == "POST" or not {"times", "kind"}.isdisjoint(typed)
    kinds = typed.getlist("kind") if is_sent else ["same"]
    times = typed.get("times", str(USUAL))
    error = ""
    try:
        count = int(times) if times.isdecimal() and len(times) < 4 else 0
        wanted = stability.WantedRepetitions(kinds, count, typed.get("paraphrases", ""), typed.get("prompt", ""))
        planned = stability.plan(run, events, wanted, made) if kinds else None
        if request.method == "POST":
            return _begun(request, run, planned)
        context["planned"] = planned
    except (CompareError, ForkError) as refused:
        error = str(refused)
    context["error"] = error
    if is_partial(request) and "times" in request.GET:
        return render(request, "partials/compare/lab_cost.html", context)
    outline = Outline.of(events)
    context |= {
        "kinds": [(kind, KIND_WORDS[kind], kind in kinds) for kind in stability.kinds_of(run, events)],
        "times": times,
        "prompts": stability.other_prompts(events),
        "can_paraphrase": proposals.is_model_connected(),
        "may_ask": operator_of(request).may(Role.DEBUGGER),
        "has_filter": outline.found is not None and not outline.found.by_words_alone,
    }
    context |= _results(request, run, made)
    page = "partials/compare/lab_results.html" if is_partial(request) else "pages/compare/lab.html"
    return render(request, page, context, status=422 if error and request.method == "POST" else 200)


@open_to(Role.VIEWER, post=Role.DEBUGGER)
def run_paraphrases(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Lets the model word the question otherwise, and leads back to the form, where its lines stand below those that
    were typed and can be edited before anything is asked; opening it leads there, too."""
    run = own_run_or_404(request, pk)
    return _paraphrased(request, run) if request.method == "POST" else redirect("run_lab", pk=run.pk)


def _paraphrased(request: HttpRequest, run: Run) -> HttpResponse:
    typed = request.POST.copy()
    lines = [line.strip() for line in typed.get("paraphrases", "").splitlines() if line.strip()]
    try:
        lines += proposals.paraphrases_proposed(run.owner, run.query, operator_of(request).user.get_username())
    except ProposalError as refused:
        messages.error(request, str(refused))
    kinds = dict.fromkeys([*typed.getlist("kind"), "paraphrased"])
    pairs = [("kind", kind) for kind in kinds if kind in stability.KINDS]
    pairs += [(name, typed.get(name, "")[:_LONGEST_FIELD]) for name in ("times", "prompt") if typed.get(name)]
    pairs += [("paraphrases", "\n".join(dict.fromkeys(lines))[:_LONGEST_ADDRESS])]
    return redirect(f"{reverse('run_lab', args=[run.pk])}?{urlencode(pairs)}")


def _begun(request: HttpRequest, run: Run, planned: stability.PlannedRepetitions | None) -> HttpResponse:
    """Raises CompareError, ForkError, and PermissionDenied."""
    if not operator_of(request).may(Role.DEBUGGER):
        raise PermissionDenied(RecallForm.NOT_ALLOWED)
    if request.POST.get("stop"):
        stability.stop(run, operator_of(request).user.get_username())
    elif planned is None:
        raise CompareError(str(_("Choose what to repeat.")))
    else:
        for fork in stability.begin(run, planned, operator_of(request).user):
            runner.launch(fork.pk)
    return redirect("run_lab", pk=run.pk)


def _results(request: HttpRequest, run: Run, made: list[Run]) -> dict[str, Any]:
    """The matrix of the run and its repetitions, the share of each topic, and the position bias."""
    ended = [fork for fork in made if fork.is_finished]
    context: dict[str, Any] = {"going": len(made) - len(ended), "made": made}
    if not ended:
        return context
    comparison = compare([run, *ended])
    counts = stability.counted(ended)
    always, sometimes = stability.steadiness(comparison.topics, comparison.runs)
    shuffled = [fork for fork in ended if stability.kind_of(fork) == "shuffled"]
    return context | {
        "matrix": matrix_of(comparison, request.GET.get("sort", "")),
        "sorts": SORTS,
        "legend": [(name, STATE_WORDS[name]) for name in LEGEND],
        "counts": [(KIND_WORDS[kind], counts[kind]) for kind in stability.KINDS if counts.get(kind)],
        "always": always,
        "sometimes": sometimes,
        "bias": stability.position_bias(comparison.topics, shuffled),
        "shuffled": len(shuffled),
    }


# One question asked in several ways at once; the runs lead to their comparison.

LISTED_PROMPTS = 12
_COMPARABLE = (RERANK.name, ENRICH.name, ANSWER.name)


class SeveralForm(forms.Form):
    query = forms.CharField(max_length=LONGEST_QUERY, error_messages={"required": _("Type a question.")})
    strategies = forms.MultipleChoiceField(
        choices=[(name, name) for name in STRATEGIES],
        error_messages={"required": _("Choose a strategy."), "invalid_choice": _("There is no such strategy.")},
    )
    models = forms.CharField(max_length=4_000, required=False)
    prompts = forms.ModelMultipleChoiceField(Prompt.objects.filter(name__in=_COMPARABLE), required=False)

    def clean_models(self) -> Sequence[str]:
        """One name a line, each once."""
        lines = (line.strip()[:200] for line in self.cleaned_data["models"].splitlines())
        return list(dict.fromkeys(line for line in lines if line))


@open_to(Role.VIEWER, post=Role.VIEWER, deed=Deed.ASK)
def several(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    may_ask = operator_of(request).may(Role.DEBUGGER)
    initial: dict[str, Any] = {"query": request.GET.get("q", ""), "strategies": ["flash", "vector"]}
    form = SeveralForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and not may_ask:
        form.add_error(None, AskForm.NOT_ALLOWED)
    elif form.is_bound and form.is_valid():
        try:
            runs = start_many(owner, **form.cleaned_data, operator=operator_of(request).user)
        except CompareError as error:
            form.add_error(None, str(error))
        else:
            for run in runs:
                runner.launch(run.pk)
            return redirect(f"{reverse('compare')}?{urlencode([('run', str(run.pk)) for run in runs])}")
    context = {
        "memory": owner,
        "form": form,
        "may_ask": may_ask,
        "chosen": [str(each) for each in form["strategies"].value() or []],
        "ticked": [str(each) for each in form["prompts"].value() or []],
        "strategies": list(STRATEGIES),
        "prompts": Prompt.objects.filter(name__in=_COMPARABLE).order_by("-made_at")[:LISTED_PROMPTS],
        "has_models": proposals.is_model_connected(),
        "most": MOST_WAYS,
    }
    status = 403 if form.is_bound and not may_ask else 422 if form.is_bound else 200
    return render(request, "pages/compare/several.html", context, status=status)


# Which of the two changed an answer, in a sentence.

SENTENCES: Mapping[Cause, str | Promise] = {
    "none": _("Nothing changed it: the memory and the model of now choose the same."),
    "memory": _("The memory changed it: the model of then, too, chooses otherwise over the memory of now."),
    "model": _("The model changed it: over the memory of then, too, that of now chooses otherwise."),
    "either": _("Both changed it: the memory of now and the model of now, each alone, are enough to choose otherwise."),
    "both": _("Only both together changed it: neither the memory nor the model alone makes a difference."),
    "luck": _(
        "Asked again over the memory of then by the model of then, it already chooses otherwise: the choice is not"
        " steady, or rested on talk that was in no topic yet. The stability lab shows how steady it is."
    ),
    "failed": _("In one of them the model failed, so nothing can be concluded. Ask again what is missing."),
    "unknown": "",
}
_SAME = _("The memory changed it: the model and the prompt are the same as then.")


def sentence_of(found: Causes) -> str | Promise:
    """Empty as long as not all is asked."""
    return _SAME if found.cause == "memory" and found.is_one_model else SENTENCES[found.cause]


def model_words(asked: AskedModel) -> str | Promise:
    if not asked.name:
        return _("no model is asked")
    return f"{asked.name} · {asked.prompt}" if asked.prompt else asked.name


# What changed an answer: the memory or the model, as two by two forks of a run.


@open_to(Role.VIEWER, post=Role.VIEWER)
def run_causes(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The table with what it would cost, or what it shows; posted, what is missing is asked, or all of it again."""
    run = run_or_404(request, pk)
    if not run.is_finished:
        raise Http404
    events, operator = forks.events_of(run), operator_of(request)
    context: dict[str, Any] = {"run": run, "memory": run.owner, "may_ask": operator.may(Role.DEBUGGER)}
    try:
        if request.method == "POST":
            if not operator.may(Role.DEBUGGER):
                raise PermissionDenied(RecallForm.NOT_ALLOWED)
            for fork in stability.begin_causes(run, events, operator.user, again="again" in request.POST):
                runner.launch(fork.pk)
            return redirect("run_causes", pk=run.pk)
        found = stability.causes(run, events)
        cells = {(cell.memory, cell.model): cell for cell in found.cells}
        context |= {
            "found": found,
            "sentence": sentence_of(found),
            "models": [(when, found.models[when], model_words(found.models[when])) for when in ("then", "now")],
            "rows": [(memory, [cells[memory, model] for model in ("then", "now")]) for memory in ("then", "now")],
            "faults": list(dict.fromkeys(model.fault for model in found.models.values() if model.fault)),
            "cost": stability.forecast(found, events) if found.missing else None,
            "count": len(stability.distinct(found)),
        }
    except (CompareError, ForkError) as refused:
        context["error"] = str(refused)
    page = "partials/compare/causes.html" if is_partial(request) else "pages/compare/causes.html"
    return render(request, page, context, status=422 if "error" in context and request.method == "POST" else 200)
