"""Topics that a model cut too small are joined to a neighbour.

A model's own borders stand from one whole exchange on: something that a person says, and an answer to it. What is less
has no subject of its own, so it belongs to the neighbour that is more similar to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memoryapp.engine.embeddings import Embedder, EmbeddingError, Vectors
from memoryapp.engine.memory import LONGEST_SUMMARY, MessageContent, TopicDraft
from memoryapp.engine.offline.joining import Stretch
from memoryapp.engine.offline.joining import joined as ranges_joined
from memoryapp.engine.text.json_answers import clipped
from memoryapp.engine.text.languages import is_general
from memoryapp.engine.text.summaries import Summarise

# What a draft is about is seen in the beginnings of its messages.
_TEXT_CHARS, _DRAFT_CHARS = 300, 4_000


async def joined(
    drafts: Sequence[TopicDraft],
    messages: Sequence[MessageContent],
    embedder: Embedder,
    summarise: Summarise,
    *,
    least: int = 1,
    most_chars: int,
) -> list[TopicDraft]:
    """``drafts`` of consecutive ``messages`` of one session, joined until each is a whole exchange of at least
    ``least`` messages.

    A draft stays small when it is the only one, or when either neighbour would have more than ``most_chars`` characters
    with it. Without vectors the shorter pause decides about the neighbour. ``summarise`` words a topic that the model's
    summaries would misname.
    """
    by_id = {message.id: message for message in messages}
    parts = [tuple(by_id[id] for id in draft.messages) for draft in drafts]

    def is_small(stretch: Stretch) -> bool:
        return len(stretch.messages) < least or not _is_whole(stretch.messages, messages)

    def fits(before: Stretch, after: Stretch) -> bool:
        return before.chars + after.chars <= most_chars

    stretches = [Stretch(part, np.zeros(1, np.float32)) for part in parts]
    if any(map(is_small, stretches)):
        vectors = await _vectors(parts, embedder)
        stretches = [Stretch(part, vector) for part, vector in zip(parts, vectors, strict=True)]
    ranges = ranges_joined(stretches, is_small, fits)
    return [await _as_one(drafts[first:end], by_id, summarise) for first, end in ranges]


def _is_whole(part: Sequence[MessageContent], talk: Sequence[MessageContent]) -> bool:
    """Whether the part holds an exchange: what a person says and the assistant's reply, or words of two people.

    Where only one speaks, two of their messages.
    """
    if any(message.role == "assistant" for message in talk):
        asked = next((at for at, message in enumerate(part) if message.role in ("user", "peer")), len(part))
        return any(message.role == "assistant" for message in part[asked:])
    several = len({(message.role, message.author) for message in talk}) > 1
    return len({(message.role, message.author) for message in part}) > 1 if several else len(part) > 1


async def _vectors(parts: Sequence[Sequence[MessageContent]], embedder: Embedder) -> Vectors:
    """A vector for each part, shape (parts, dimensions); zeros while the embedder does not answer."""
    texts = ["\n".join(message.text[:_TEXT_CHARS] for message in part)[:_DRAFT_CHARS] for part in parts]
    try:
        return await embedder.embed(embedder.profile.as_passages(texts))
    except EmbeddingError:
        return np.zeros((len(parts), 1), np.float32)


async def _as_one(drafts: Sequence[TopicDraft], by_id: dict[int, MessageContent], summarise: Summarise) -> TopicDraft:
    """One draft of several, called by the model's summaries if these are about most of its messages."""
    if len(drafts) == 1:
        return drafts[0]
    ids = tuple(id for draft in drafts for id in draft.messages)
    named = [draft for draft in drafts if not is_general(draft.summary)]
    if 2 * sum(len(draft.messages) for draft in named) > len(ids):
        summaries = dict.fromkeys(draft.summary.strip().rstrip(".") for draft in named)
        return TopicDraft(clipped("; ".join(summaries), LONGEST_SUMMARY), ids)
    return TopicDraft(await summarise([by_id[id] for id in ids]), ids)
