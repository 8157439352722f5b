"""Reads a file to its end and changes nothing, so that a person can see what an import would bring. The findings are a
JSON document, because they are stored in the row of the file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from memoryapp.importers import ChatFile, MessageRecord, Rejected
from memoryapp.intake.imports import Addressee, Course, Imported, NamedMessages, import_for
from memoryapp.intake.messages import BATCH
from memoryapp.memory import guard
from memoryapp.memory.forecast import ArchiveForecast
from memoryapp.memory.sessions import limits
from memoryapp.models import ChatUser, Message

MOST_SAMPLES = 4
MOST_SPEAKERS = 20
MOST_SHOWN = 50
MOST_CHARS = 500


@dataclass(slots=True)
class Findings:
    """What a rehearsal found. Times are ISO 8601; ``speakers`` and ``users`` have counts, the most frequent first.

    ``added``, ``skipped`` and ``changed`` are the numbers that the import would report; ``taken`` counts the changed
    texts that it stored, ``artifacts`` the documents from the same zip, ``guarded`` in how many messages the guard
    finds something, by kind. ``borrowed`` messages have a neighbour's time,
    ``counted`` ones a time counted from the given start, and ``timeless`` ones were rejected because they have none.
    ``rejected_reasons`` and ``left_out`` count by reason: what cannot be taken, and what does not belong to what is
    imported.
    ``tokens`` would be sent to the embedding model, ``chat_tokens`` to the chat model; dollars are None if the price
    is not known. ``restores`` counts the rows of each kind if the file is the export of a whole memory, ``brings`` the
    new topics, facts, people and artifacts that another program had made of the messages, ``brought_before`` the known
    ones. ``chats`` are the chats to choose from, each with id, name, kind, count and the time of its last message;
    ``more_chats`` are not among them."""

    users: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    added: int = 0
    skipped: int = 0
    first: str = ""
    last: str = ""
    borrowed: int = 0
    counted: int = 0
    timeless: int = 0
    speakers: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    rejected: int = 0
    rejections: list[dict[str, Any]] = field(default_factory=list)
    rejected_reasons: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    changed: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    guarded: dict[str, int] = field(default_factory=dict)
    sessions: int = 0
    topics: int = 0
    tokens: int = 0
    chat_tokens: int = 0
    embedding_usd: float | None = None
    chat_usd: float | None = None
    cost_usd: float | None = None
    taken: int = 0
    artifacts: int = 0
    restores: dict[str, int] = field(default_factory=dict)
    brings: dict[str, int] = field(default_factory=dict)
    brought_before: dict[str, int] = field(default_factory=dict)
    chats: list[dict[str, Any]] = field(default_factory=list)
    more_chats: int = 0

    def document(self) -> dict[str, Any]:
        return asdict(self)


class _Observer:
    """Counts the records of an import."""

    def __init__(self, course: Course, owner: ChatUser) -> None:
        self.course, self.policies = course, guard.policies(owner)
        self.guarded: Counter[str] = Counter()
        self.count = 0
        self.times: Counter[str] = Counter()
        self.users: Counter[str] = Counter()
        self.speakers: Counter[tuple[str, str]] = Counter()
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.samples: list[dict[str, Any]] = []

    def observe(self, item: MessageRecord | Rejected, name: str) -> None:
        if not isinstance(item, MessageRecord):
            return
        record = item
        self.count += 1
        found = guard.verdict(record.text, record.metadata, self.policies)
        self.guarded.update(found.kinds if found else ())
        self.users[record.user] += 1
        self.speakers[record.author[:MOST_CHARS], record.role] += 1
        self.times[str(record.metadata.get("time_source", ""))] += 1
        self.first = min(self.first or record.sent_at, record.sent_at)
        self.last = max(self.last or record.sent_at, record.sent_at)
        if len(self.samples) < MOST_SAMPLES and record.role != "system" and record.text:
            text, at = (found.text if found else record.text)[:MOST_CHARS], record.sent_at.isoformat()
            self.samples.append({"author": record.author, "role": record.role, "at": at, "text": text})
        if self.count % BATCH == 0:
            self.course.stored(self.count)


def rehearse(owner: ChatUser, chat: ChatFile, addressee: Addressee, course: Course) -> Findings:
    """Returns what an import of ``chat`` would bring; calls ``course.stored`` for each batch. It may raise Paused."""
    forecast = ArchiveForecast.of(owner, limits(owner))
    observer = _Observer(course, owner)
    imported = import_for(chat, addressee, Course(dry_run=True, observe=observer.observe, coming=forecast.add_all))
    return Findings(
        users=[{"name": name, "count": count} for name, count in observer.users.most_common(MOST_SHOWN) if name],
        messages=observer.count,
        added=imported.added,
        skipped=imported.skipped,
        first=observer.first.isoformat() if observer.first else "",
        last=observer.last.isoformat() if observer.last else "",
        borrowed=observer.times["neighbour"],
        counted=observer.times["counted"],
        timeless=chat.clock.refused,
        # A notice of a messenger is nobody's message.
        speakers=[
            {"author": author, "role": role, "count": count}
            for (author, role), count in observer.speakers.most_common(MOST_SPEAKERS)
            if author or role != "system"
        ],
        samples=observer.samples,
        rejected=imported.rejected.count,
        rejections=rejections(imported.rejected),
        rejected_reasons=reasons_of(imported.rejected),
        left_out=dict(imported.left_out),
        changed=imported.changed.count,
        changes=_changes(owner, imported, observer.policies),
        guarded=dict(observer.guarded),
        sessions=forecast.sessions,
        topics=forecast.topics,
        tokens=forecast.tokens,
        chat_tokens=forecast.chat_tokens,
        embedding_usd=forecast.embedding_usd,
        chat_usd=forecast.chat_usd,
        cost_usd=forecast.cost_usd,
    )


def rejections(rejected: NamedMessages) -> list[dict[str, Any]]:
    """Returns the first rejections, each with its place and the reason."""
    return [{"line": item.line, "reason": item.reason[:MOST_CHARS]} for item in rejected.items[:MOST_SHOWN]]


def reasons_of(rejected: NamedMessages) -> dict[str, int]:
    """Returns how many of the named messages each reason rejects, the most frequent first."""
    return dict(Counter(item.reason[:MOST_CHARS] for item in rejected.items).most_common(MOST_SHOWN))


def _changes(owner: ChatUser, imported: Imported, chosen: guard.Policies) -> list[dict[str, Any]]:
    """Returns the changed messages of this memory, each with its text here and in the file."""
    found: Sequence[Rejected] = imported.changed.items[:MOST_SHOWN]
    rows: Mapping[str, Message] = {
        row.external_id: row
        for row in Message.objects.of(owner).filter(external_id__in=[item.known_id for item in found])
    }
    return [
        {
            "line": item.line,
            "id": item.known_id,
            "pk": row.pk,
            "old": row.text[:MOST_CHARS],
            "new": (looked.text if (looked := guard.verdict(item.text, {}, chosen)) else item.text)[:MOST_CHARS],
        }
        for item in found
        if (row := rows.get(item.known_id))
    ]
