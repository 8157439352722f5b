"""What the embedded scorer made of a topic, where it chose in place of a chat model: the chances that it wrote down."""

from __future__ import annotations

import re
from dataclasses import replace

from memoryapp.engine.offline import scorer
from memoryapp.explain.fate import Fate
from memoryapp.explain.story import Story

# As the scorer writes the chances of the topics that it read, in every language.
_CHANCE = re.compile(r"\b((?:Topic|Session):\d{1,18}) ([01]\.\d\d)\b")


def chose(story: Story) -> bool:
    """Whether no chat model was asked."""
    started = story.outline.started
    return started is not None and started.model == scorer.MODEL


def weighed(story: Story, lost: Fate) -> Fate:
    """The same fate with the scorer's reason: ``chance`` is that of the topic to hold the answer, ``least`` that of the
    last one kept, both from 0 to 1 and only where the scorer wrote them."""
    if not chose(story) or lost.case or lost.stage not in ("not_requested", "not_chosen"):
        return lost
    if lost.stage == "not_requested":
        return replace(lost, case="scorer")
    replies, finished = story.outline.replies, story.finished
    written = {id: float(chance) for id, chance in _CHANCE.findall(replies[-1].reasoning if replies else "")}
    kept = [written[each.id] for each in finished.selected if each.id in written] if finished else []
    if not kept:
        return replace(lost, case="scorer_none")
    if lost.id not in written:
        return replace(lost, case="scorer", numbers={**lost.numbers, "least": min(kept)})
    chances = {"chance": written[lost.id], "least": min(kept)}
    return replace(lost, case="scorer_chance", numbers={**lost.numbers, **chances})
