"""What the machine would merge and split, proposed to people: it only proposes, whoever made the topics.

A suggestion is made once for the same topics, with the numbers that speak for it. A pair that a person rejected
is not proposed again, either way round, also when one of both was edited since; nor is a split.
"""

from memoryapp.suggestions.making import MOST_OPEN, suggest, with_unchecked
from memoryapp.suggestions.queue import (
    HELD_FOR,
    Decided,
    Progress,
    decide,
    hold,
    holder,
    next_open,
    opened,
    progress,
    release,
    reopen,
    topics_of,
)
from memoryapp.suggestions.wording import reasons

__all__ = [
    "HELD_FOR",
    "MOST_OPEN",
    "Decided",
    "Progress",
    "decide",
    "hold",
    "holder",
    "next_open",
    "opened",
    "progress",
    "reasons",
    "release",
    "reopen",
    "suggest",
    "topics_of",
    "with_unchecked",
]
