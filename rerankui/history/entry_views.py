"""Entries of the history as pages show them, with the texts that each changed, word by word. The texts are summaries of
topics and the values of people, facts and artifacts; only what differs is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.curation import knowledge
from memoryapp.curation.history import HistoryEntry, Topics
from memoryapp.engine.memory import topic_id
from memoryapp.models import KnowledgeEdit, Topic, TopicEdit
from rerankui.text import words
from rerankui.text.differences import Difference, difference

Kind = TopicEdit.Kind
MOST_SOURCES = 4


@dataclass(frozen=True, slots=True)
class Rewording:
    """``label`` says of what, empty where there is only one thing it could be of. A row that came or went has nothing
    to be compared with: its ``values`` stand under their names instead."""

    label: str
    difference: Difference | None
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EntryView:
    """An entry with the texts that it changed, and its consequence in numbers. ``took_back`` is the change that it
    undid, where a list folds both into one row."""

    entry: HistoryEntry
    rewordings: tuple[Rewording, ...]
    tally: str = ""
    took_back: EntryView | None = None

    @property
    def has_more(self) -> bool:
        """Whether there is more to see than its line."""
        record = self.entry.record
        return bool(self.rewordings or record.call_id or record.kind == Kind.ARCHIVE)


def entry_views(entries: Iterable[HistoryEntry]) -> list[EntryView]:
    return [EntryView(entry, tuple(_rewordings(entry)), _tally(entry)) for entry in entries]


def pairs_folded(views: Iterable[EntryView]) -> list[EntryView | None]:
    """The views in their order; one that an undo in the list took back is None and stands within that undo's row."""
    listed = list(views)
    places = {(view.entry.source, view.entry.record.pk): place for place, view in enumerate(listed)}
    folded: list[EntryView | None] = [*listed]
    for place, view in enumerate(listed):
        undoer = view.entry.undone_by
        at = places.get((view.entry.source, undoer.pk)) if undoer else None
        shown = folded[at] if at is not None else None
        if at is not None and shown is not None and shown.entry.takes_back and shown.took_back is None:
            # Both say the same: the undo's own difference is that of the change, the other way round.
            folded[at] = replace(shown, took_back=view, rewordings=())
            folded[place] = None
    return folded


def field_rewordings(noun: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Rewording]:
    """How each of a row's values differs; values as people write them, a list line by line."""
    fields = [name for name in dict.fromkeys((*knowledge.EDITABLE[noun], "recall")) if name in before or name in after]
    pairs = (
        (label(noun, name), form_value(noun, name, before.get(name)), form_value(noun, name, after.get(name)))
        for name in fields
    )
    return [Rewording(name, difference(old, new)) for name, old, new in pairs if old != new]


def label(noun: str, name: str) -> str:
    return str(knowledge.MODELS[noun]._meta.get_field(name).verbose_name)  # type: ignore[union-attr]


def form_value(noun: str, name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if name == "recall" and not value:
        return _("as usual")
    choices = dict(getattr(knowledge.MODELS[noun]._meta.get_field(name), "flatchoices", ()))
    return str(choices.get(value, value))


def _rewordings(entry: HistoryEntry) -> Iterator[Rewording]:
    record = entry.record
    if isinstance(record, KnowledgeEdit):
        # One after another, those of a merge under the names of its people.
        for number in record.after:
            before, after = record.before[number], record.after[number]
            is_one = len(record.after) == 1
            if before is None or after is None:
                whole = tuple(_values(record.noun, before or after or {}))
                yield Rewording("" if is_one else entry.names[number], None, whole)
                continue
            for found in field_rewordings(record.noun, before, after):
                yield found if is_one else Rewording(f"{entry.names[number]}: {found.label}", found.difference)
    elif record.kind == Kind.MERGE and entry.put.count == 1:
        yield from _of_sources(entry)
    elif entry.out.count and entry.put.count:
        changed = difference(*_summaries(entry.out, entry.put))
        if changed:
            yield Rewording("", changed)


def _of_sources(entry: HistoryEntry) -> Iterator[Rewording]:
    """What each of the topics that were merged gave for the summary of the new one, and what it lost."""
    [merged] = entry.put.shown
    for source in entry.out.shown[:MOST_SOURCES]:
        changed = difference(source.summary, merged.summary)
        yield Rewording(topic_id(source.pk), changed) if changed else Rewording(_kept_words(source), changed)


def _kept_words(source: Topic) -> str:
    return _("%(topic)s: its summary stays") % {"topic": topic_id(source.pk)}


def _values(noun: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A whole row: the name and the text of each value, without the empty ones."""
    for name in knowledge.EDITABLE[noun]:
        if text := form_value(noun, name, values.get(name)):
            yield label(noun, name), text.replace("\n", ", ")


def _summaries(out: Topics, put: Topics) -> tuple[str, str]:
    """Both sides' summaries, a line each, without those that merely went to another number."""
    stays = Counter(topic.summary for topic in out.shown) & Counter(topic.summary for topic in put.shown)
    return _lines_but(out, stays.copy()), _lines_but(put, stays)


def _lines_but(topics: Topics, stays: Counter[str]) -> str:
    lines = []
    for topic in topics.shown:
        if stays[topic.summary]:
            stays[topic.summary] -= 1
        else:
            lines.append(topic.summary)
    return "\n".join(lines)


def _tally(entry: HistoryEntry) -> str:
    record = entry.record
    if isinstance(record, KnowledgeEdit):
        return ""
    if entry.moved is not None:
        return words.messages(entry.moved)
    if record.kind == Kind.ARCHIVE:
        return words.messages(sum(topic.message_count for topic in entry.put.shown)) if not entry.put.more else ""
    if entry.out.more or entry.put.more:
        return ""
    before, after = (sum(topic.message_count for topic in side.shown) for side in (entry.out, entry.put))
    if before == after:
        return words.messages(after) if after else ""
    return _("%(before)d → %(after)d messages") % {"before": before, "after": after}
