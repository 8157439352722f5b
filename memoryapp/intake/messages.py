"""Stores messages in a memory, some thousands at a time. Each batch is a short transaction, and a message that the
memory already has is not changed. So an import can be repeated, also after it was killed."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from django.db import connection, transaction
from django.utils.translation import gettext as _

from memoryapp.engine.sight import Sight, into, sight
from memoryapp.importers.record import MessageRecord, Rejected
from memoryapp.memory import content, guard, sessions
from memoryapp.models import ChatUser, ImportBatch, Message
from memoryapp.platform import database
from memoryapp.platform.caps import check_room
from memoryapp.platform.cells import of_owner
from memoryapp.platform.sights import copying

BATCH = 5000


_KNOWN = (
    "SELECT external_id, project, content_hash, batch_id FROM memoryapp_message "
    "WHERE owner_id = %s AND external_id = ANY(%s::text[])"
)
# Hexadecimal digits of the content hash in the id of another text of a message.
_DIGITS = 16
# Characters of a changed message's new text that a report shows.
MOST_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class Added:
    """The result for records: how many are new, how many were known (``own`` of them in the same batch). ``rejected``
    records have the id of another message; those of them that are another text of a message in the memory are
    ``changed``. ``guarded`` counts new ones that the guard ``marked``, ``masked`` or ``held``."""

    added: int
    skipped: int
    rejected: tuple[Rejected, ...] = ()
    own: int = 0
    changed: tuple[MessageRecord, ...] = ()
    guarded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sorted:
    """Records compared with the memory: ``new`` ones, and how many are in the same batch (``own``) or not (``known``).
    ``refused`` and ``changed`` are records with the id of another message, as in ``Added``."""

    new: Sequence[MessageRecord]
    own: int
    known: int
    refused: Sequence[Rejected]
    changed: Sequence[MessageRecord]


@of_owner
def add_messages(owner: ChatUser, records: Iterable[MessageRecord], *, batch: ImportBatch | None = None) -> Added:
    """Stores the records that are not in the owner's memory yet, ``BATCH`` at a time. Raises BeingErased, and
    QuotaReached before a batch that does not fit."""
    added = skipped = own = 0
    rejected: list[Rejected] = []
    changed: list[MessageRecord] = []
    guarded: Counter[str] = Counter()
    rest = iter(records)
    while part := list(islice(rest, BATCH)):
        with transaction.atomic():
            # One writer for each owner: batches with the same ids in different orders would deadlock.
            database.acquire_until_commit("messages", owner.pk)
            content.check_kept(owner)
            found = sort_out(owner, part, batch)
            check_room(owner, [record.text for record in found.new])
            guarded += store(owner, found.new, batch)
            if batch is None:
                # Found by the next search; those of a file get their passages from the worker.
                sessions.renew(owner, {record.session for record in found.new})
        added, skipped, own = added + len(found.new), skipped + found.known + found.own, own + found.own
        rejected += found.refused
        changed += found.changed
    return Added(added, skipped, tuple(rejected), own, tuple(changed), guarded)


def sort_out(owner: ChatUser, records: Sequence[MessageRecord], batch: ImportBatch | None = None) -> Sorted:
    """Compares the records with the owner's memory and with each other."""
    found = _known(owner, [record.external_id for record in records])
    mine = batch.pk if batch else None
    new: dict[tuple[str, str], MessageRecord] = {}
    own = known = 0
    differing: list[tuple[MessageRecord, bool]] = []
    for record in records:
        if (stored := _stored(found, record.external_id, record.project)) is not None:
            hash, is_own = stored[0], mine is not None and stored[1] == mine
        elif (first := new.setdefault((record.project, record.external_id), record)) is record:
            continue
        else:
            hash, is_own = first.content_hash, True
        if hash != record.content_hash:
            differing.append((record, is_own))
        elif is_own:
            own += 1
        else:
            known += 1
    wordings = [wording_id(record) for record, is_own in differing if not is_own]
    taken = _known(owner, wordings) if wordings else {}
    refused = [
        (record, is_own)
        for record, is_own in differing
        if is_own or _stored(taken, wording_id(record), record.project) is None
    ]
    changed = [record for record, is_own in refused if not is_own]
    conflicts = [id_conflict(record, is_own=is_own) for record, is_own in refused]
    return Sorted(list(new.values()), own, known + len(differing) - len(refused), conflicts, changed)


def wording_id(record: MessageRecord) -> str:
    """Returns the external id of this text of a message when the memory holds the message with another text."""
    return f"{record.external_id[: 300 - _DIGITS - 1]}~{record.content_hash[:_DIGITS]}"


# Hash and batch of messages by their ids, and of each by its project.
Known = dict[str, dict[str, tuple[str, int | None]]]


def _stored(known: Known, id: str, project: str) -> tuple[str, int | None] | None:
    """The message of that id. In another project the same id is another message; where none is named, a person may have
    given the message a label since."""
    by_project = known.get(id, {})
    named = project or into()
    return by_project.get(named) or (None if named else next(iter(by_project.values()), None))


def _known(owner: ChatUser, ids: list[str]) -> Known:
    """Returns the messages with these ids. The ids are one parameter, because thousands of parameters take longer than
    the query. The planner estimates that thousands of index searches cost more than a scan of all messages, but the ids
    of a batch are close together in the index, and a few pages contain them all."""
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(_KNOWN, [owner.pk, _array(ids)])
        known: Known = {}
        for id, project, hash, batch in cursor.fetchall():
            known.setdefault(id, {})[project] = hash, batch
        return known


def _array(ids: list[str]) -> str:
    """Returns the ids as the text of an array. psycopg takes six times as long for it. No id contains NUL."""
    joined = "\0".join(ids).replace("\\", r"\\").replace('"', r"\"")
    return '{"' + joined.replace("\0", '","') + '"}' if ids else "{}"


def take_statistics() -> None:
    """Updates the statistics of messages and owners, after the first thousands of messages of an import.

    Without them the planner assumes that a new chat user has few messages, and finds known messages by reading all of
    the user's messages for each batch instead of by id. Autovacuum, which runs once a minute, is too late for an import
    that takes a minute."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE (SKIP_LOCKED) {Message._meta.db_table} (owner_id, external_id)")


def id_conflict(record: MessageRecord, *, is_own: bool = False) -> Rejected:
    """Returns the rejection of a record with the id of another message in the memory, or in its own file."""
    reason = _("the id %(id)s is already another message's (other text or time); that one was kept")
    known_id = "" if is_own else record.external_id
    text = record.text[:MOST_SHOWN]
    return Rejected(record.line, reason % {"id": record.external_id}, record.user, known_id, text)


# What a record and its row have in common.
SAID = (
    *("external_id", "role", "author", "sent_at", "text", "session", "reply_to", "forwarded_from"),
    *("metadata", "content_hash"),
)
_COLUMNS = ("owner_id", "batch_id", "is_withdrawn", *SAID, "project")
# Rows that are sent to the database at once; it stores them while the next ones are made.
_ROWS_AT_ONCE = 200


def store(
    owner: ChatUser, records: Iterable[MessageRecord], batch: ImportBatch | None, *, is_withdrawn: bool = False
) -> Counter[str]:
    """Stores new messages by COPY, which takes a tenth of the time of ``bulk_create``, as the guard lets them pass.
    Returns how many it marked, masked or held; a message that is withdrawn anyway is not held."""
    table, columns, chosen = Message._meta.db_table, ", ".join(_COLUMNS), guard.policies(owner, holds=not is_withdrawn)
    number, command = batch.pk if batch else r"\N", f"COPY {table} ({columns}) FROM STDIN"
    found: dict[str, guard.GuardVerdict] = {}
    rest, seen = iter(records), sight()
    with copying() as cursor, cursor.copy(command) as copy:
        while part := list(islice(rest, _ROWS_AT_ONCE)):
            verdicts = [guard.verdict(record.text, record.metadata, chosen) for record in part]
            found |= {record.external_id: each for record, each in zip(part, verdicts, strict=True) if each}
            rows = [_row(*both, is_withdrawn, seen) for both in zip(part, verdicts, strict=True)]
            copy.write("".join(f"{owner.pk}\t{number}\t{row}\n" for row in rows))
    named = Message.objects.of(owner).filter(external_id__in=list(found)) if found else ()
    guard.note((message, found[message.external_id]) for message in named)
    return Counter(str(each.state) for each in found.values())


def _row(record: MessageRecord, found: guard.GuardVerdict | None, is_withdrawn: bool, seen: Sight) -> str:
    """Returns a record's columns in the text format of COPY; psycopg's ``write_row`` takes three times as long. The
    hash is that of the text as it arrived, by which the message is known when it comes again."""
    metadata = found.metadata if found else record.metadata
    columns = (
        "t" if is_withdrawn or (found and found.state == guard.State.HELD) else "f",
        record.external_id,
        record.role,
        record.author,
        record.sent_at.isoformat(),
        found.text if found else record.text,
        record.session,
        record.reply_to,
        record.forwarded_from,
        json.dumps(metadata) if metadata else "{}",
        record.content_hash,
        # A limited actor writes into its own project, whatever the record says.
        seen.into if seen.projects is not None else record.project or seen.into,
    )
    # No column contains NUL (``storable``), so NUL separates the columns until their own tabs are escaped.
    row = "\0".join(columns).replace("\\", r"\\").replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
    return row.replace("\0", "\t")
