"""Whether a run would end better or worse after a change, and why, in sentences for people.

What counts most is whether the model is shown the evidence; then whether its topic can be handed over whole; then a
large change of rank; then a large change in how much there is to read. A small change of rank counts last, because the
order of two neighbours in a list of fifty hardly matters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from memoryapp.engine.candidates import RANKED
from memoryapp.engine.context import WHOLE_TOPIC_CHARS

Verdict = Literal["better", "worse", "same"]

FAR = 3
MUCH = 2
# Below this length twice as much to read makes no difference.
LITTLE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a run's evidence, ``messages`` in number, in one assignment of messages to topics.

    ``rank`` is that of the topic hardest to find, None beyond the ranked ones. ``shown`` counts the messages whose
    topic the model is shown, ``excerpted`` those whose topic is too long to be handed over whole. ``chars`` is the
    length of all topics with evidence."""

    messages: int
    rank: int | None
    shown: int
    excerpted: int
    chars: int

    @property
    def place(self) -> int:
        """The rank; without one, a number larger than any rank."""
        return RANKED + 1 if self.rank is None else self.rank


def verdict_of(before: Position, after: Position, *, touched: bool) -> Verdict:
    """``touched`` says that the change concerns the evidence itself; otherwise only being shown or not counts."""
    if before.shown != after.shown:
        return _better(after.shown - before.shown)
    if not touched:
        return "same"
    if before.excerpted != after.excerpted:
        return _better(before.excerpted - after.excerpted)
    moved = before.place - after.place
    if abs(moved) >= FAR:
        return _better(moved)
    return _better(_lighter(before.chars, after.chars) or moved)


def _better(gain: int) -> Verdict:
    return "better" if gain > 0 else "worse" if gain < 0 else "same"


def _lighter(before: int, after: int) -> int:
    """1 for much less to read, -1 for much more, else 0."""
    less, more = min(before, after), max(before, after)
    if more < MUCH * less or more - less < LITTLE_CHARS:
        return 0
    return 1 if after < before else -1


def explanation(before: Position, after: Position, *, touched: bool) -> str:
    """The sentences behind a verdict, in the active language."""
    return " ".join(_sentences(before, after, touched))


def _sentences(before: Position, after: Position, touched: bool) -> Iterator[str]:
    if before.shown != after.shown:
        yield _shown(before, after)
    if not touched:
        yield _("The messages it rested on are in other topics.")
    yield _ranks(before.rank, after.rank)
    if before.chars != after.chars:
        chars = {"before": _number(before.chars), "after": _number(after.chars)}
        yield _("Characters to read: %(before)s today, %(after)s afterwards.") % chars
    if after.excerpted > before.excerpted:
        limit = {"limit": _number(WHOLE_TOPIC_CHARS)}
        yield _("Above %(limit)s characters only excerpts of a topic are handed over.") % limit
    if after.excerpted < before.excerpted:
        yield _("It could be handed over whole, no longer in excerpts.")


def _shown(before: Position, after: Position) -> str:
    if not before.shown and after.shown == after.messages:
        return _("The model is not shown it today; afterwards it would be.")
    if not after.shown and before.shown == before.messages:
        return _("The model is shown it today; afterwards it would not be.")
    counts = {"before": before.shown, "after": after.shown, "all": after.messages}
    return _("Of its %(all)d messages the model is shown the topics of %(before)d today, then of %(after)d.") % counts


def _ranks(before: int | None, after: int | None) -> str:
    ranks = {"before": before, "after": after, "most": RANKED}
    if before == after:
        return _("Rank %(before)d as today.") % ranks if before else _("Beyond the first %(most)d as today.") % ranks
    if before is None:
        return _("Beyond the first %(most)d today, then rank %(after)d.") % ranks
    if after is None:
        return _("Rank %(before)d today, then beyond the first %(most)d.") % ranks
    return _("Rank %(before)d today, then %(after)d.") % ranks


def _number(chars: int) -> str:
    return number_format(chars, force_grouping=True)
