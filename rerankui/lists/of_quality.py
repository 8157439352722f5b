"""The figures of the page of quality: what each counts, why it matters, and the list that shows what was counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from memoryapp.browsing.quality import Quality
from memoryapp.models import ChatUser

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True)
class QualityFigure:
    """``name`` and ``among`` are fields of ``Quality``: the figure, and all of which it is a part.

    ``route`` with ``query`` is the list that shows exactly what is counted.
    """

    name: str
    among: str
    label: StrOrPromise
    why: StrOrPromise
    icon: str
    route: str
    query: str = ""

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
    def share(self) -> float | None:
        return self.count / self.among if self.among else None


@dataclass(frozen=True, slots=True)
class QualitySection:
    label: StrOrPromise
    figures: Sequence[CountedFigure]


FIGURES: tuple[tuple[StrOrPromise, tuple[QualityFigure, ...]], ...] = (
    (
        _("Coverage"),
        (
            QualityFigure(
                "waiting",
                "messages",
                _("Messages in no topic"),
                _("A recall finds them as active sessions; facts and people are extracted once they are archived."),
                "messages",
                "messages",
                "?place=active#latest",
            ),
            QualityFigure(
                "quiet",
                "",
                _("Chats silent for a day, not archived"),
                _("Nobody is likely to add to them. Archive them now, or see why the worker has not."),
                "clock",
                "memory",
            ),
            QualityFigure(
                "segmented",
                "topics",
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
                "foreign",
                "topics",
                _("Summaries in other letters than their messages"),
                _("Words of a question do not meet them, and a model reads a title in another language than the talk."),
                "language",
                "topics",
                "?written=foreign",
            ),
            QualityFigure(
                "equal",
                "topics",
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
                "unused",
                "topics",
                _("Topics that no recent recall showed"),
                _("None of the last 300 recalls had them among its candidates: small talk, or a vague summary."),
                "radar-2",
                "topics",
                "?recalled=no",
            ),
            QualityFigure(
                "factless",
                "topics",
                _("Topics without facts"),
                _("Nothing lasting was extracted from them, or their turn has not come."),
                "bulb",
                "topics",
                "?facts=no",
            ),
        ),
    ),
    (
        _("Facts and people"),
        (
            QualityFigure(
                "replaced",
                "facts",
                _("Facts replaced within a week"),
                _("What the memory took for true until lately: check that the newer fact is the right one."),
                "refresh",
                "facts",
                "?time=past&replaced=week",
            ),
            QualityFigure(
                "seldom",
                "people",
                _("People mentioned once or never"),
                _("Often a second spelling of somebody known. Merge them, or delete who does not matter."),
                "users",
                "people",
                "?mentions=1",
            ),
        ),
    ),
)


def sections(owner: ChatUser, found: Quality) -> list[QualitySection]:
    return [QualitySection(label, [_counted(owner, found, figure) for figure in figures]) for label, figures in FIGURES]


def row(owner: ChatUser, found: Quality) -> list[CountedFigure]:
    """All figures of one memory, in the order of ``heads``."""
    return [figure for section in sections(owner, found) for figure in section.figures]


def heads() -> list[QualityFigure]:
    return [figure for _label, figures in FIGURES for figure in figures]


def _counted(owner: ChatUser, found: Quality, figure: QualityFigure) -> CountedFigure:
    among = getattr(found, figure.among) if figure.among else 0
    return CountedFigure(figure, getattr(found, figure.name), among, figure.address(owner))
