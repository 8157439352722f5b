"""The quality of one memory, or of all that the operator may see: figures, each leading to the list that fixes it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memoryapp.curation.suggestions.proposals import is_model_connected
from memoryapp.insight.browsing.quality import Quality, qualities
from memoryapp.models import ChatUser, Role
from memoryapp.platform import cells
from rerankui.frame.access import open_to, visible_owners
from rerankui.frame.pages import page_of

# The figures of the page of quality: what each counts, why it matters, and the list that shows what was counted.


@dataclass(frozen=True, slots=True)
class QualityFigure:
    """``of`` is the figure, ``among`` all of which it is a part, 0 where there is no whole.

    ``route`` with ``query`` is the list that shows exactly what is counted. ``without_model`` is said in place of
    ``why`` where no chat model is connected.
    """

    of: Callable[[Quality], int]
    among: Callable[[Quality], int]
    label: str | Promise
    why: str | Promise
    icon: str
    route: str
    query: str = ""
    without_model: str | Promise = ""

    def address(self, owner: ChatUser) -> str:
        return reverse(self.route, args=[owner.pk]) + self.query


@dataclass(frozen=True, slots=True)
class CountedFigure:
    """``share`` is the part of all, from 0 to 1; None where there is no whole."""

    figure: QualityFigure
    count: int
    among: int
    address: str

    @property
    def why(self) -> str | Promise:
        return self.figure.why if is_model_connected() else self.figure.without_model or self.figure.why

    @property
    def share(self) -> float | None:
        return self.count / self.among if self.among else None


FIGURES: tuple[tuple[str | Promise, tuple[QualityFigure, ...]], ...] = (
    (
        _("Coverage"),
        (
            QualityFigure(
                lambda found: found.waiting,
                lambda found: found.messages,
                _("Messages in no topic"),
                _("A recall finds them as active sessions; facts and people are extracted once they are archived."),
                "messages",
                "messages",
                "?place=active#latest",
            ),
            QualityFigure(
                lambda found: found.quiet,
                lambda found: 0,
                _("Chats silent for a day, not archived"),
                _("Nobody is likely to add to them. Archive them now, or see why the worker has not."),
                "clock",
                "memory",
            ),
            QualityFigure(
                lambda found: found.segmented,
                lambda found: found.topics,
                _("Topics cut by the segmenter"),
                _("No chat model divided these messages, so their borders and summaries deserve a look."),
                "scissors",
                "topics",
                "?maker=segmenter",
            ),
        ),
    ),
    (
        _("Summaries"),
        (
            QualityFigure(
                lambda found: found.foreign,
                lambda found: found.topics,
                _("Summaries in another language than their messages"),
                _("Words of a question do not meet them, and a model reads a title in another language than the talk."),
                "language",
                "topics",
                "?written=foreign",
            ),
            QualityFigure(
                lambda found: found.equal,
                lambda found: found.topics,
                _("Summaries equal to another’s"),
                _("A model cannot tell such topics apart by their lines. Merge them, or say what differs."),
                "arrows-join",
                "topics",
                "?equal=yes",
            ),
        ),
    ),
    (
        _("Use"),
        (
            QualityFigure(
                lambda found: found.unused,
                lambda found: found.topics,
                _("Topics that no recent recall showed"),
                _("None of the last 300 recalls had them among its candidates: small talk, or a vague summary."),
                "radar-2",
                "topics",
                "?recalled=no",
            ),
            QualityFigure(
                lambda found: found.factless,
                lambda found: found.topics,
                _("Topics without facts"),
                _("Nothing lasting was extracted from them, or their turn has not come."),
                "bulb",
                "topics",
                "?facts=no",
                _("A chat model extracts facts, and none is connected. You can write some yourself."),
            ),
        ),
    ),
    (
        _("Facts and people"),
        (
            QualityFigure(
                lambda found: found.replaced,
                lambda found: found.facts,
                _("Facts replaced within a week"),
                _("What the memory took for true until lately: check that the newer fact is the right one."),
                "refresh",
                "facts",
                "?time=past&replaced=week",
            ),
            QualityFigure(
                lambda found: found.seldom,
                lambda found: found.people,
                _("People mentioned once or never"),
                _("Often a second spelling of somebody known. Merge them, or delete who does not matter."),
                "users",
                "people",
                "?mentions=1",
            ),
        ),
    ),
)


def sections(owner: ChatUser, found: Quality) -> list[tuple[str | Promise, list[CountedFigure]]]:
    return [(label, [_counted(owner, found, figure) for figure in figures]) for label, figures in FIGURES]


def row(owner: ChatUser, found: Quality) -> list[CountedFigure]:
    """All figures of one memory, in the order of ``heads``."""
    return [figure for _label, figures in sections(owner, found) for figure in figures]


def heads() -> list[QualityFigure]:
    return [figure for _label, figures in FIGURES for figure in figures]


def _counted(owner: ChatUser, found: Quality, figure: QualityFigure) -> CountedFigure:
    return CountedFigure(figure, figure.of(found), figure.among(found), figure.address(owner))


@open_to(Role.VIEWER)
def quality(request: HttpRequest, owner: ChatUser) -> HttpResponse:
    found = qualities([owner], now=timezone.now())[owner.pk]
    return render(
        request, "pages/quality/quality.html", {"owner": owner, "found": found, "sections": sections(owner, found)}
    )


@open_to(Role.VIEWER)
def quality_of_all(request: HttpRequest) -> HttpResponse:
    # Some figures read every topic of a memory.
    page = page_of(request, visible_owners(request), ("name", "id"), size=20)
    found = cells.by_owner(partial(qualities, now=timezone.now()), page.rows)
    rows = [(owner, row(owner, found[owner.pk])) for owner in page if owner.pk in found]
    total = sum(found.values(), Quality())
    sums = [head.of(total) for head in heads()]
    context = {"page": page, "rows": rows, "heads": heads(), "sums": sums}
    return render(request, "pages/quality/quality_all.html", context)
