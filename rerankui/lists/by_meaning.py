"""Lists searched by meaning: rows that a recall would find, in the order of its scores, and what to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Case, IntegerField, Model, QuerySet, Value, When
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.browsing.meaning import MOST_FOUND, NearestRows, Scores
from memoryapp.models import ChatUser
from memoryapp.suggestions import proposals
from rerankui.filters import MeaningFilter
from rerankui.pages import Page

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class NearList:
    """``sentence`` is what a reader of the list has to know."""

    scores: Scores
    sentence: str

    def of(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Those of the rows that were found."""
        return rows.filter(pk__in=list(self.scores))

    @property
    def order(self) -> Sequence[Any]:
        """The nearest first."""
        places = [When(pk=number, then=Value(place)) for place, number in enumerate(self.scores)]
        return (Case(*places, default=Value(MOST_FOUND), output_field=IntegerField()),)

    def page(self, rows: QuerySet[Row]) -> Page[Row]:
        """All of them on one page, each with its score as ``nearness``."""
        shown = list(rows.order_by(*self.order))
        for row in shown:
            row.nearness = self.scores[row.pk]  # type: ignore[attr-defined]
        return Page(shown, "", "")


def near_list(owner: ChatUser, filters: MeaningFilter, noun: str) -> NearList | None:
    """The rows of this noun (``topics``, ``messages``, ``people`` or ``facts``) nearest to the search; None where it
    goes by words."""
    if not filters.is_by_meaning:
        return None
    found = proposals.rows_alike(owner, filters.chosen["q"])
    return NearList(getattr(found, noun), _sentence(found, noun))


def _sentence(found: NearestRows, noun: str) -> str:
    if found.is_late:
        return _("The search was not done in time. Try again, or search by words.")
    if not found.has_vector:
        return _("The embedding model gave no vector of your words in time: this is found by words alone.")
    if found.without_vector:
        return ngettext(
            "%(n)d passage has no vector yet and is found by its words alone.",
            "%(n)d passages have no vectors yet and are found by their words alone.",
            found.without_vector,
        ) % {"n": found.without_vector}
    if noun == "facts":
        return _("Facts have no vectors of their own: they stand in the order of the topics they come from.")
    return _("At most %(n)d, as a recall would find them, with its scores.") % {"n": MOST_FOUND}
