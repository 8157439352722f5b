"""What a search reads of a whole memory and only an edit changes, kept between searches.

Passages come with the edit that archives their messages, and a message changes its topic in an edit alone; each edit
gets its number while nobody else changes the owner's topics. So the owner's last edit, asked for with every search,
tells whether what an earlier one has read still holds. Topics never change, so what they are called is kept along
with it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryapp.columns import Ids, int64s, positions
from memoryapp.database import Asked
from memoryapp.engine.lexical import Floats
from memoryapp.engine.scoring import TopicPassages

# Bytes kept by one process, of all owners.
MOST = 100_000_000
# What Python takes for a topic's name beside its characters, of which a Cyrillic one is two bytes.
_NAME = 500
_CHARACTER = 2

# The time is looked at too: in a database that was put back to an earlier state the numbers come again.
LAST_EDIT = "SELECT id, at FROM memoryapp_topicedit WHERE owner_id = %(owner)s ORDER BY id DESC LIMIT 1"
PASSAGES = """
SELECT string_agg(int8send(id), ''::bytea), string_agg(int4send(term_count), ''::bytea),
       string_agg(boolsend(is_wide), ''::bytea)
FROM memoryapp_passage WHERE owner_id = %(owner)s
"""
# A message points at no topic but a live one, so the topics themselves need not be looked at.
TOPICS_OF = """
SELECT string_agg(int8send(m.topic_id), ''::bytea), string_agg(int8send(pm.passage_id), ''::bytea)
FROM memoryapp_passagemessage pm
JOIN memoryapp_message m ON m.id = pm.message_id AND m.owner_id = %(owner)s AND m.topic_id IS NOT NULL
WHERE pm.owner_id = %(owner)s
"""


Edit = tuple[int, datetime] | None


@dataclass(frozen=True, slots=True)
class Passages:
    """All of an owner's, by id; ``lengths`` are their words, every array has shape (n,)."""

    ids: Ids
    lengths: Floats
    wide: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: bytes | None, lengths: bytes | None, wide: bytes | None) -> Passages:
        """Out of the columns of ``PASSAGES``."""
        numbers = int64s(ids)
        order = np.argsort(numbers, kind="stable")
        counted = np.frombuffer(lengths or b"", ">i4").astype(np.float64)
        return cls(numbers[order], counted[order], np.frombuffer(wide or b"", np.bool_)[order])


@dataclass(frozen=True, slots=True)
class Called:
    """What candidates tell of a topic beside its scores."""

    id: int
    summary: str
    date: str
    message_count: int
    size_chars: int

    @property
    def facts(self) -> tuple[str, int, int, str]:
        """In the order of a candidate's line."""
        return self.date, self.message_count, self.size_chars, self.summary


@dataclass(frozen=True, slots=True)
class Layout:
    """An owner's passages and the live topics that hold them, as they were after ``edit``, its number and time.

    ``called`` are those topics that somebody has read the names of; ``Layouts.learn`` adds to them.
    """

    edit: Edit
    passages: Passages
    topics: TopicPassages
    called: dict[int, Called] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """In bytes, without what the topics are called."""
        held = self.passages, self.topics
        return sum(getattr(each, name).nbytes for each in held for name in each.__slots__)


def last_edit(owner_id: int) -> Asked:
    """Asks for the edit that a layout is known by, of which there may be none; before what ``parts`` ask for."""
    return LAST_EDIT, {"owner": owner_id}


def parts(owner_id: int) -> tuple[Asked, Asked]:
    """Asks for what ``laid_out`` puts together."""
    return (PASSAGES, {"owner": owner_id}), (TOPICS_OF, {"owner": owner_id})


def laid_out(edit: Edit, passages: Sequence[Any], pairs: Sequence[Any]) -> Layout:
    """A layout out of the one row that each of the ``parts`` gave."""
    known = Passages.of(*passages)
    topics, held = map(int64s, pairs)
    places, here = positions(known.ids, held)
    return Layout(edit, known, TopicPassages.of(topics[here], places))


class Layouts:
    """The layouts of the owners whose memory was searched last, as many as fit. For one event loop."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[int, Layout] = OrderedDict()
        self._sizes: dict[int, int] = {}

    def of(self, owner_id: int) -> Layout | None:
        """What was read last, whether it still holds or not."""
        found = self._kept.get(owner_id)
        if found:
            self._kept.move_to_end(owner_id)
        return found

    def keep(self, owner_id: int, layout: Layout) -> None:
        """Instead of what was kept of this owner."""
        self._forget(owner_id)
        self._kept[owner_id], self._sizes[owner_id] = layout, layout.size
        self._make_room(owner_id)

    def learn(self, owner_id: int, layout: Layout, called: Sequence[Called]) -> None:
        """What some of the layout's topics are called."""
        # Another search may have read the same names meanwhile, and they take their room once.
        new = {topic.id: topic for topic in called if topic.id not in layout.called}
        layout.called.update(new)
        if new and self._kept.get(owner_id) is layout:
            self._sizes[owner_id] += sum(_NAME + _CHARACTER * len(topic.summary) for topic in new.values())
            self._make_room(owner_id)

    def _make_room(self, owner_id: int) -> None:
        """What is larger than all the room goes, else those that were not searched for longest."""
        if self._sizes[owner_id] > self._most:
            self._forget(owner_id)
        while sum(self._sizes.values()) > self._most:
            self._forget(next(iter(self._kept)))

    def _forget(self, owner_id: int) -> None:
        self._kept.pop(owner_id, None)
        self._sizes.pop(owner_id, None)
