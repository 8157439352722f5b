"""Lifts: what raises or lowers the score of passages beside meaning and words: their time, their author, and standing
instructions.

Passages from a time that the query names rise, those after it less and less. In a chat with an assistant a reply
without the request it answers sinks, because replies repeat words at length. A standing instruction of the user rises
when the query asks the assistant to make something.

Lifts are counted in standard deviations, as meaning and words are. Tried and left out: adding the BM25 of the user's
words for each topic, which would need an index of words by author. On public long chats with an assistant, whose
questions were known by then, a weight of .8 raised recall@5/@10 from .554/.675 to .592/.696, together with lower
replies. On the forty questions of the demo memory, also chats with an assistant, a weight of 0, .4, .8 and 1.2 gave
recall@5 .852, .852, .860, .869, recall@10 .946, .919, .919, .927 and MRR .791, .829, .830, .831: the first results
improve, and answers at low ranks are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from memoryapp.engine.candidates import NamedDates, OneTerm, UnderstoodQuery
from memoryapp.engine.memory import ANYWHERE, Where
from memoryapp.engine.text.dates import closeness, windows
from memoryapp.engine.text.irregular import other_forms
from memoryapp.engine.text.lexical import Floats
from memoryapp.engine.text.queries import INSTRUCTION, asks_to_make, matter_of
from memoryapp.operations.database import SqlRead
from memoryapp.search.columns import Ids, Positions, int64s, positions

DATES = 4.0
REPLY_ALONE = -1.0
INSTRUCTED = 4.0

_EPOCH = date(1970, 1, 1)
_DAY_SECONDS = 86_400

INSTRUCTIONS = """
SELECT string_agg(DISTINCT int8send(pm.passage_id), ''::bytea)
FROM memoryapp_message m JOIN memoryapp_passagemessage pm ON pm.message_id = m.id
WHERE m.owner_id = %(owner)s AND m.role = 'user' AND NOT m.is_withdrawn AND m.text ~* %(instruction)s
"""


@dataclass(frozen=True, slots=True)
class PassageOrigins:
    """The time and the author of each of n passages, shape (n,).

    ``days`` counts from 1970-01-01; it is NaN for a passage that is in no topic and no session. ``replies`` marks
    passages that contain only the assistant's words. ``authors`` are all who speak in the memory.
    """

    days: Floats
    replies: NDArray[np.bool_]
    authors: tuple[str, ...] = ()
    has_assistant: bool = False

    @classmethod
    def of(
        cls, n: int, places: Positions, seconds: Floats, by_assistant: NDArray[np.bool_], authors: Sequence[str] = ()
    ) -> PassageOrigins:
        """Built from one row for each message of a passage: the passage's position among the n, the time of the
        message, and whether the assistant wrote it."""
        days = np.full(n, np.inf)
        np.minimum.at(days, places, seconds / _DAY_SECONDS)
        replies = np.isfinite(days)
        replies[places[~by_assistant]] = False
        days[np.isinf(days)] = np.nan
        return cls(days, replies, tuple(sorted(authors)), bool(by_assistant.any()))

    @property
    def today(self) -> date:
        """The day of the last message; dates without a year are resolved from it."""
        known = self.days[~np.isnan(self.days)]
        return _EPOCH + timedelta(days=int(known.max())) if len(known) else _EPOCH

    @property
    def size(self) -> int:
        """In bytes."""
        return self.days.nbytes + self.replies.nbytes


def instructions_read(owner_id: int, queries: Sequence[str], origins: PassageOrigins) -> SqlRead[Ids]:
    """Finds passages with standing instructions; none unless one of the ``queries`` asks for something to be made.

    Only chats with an assistant are searched for instructions.
    """
    if not any(map(asks_to_make, queries)) or not origins.has_assistant:
        return SqlRead(None, lambda _rows: np.zeros(0, np.int64))
    return SqlRead((INSTRUCTIONS, {"owner": owner_id, "instruction": INSTRUCTION}), lambda rows: int64s(rows[0][0]))


def lifts(query: str, origins: PassageOrigins, ids: Ids, instructions: Ids) -> Mapping[str, Floats]:
    """What each part of the score adds to the passages ``ids``: arrays of shape (n,) by the names of
    ``candidates.PARTS``.

    Parts that add nothing to any passage are left out.
    """
    found: dict[str, Floats] = {}
    if stretches := windows(query, origins.today):
        found["dates"] = DATES * closeness(stretches, origins.days)
    if origins.has_assistant:
        found["reply_alone"] = REPLY_ALONE * origins.replies.astype(np.float64)
    if origins.has_assistant and len(instructions) and asks_to_make(query):
        places, _here = positions(ids, instructions)
        instructed = np.zeros(len(ids))
        instructed[places] = INSTRUCTED
        found["instruction"] = instructed
    return {name: added for name, added in found.items() if added.any()}


def understood_of(
    texts: Sequence[str],
    origins: PassageOrigins,
    common: Iterable[str] = (),
    *,
    instructed: bool,
    where: Where = ANYWHERE,
) -> UnderstoodQuery:
    """What was understood of a query in all its wordings, each item once. The caller passes its ``common`` words."""
    names = dict.fromkeys(name for text in texts for name in matter_of(text, origins.authors).names)
    dates = dict.fromkeys(window for text in texts for window in windows(text, origins.today))
    one_term = {word: forms for text in texts for word, forms in other_forms(text).items()}
    return UnderstoodQuery(
        names=tuple(names),
        dates=tuple(NamedDates(each.words, f"{each.first}", f"{each.last}") for each in dates),
        one_term=tuple(OneTerm(word, forms) for word, forms in one_term.items()),
        instructions=instructed and origins.has_assistant,
        where=where,
        common=tuple(common),
    )
