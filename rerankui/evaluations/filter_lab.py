"""The filter lab: the cuts of the strategy ``filter`` moved over a stored run's candidates, with no new search."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.candidates import Candidate
from memoryapp.engine.outline import Outline
from memoryapp.engine.parameters import Declaration
from memoryapp.engine.strategies.cuts import FATES, Cuts, Filtering, apply_cuts, presets_of
from memoryapp.engine.strategies.filter import similarities
from memoryapp.insight.evaluation import filter_lab as effect
from memoryapp.insight.evaluation import filter_lab as presets
from memoryapp.models import Role, Run
from memoryapp.runs import followers
from rerankui.frame.access import Request, open_to, operator_of, own_run_or_404
from rerankui.runs.page.filter_chart import FATE_NAMES, LABELS, chart


@dataclass(frozen=True, slots=True)
class Slider:
    name: str
    label: str | Promise
    value: float
    declared: Declaration

    @property
    def is_whole(self) -> bool:
        return self.declared.kind is int

    @property
    def step(self) -> str:
        return "1" if self.is_whole else "0.01"


@dataclass(frozen=True, slots=True)
class _Lab:
    """A stored run whose candidates have similarities, and where its filter cuts."""

    run: Run
    filtering: Filtering
    candidates: Mapping[str, Candidate]
    profile: str

    @property
    def cuts(self) -> Cuts:
        return self.filtering.cuts

    def context(self) -> dict[str, Any]:
        counts = self.filtering.counts
        shown = self.filtering.items[: max(self.filtering.initial + 10, 20)]
        counted = Counter(item.fate for item in self.filtering.items[len(shown) :])
        return {
            "run": self.run,
            "filtering": self.filtering,
            "chart": chart(self.filtering),
            "counts": [(fate, FATE_NAMES[fate], counts[fate]) for fate in FATES],
            "rows": [
                {"item": item, "candidate": self.candidates[item.id], "fate": FATE_NAMES[item.fate]} for item in shown
            ],
            "unshown": [(counted[fate], FATE_NAMES[fate]) for fate in FATES if counted[fate]],
            "presets": [
                (preset.title, urlencode(preset.values), preset, preset.cuts == self.cuts)
                for preset in presets.of_profile(self.profile, presets.profile_named(self.profile))
            ],
            "sliders": _sliders(self.cuts),
            "query": urlencode(asdict(self.cuts)),
            "most": effect.MOST,
            "best": max((item.similarity for item in self.filtering.items), default=0.0),
        }


@open_to(Role.VIEWER)
def filter_lab(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The page; the moving part alone where a slider asks for it."""
    lab = _lab(request, pk, request.GET)
    if cast(Request, request).htmx:
        return render(
            request,
            "partials/filter_lab/filter_result.html",
            {**lab.context(), "swapped": True, "may_save": _may_save(request)},
        )
    return _page(request, lab)


@open_to(Role.VIEWER)
def filter_effect(request: HttpRequest, pk: UUID) -> HttpResponse:
    """What these cuts would have kept in the latest runs and golden questions, beside the balanced ones."""
    lab = _lab(request, pk, request.GET)
    balanced = presets_of(lab.profile)["balanced"]
    measured = [
        (_("What models chose"), effect.on_choices(lab.run.owner, lab.profile, balanced, lab.cuts)),
        (_("Golden questions"), effect.on_golden_questions(lab.run.owner, lab.profile, balanced, lab.cuts)),
    ]
    context: dict[str, Any] = {"measured": measured, "is_balanced": lab.cuts == balanced}
    if cast(Request, request).htmx:
        return render(request, "partials/filter_lab/filter_effect.html", context)
    return _page(request, lab, **context)


@open_to(Role.DEBUGGER, post=Role.DEBUGGER)
def filter_preset(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Stores the thresholds under a name, for the run's embedding profile; opening the address leads to the lab."""
    lab = _lab(request, pk, request.POST or request.GET)
    if request.method != "POST":
        return _page(request, lab)
    profile = presets.profile_named(lab.profile)
    if profile is None:
        raise Http404
    try:
        saved = presets.save(profile, request.POST.get("name", ""), lab.cuts, operator_of(request).user.get_username())
    except presets.PresetError as error:
        return _page(request, lab, refused=str(error), typed=request.POST.get("name", ""), status=422)
    names = [preset.name for preset in presets.of_profile(lab.profile, profile)]
    # A browser focuses the link that the fragment names, instead of going on at the page's start.
    fragment = f"preset-{names.index(saved.name) + 1}"
    return redirect(f"{reverse('filter_lab', args=[pk])}?{urlencode(saved.values)}#{fragment}")


def _page(request: HttpRequest, lab: _Lab, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        **lab.context(),
        "memory": lab.run.owner,
        "profile": lab.profile,
        "may_save": _may_save(request),
        "measured": None,
        **more,
    }
    return render(request, "pages/filter_lab.html", context, status=status)


def _lab(request: HttpRequest, pk: UUID, given: Mapping[str, Any]) -> _Lab:
    """Raises Http404 for a run that has no similarities: it found nothing yet, or compared words alone."""
    run = own_run_or_404(request, pk)
    outline = Outline.of([stored.event for stored in followers.stored(pk)])
    if not outline.found or not outline.started or outline.found.by_words_alone:
        raise Http404(_("This run compared no vectors, so there are no similarities to filter."))
    asked = {**outline.started.parameters, **{name: given[name] for name in given}}
    filtering = apply_cuts(
        similarities(outline.found), presets.cuts_in(asked, presets_of(outline.started.profile)["balanced"])
    )
    candidates = {candidate.id: candidate for candidate in outline.found.candidates}
    return _Lab(run, filtering, candidates, outline.started.profile)


def _may_save(request: HttpRequest) -> bool:
    return operator_of(request).may(Role.DEBUGGER)


def _sliders(cuts: Cuts) -> list[Slider]:
    declared = presets.bounds()
    return [Slider(name, LABELS[name], getattr(cuts, name), declared[name]) for name in LABELS]
