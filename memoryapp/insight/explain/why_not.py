"""The question itself: what became of a topic, a message or words in a run, and what would have changed it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _

from memoryapp.engine.events import CandidatesFound, from_payload
from memoryapp.engine.kinds.decisions import DecisionsApplied
from memoryapp.engine.memory import parse_topic_id
from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.engine.text.lines import quoted
from memoryapp.insight.explain.counterfactuals import (
    Counterfactual,
    LostItem,
    Research,
    counterfactuals,
    live_number,
    needs_search,
    partners,
    research,
    tries_merges,
)
from memoryapp.insight.explain.fate import STAGES, Fate, Story, chose, fate, foreign_fate, kind_of, sentence, weighed
from memoryapp.insight.explain.wanted import LONGEST, Searched, Wanted, wanted_message, wanted_text, wanted_topic
from memoryapp.memory.content import permitted
from memoryapp.models import EmbeddingProfile, Message, PassageMessage, Run, RunEvent
from memoryapp.platform.statements import fetched
from memoryapp.runs import recall_document
from memoryapp.runs.followers import StoredEvent
from memoryapp.runs.parameters import of_run
from memoryapp.runs.replays import with_messages
from memoryapp.search.profiles import profile_of

_LATEST = {stage: place for place, stage in enumerate(STAGES)}
# A message is in one topic, a retired topic may have become many.
_MOST_TOPICS = 20


class WhyNotError(ValueError):
    """A question that cannot be answered; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The ``stage`` that lost what was asked about, ``topic`` as the run met it, a ``sentence``, the ``numbers`` that
    decided, and ``counterfactuals``. ``now`` are the topics that hold it today; ``seq`` is the event that lost it, 0
    where none did; ``others`` are topics that may have been meant as well."""

    stage: str
    topic: str
    sentence: str
    numbers: Mapping[str, Any]
    counterfactuals: Sequence[Counterfactual] = ()
    now: Sequence[str] = ()
    seq: int = 0
    others: Sequence[str] = ()


def why_not(run: Run, *, topic: str = "", message: str = "", text: str = "") -> Explanation:
    """Explains one of the three. Raises WhyNotError for none or several of them, and for a run that has not ended."""
    given = [each for each in (topic, message, text) if each.strip()]
    if len(given) != 1:
        raise WhyNotError(_("Give one of topic, message and text."))
    if len(given[0]) > LONGEST:
        raise WhyNotError(_("This must be a text of at most %(most)d characters.") % {"most": LONGEST})
    if not run.is_finished:
        raise WhyNotError(_("This run has not ended; ask when it has."))
    if run.is_foreign:
        return _of_foreign(run, given[0].strip(), is_message=bool(message))
    story = story_of(run)
    at = searched(run, story)
    find = wanted_topic if topic else wanted_message if message else wanted_text
    wanted = find(run.owner_id, given[0].strip(), at)
    # Under the id of the active session in which the run met the messages.
    met = (id for id, listed in _sessions(story).items() if not {*listed}.isdisjoint(wanted.messages))
    id = "" if wanted.ids else next(met, "")
    return _explained(story, replace(wanted, ids=(id,), stage="", is_later=False) if id else wanted)


def _of_foreign(run: Run, asked: str, *, is_message: bool) -> Explanation:
    if is_message:
        raise WhyNotError(_("%(origin)s made this run without the messages of this memory.") % {"origin": run.origin})
    found, words = foreign_fate(run, asked)
    return Explanation(found.stage, found.id, words, found.numbers, seq=found.seq)


def story_of(run: Run) -> Story:
    """The run with its events, whose replies contain the messages as they came; one statement."""
    columns = ("kind", "payload", "raw_reply__message", "seq", "at")
    rows = RunEvent.objects.filter(owner=run.owner_id, run=run).order_by("seq").values_list(*columns)
    events = with_messages([(from_payload(kind, payload), raw) for kind, payload, raw, _seq, _at in rows])
    stored = [StoredEvent(seq, at, event) for (*_row, seq, at), event in zip(rows, events, strict=True)]
    strategy = STRATEGIES.get(run.strategy, DEFAULT)
    return Story(run, stored, {**run.parameters, **of_run(run.parameters, strategy).as_dict()})


def searched_at_of(run: Run) -> datetime:
    """When the run searched, or when it was asked."""
    return searched(run, story_of(run)).at


def searched(run: Run, story: Story) -> Searched:
    """The moment whose memory the run searched: that which it names, else when it searched; a fork that replayed its
    candidates did so when its parent did."""
    while not run.changes.get("as_of") and run.parent_id and story.found is not None and not story.found.seconds:
        parent = Run.objects.of(run.owner_id).filter(pk=run.parent_id).first()
        if parent is None:
            break
        run, story = parent, story_of(parent)
    if moment := run.changes.get("as_of"):
        return Searched(datetime.fromisoformat(moment))
    found = next((each.at for each in story.stored if isinstance(each.event, CandidatesFound)), None)
    return Searched(found, story.found.newest) if found and story.found else Searched(run.created_at)


def _explained(story: Story, wanted: Wanted) -> Explanation:
    if not wanted.ids:
        case = "later" if wanted.is_later else "withdrawn" if wanted.is_withdrawn else wanted.case
        lost = Fate(wanted.stage, wanted.asked, case)
        return Explanation(
            lost.stage, lost.id, sentence(lost, wanted), lost.numbers, now=wanted.now, others=_others(lost, wanted)
        )
    # The cosine below which nothing counted as near, in the profile of the run.
    started = story.outline.started
    rows = [row for row in EmbeddingProfile.objects.all() if started and profile_of(row).name == started.profile]
    threshold = rows[0].threshold if rows else 0.0
    lost, searched = _lost(story, wanted, threshold)
    if lost.stage == "chosen":
        lost = _used(story, _delivered(story, lost, wanted))
    lost = weighed(story, lost)
    tried = counterfactuals(_question(story, lost, wanted, threshold, searched))
    numbers = {name: value for name, value in lost.numbers.items() if value != ""}
    words = sentence(lost, wanted, by_scorer=chose(story))
    return Explanation(lost.stage, lost.id, words, numbers, tried, wanted.now, lost.seq, _others(lost, wanted))


def _others(lost: Fate, wanted: Wanted) -> Sequence[str]:
    """The topics beside the one that is explained, those that hold the same first."""
    return tuple(id for id in dict.fromkeys((*wanted.holders, *wanted.others)) if id != lost.id)


def _sessions(story: Story) -> Mapping[str, Sequence[int]]:
    return story.found.sessions if story.found else {}


def _lost(story: Story, wanted: Wanted, threshold: float) -> tuple[Fate, Research | None]:
    """The fate of the topic that came furthest, and the comparison that was needed to tell."""
    known = [
        found
        for id in wanted.ids[:_MOST_TOPICS]
        if (found := fate(story, id, threshold=threshold, texts=lambda id=id: _texts(story, id)))  # type: ignore[misc]
    ]
    if known:
        return max(known, key=lambda each: _LATEST.get(each.stage, 0)), None
    return _unranked(story, wanted, threshold)


def _texts(story: Story, id: str) -> list[str]:
    listed = _sessions(story).get(id)
    holding = Q(topicmessage__topic=parse_topic_id(id)) if listed is None else Q(pk__in=listed)
    rows = Message.objects.of(story.run.owner_id).filter(holding)
    return list(rows.values_list("text", flat=True))


def _unranked(story: Story, wanted: Wanted, threshold: float) -> tuple[Fate, Research | None]:
    id, found, seq = wanted.ids[0], story.found, story.seq(CandidatesFound)
    if refused := next((each for each in wanted.ids if each in story.never), ""):
        return Fate("filtered", refused, "never", {}, story.seq(DecisionsApplied)), None
    if found is None or kind_of(id) != "Topic":
        return Fate("beyond_candidates", id, "", {"rank": 0, "shown": len(story.shown(id))}, seq), None
    if (where := found.understood.where) and (where.must_phrases or not _has_permitted(story.run.owner_id, id, where)):
        return Fate("filtered", id, "", {"filters": where.words()}, seq), None
    if not PassageMessage.objects.filter(owner=story.run.owner_id, message__topicmessage__topic=_number(id)).exists():
        return Fate("no_vector", id, "no_passage", {}, seq), None
    if found.by_words_alone:
        return Fate("no_vector", id, "query", {}, seq), None
    searched = research(story, _pairs(story, wanted, "beyond_candidates"), threshold)
    rank = searched.ranks(shown=len(story.shown(id))).get(live_number(wanted.now)) if searched else None
    numbers = {"rank": rank.rank if rank else 0, "shown": len(story.shown(id)), "threshold": threshold}
    return Fate("beyond_candidates", id, "", numbers, seq), searched


def _number(id: str) -> int:
    return parse_topic_id(id) or 0


def _has_permitted(owner_id: int, id: str, where: Any) -> bool:
    conditions, values = permitted(where)
    sql = f"""SELECT EXISTS (
        SELECT FROM memoryapp_topicmessage tm JOIN memoryapp_message m ON m.id = tm.message_id
        WHERE tm.owner_id = %(owner)s AND tm.topic_id = %(topic)s AND {conditions})"""
    return bool(fetched(sql, {"owner": owner_id, "topic": _number(id), **values})[0][0])


def _delivered(story: Story, chosen: Fate, wanted: Wanted) -> Fate:
    """Whether what was chosen entered the context."""
    if kind_of(chosen.id) != "Topic" or not story.finished or not story.finished.context:
        return chosen
    try:
        handed_over = recall_document.part_text(story.run, "topics")
    except LookupError:
        return chosen
    texts = [wanted.message.text] if wanted.message else _texts(story, chosen.id)
    if not texts or any(_is_in(text.strip(), handed_over) for text in texts):
        return chosen
    return replace(chosen, stage="not_in_context", case="message" if wanted.message else "")


def _used(story: Story, chosen: Fate) -> Fate:
    """Whether what the assistant said uses it, where that was sent."""
    stored = story.run.delivered or {}
    if chosen.stage != "chosen" or chosen.id not in stored.get("unused", ()):
        uses = {use["id"]: use["how"] for use in stored.get("uses", ())}
        return replace(chosen, numbers={**chosen.numbers, "used": uses.get(chosen.id, "")})
    return replace(chosen, stage="not_used", case="")


def _is_in(text: str, handed_over: str) -> bool:
    """Whether the context contains the message; a text without letters cannot tell."""
    return not text or quoted(text)[:200] in handed_over


def _question(story: Story, lost: Fate, wanted: Wanted, threshold: float, searched: Research | None) -> LostItem:
    now = live_number(wanted.now) if kind_of(lost.id) == "Topic" else 0
    if searched is None and now and needs_search(lost.stage):
        searched = research(story, _pairs(story, wanted, lost.stage), threshold)
    return LostItem(story, lost, now, searched)


def _pairs(story: Story, wanted: Wanted, stage: str) -> list[tuple[int, int]]:
    now = live_number(wanted.now)
    return partners(story.run.owner_id, now) if now and tries_merges(stage) else []
