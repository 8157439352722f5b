"""A planned change of topics as a value, its bounds, and the errors that refuse a change. The text of every error is a
sentence for the person who asked. What they need in order to go on is an attribute of the error: the topics that
replaced those they saw, or the edits to undo first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import TopicDraft, topic_id
from memoryapp.engine.sight import COMMON, sight
from memoryapp.models import KnowledgeEdit, TopicEdit
from memoryapp.platform.statements import fetched

MOST_TOPICS = 200
MOST_MESSAGES = 20_000
MOST_SUMMARY_CHARS = 2_000
# The length of the database column.
MOST_REASON_CHARS = 500
# The actor of merges that no person made. It contains a blank, so no operator can have this name.
MERGER = "merger agent"
# The actor of edits that the program makes by itself.
PROGRAM = "archive"


@dataclass(frozen=True, slots=True)
class Change:
    """Retire the topics ``out``, given by number, and create the topics ``put`` from the same messages; of their own
    project, or of that one."""

    out: tuple[int, ...]
    put: tuple[TopicDraft, ...]
    project: str | None = None


class CurationError(Exception):
    """The change is refused and nothing was written; the text is a sentence for people."""


class Stale(CurationError):
    """Somebody changed these topics meanwhile. ``successors`` lists, by number, the live topics that hold their
    messages now; the topic with most of the messages is first."""

    def __init__(self, sentence: str, successors: Mapping[int, tuple[int, ...]] | None = None) -> None:
        super().__init__(sentence)
        self.successors = dict(successors or {})


class Depends(CurationError):
    """Later ``edits`` depend on this one. They have to be undone before it, in the given order (newest first)."""

    def __init__(self, sentence: str, edits: Sequence[TopicEdit | KnowledgeEdit]) -> None:
        super().__init__(sentence)
        self.edits = tuple(edits)


class ByHand(CurationError):
    """A person decided about ``topics``, and an automatic change may not overrule that."""

    def __init__(self, sentence: str, topics: Sequence[int]) -> None:
        super().__init__(sentence)
        self.topics = tuple(topics)


def named(ids: Sequence[int]) -> str:
    """The names of the first five topics, for a sentence."""
    shown = ", ".join(topic_id(number) for number in ids[:5])
    return shown if len(ids) <= 5 else _("%(topics)s and %(more)d more") % {"topics": shown, "more": len(ids) - 5}


def check_own(*projects: str) -> None:
    """Raises CurationError for somebody who sees only some projects, unless all of these labels are of them: what is
    common to all is neither taken from the others nor given to them."""
    if sight().projects is not None and not (sight().own or {COMMON}).issuperset(projects):
        raise CurationError(_("You see only some projects of this memory: choose one of them."))


def check_one_project(projects: Iterable[str]) -> None:
    """Raises CurationError unless all of these labels are the same: what is of two projects would show each of them
    words of the other."""
    found = sorted(set(projects))
    if len(found) > 1:
        names = ", ".join(f"“{name}”" if name else _("common to all projects") for name in found)
        sentence = _("These belong to different projects (%(projects)s). Give them to one project first.")
        raise CurationError(sentence % {"projects": names})


# Errors for changes that are too large. Each names the bound, with the plural form of the reader's language.
#
# Every function returns the ``CurationError`` to raise; ``most`` is the bound that was exceeded.


def too_many_messages(most: int) -> CurationError:
    sentence = ngettext(
        "At most %(most)d message can be changed at once.", "At most %(most)d messages can be changed at once.", most
    )
    return CurationError(sentence % {"most": most})


def too_many_topics(most: int) -> CurationError:
    sentence = ngettext(
        "At most %(most)d topic can be changed at once.", "At most %(most)d topics can be changed at once.", most
    )
    return CurationError(sentence % {"most": most})


def too_many_people(most: int) -> CurationError:
    sentence = ngettext(
        "At most %(most)d person can be merged at once.", "At most %(most)d people can be merged at once.", most
    )
    return CurationError(sentence % {"most": most})


def too_long_a_summary(chars: int, most: int) -> CurationError:
    """``chars`` is the length of the summary in characters."""
    sentence = ngettext(
        "A summary has at most %(most)d character; this one has %(chars)d.",
        "A summary has at most %(most)d characters; this one has %(chars)d.",
        most,
    )
    return CurationError(sentence % {"most": most, "chars": chars})


def too_long_a_list(most: int, chars: int) -> CurationError:
    """For a list of more than ``most`` entries, or with an entry of more than ``chars`` characters."""
    sentence = ngettext(
        "A list has at most %(most)d entry of %(chars)d characters.",
        "A list has at most %(most)d entries of %(chars)d characters.",
        most,
    )
    return CurationError(sentence % {"most": most, "chars": chars})


# Chains of undo: an edit, the undo of it, the undo of that undo, and so on.
#
# Every second edit of a chain takes back what the edit before it did. So an edit is in effect when an even number of
# edits follow it in its chain. An edit is undone at most once, so a chain never forks. Edits of topics and edits of
# people, facts and artifacts both form such chains.

_SQL = table_beside(__file__)
CHAINS: str = _SQL["chains"]


class ChainLink(NamedTuple):
    """``stands`` says whether what an edit did is in effect today, ``is_again`` whether it repeated what was undone."""

    stands: bool
    is_again: bool


def chains(model: type[TopicEdit | KnowledgeEdit], owner_id: int, ids: Iterable[int]) -> list[tuple[int, ...]]:
    """The chains that the owner's edits ``ids`` belong to, each from its first edit to its last."""
    values = {"owner": owner_id, "ids": list(ids)}
    return [tuple(chain) for _root, chain in fetched(CHAINS.format(table=model._meta.db_table), values)]


def links(model: type[TopicEdit | KnowledgeEdit], owner_id: int, ids: Iterable[int]) -> dict[int, ChainLink]:
    """The owner's edits in ``ids`` as links of their chains."""
    wanted = set(ids)
    return {
        number: ChainLink(stands=(len(chain) - place) % 2 == 1, is_again=place > 0 and place % 2 == 0)
        for chain in chains(model, owner_id, wanted)
        for place, number in enumerate(chain)
        if number in wanted
    }


def in_effect(model: type[TopicEdit | KnowledgeEdit], owner_id: int, ids: Iterable[int]) -> dict[int, bool]:
    """For each of the owner's edits in ``ids``: whether it is in effect, or was taken back."""
    return {number: link.stands for number, link in links(model, owner_id, ids).items()}


def flipped_by(chain: tuple[int, ...], ids: set[int]) -> bool:
    """Whether the outcome of the chain differs now from what it was before the first of the edits ``ids``."""
    first = next(place for place, number in enumerate(chain) if number in ids)
    return (len(chain) - first) % 2 == 1
