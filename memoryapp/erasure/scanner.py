"""The scanner: looks for the words of a receipt in every column of the database and every file of the data folder.

It uses only the receipt, and imports no module of the erasure, so that a mistake there cannot hide residue. It asks
the database for its columns, so it also reads tables without a model: text, JSON, arrays and binary values, everything
except numbers, times and vectors. It reads the bytes of files, and the content of gzip, zlib and zip.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.scripts import JOINERS, MARK_RANGES, UNSPACED_RANGES
from memoryapp.models import Erasure
from memoryapp.platform.embedded import paths
from memoryapp.platform.statements import fetched

MOST_FOUND = 1_000
_SIZE = 8
# How many levels of JSON inside strings of JSON are read.
_LEVELS = 4
_PIECE = 1_000_000
_OVERLAP = 8_192
_MOST_UNPACKED = 200_000_000
_AT_ONCE = 500
# No row's number has more digits; Python refuses to read numbers of thousands of digits.
_MOST_DIGITS = 18
# The least length of texts that are remembered when nothing was found in them, and how many are remembered.
_WORTH_REMEMBERING = 200
_MOST_REMEMBERED = 200_000
_WORDS = re.compile(r"\w+")
# Each character of a script without spaces, with its marks; and words with theirs.
_CHARACTERS = re.compile(
    rf"[{UNSPACED_RANGES}][{MARK_RANGES}]*"
    rf"|(?![{UNSPACED_RANGES}])\w(?:(?![{UNSPACED_RANGES}])[\w{MARK_RANGES}{JOINERS}])*"
)
# Normalising takes time in the square of the number of combining marks, so it gets one word at a time.
_PIECES = re.compile(r"\s+|\S{1,500}")
_JSON_ESCAPES = re.compile(r'\\(?:u[0-9a-fA-F]{4}|[bfnrt"/\\])')
# The words of a text search vector in the order of their positions.
_IN_ORDER = "(SELECT string_agg(word.lexeme, ' ' ORDER BY place) FROM unnest({}) word, unnest(word.positions) place)"
_LETTERS = {"b": " ", "f": " ", "n": "\n", "r": "\n", "t": " ", '"': '"', "/": "/", "\\": "\\"}
_SQL = table_beside(__file__)
COLUMNS: str = _SQL["columns"]


class UnreadableReceipt(Exception):
    """There is no such receipt, or it has no words to look for; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Residue:
    """Erased words that were found: ``place`` is a column and row of a table, or a file."""

    place: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the scanner needs of a receipt: keyed hashes of runs of words, and the lengths of the runs in words.
    ``share`` is the part of all runs of five words that has a hash; None if an earlier version made the receipt."""

    key: bytes
    lengths: tuple[int, ...]
    hashes: frozenset[bytes]
    share: float | None = 1.0
    # Digests of texts in which nothing was found: many files and rows often hold the same text.
    _clean: set[bytes] = field(default_factory=set, repr=False, compare=False)

    @classmethod
    def of(cls, salt: bytes, marks: bytes, lengths: Any, share: float | None = 1.0) -> Receipt:
        key = hashlib.blake2b(settings.SECRET_KEY.encode(), digest_size=32, key=salt).digest()
        parts = (marks[place : place + _SIZE] for place in range(0, len(marks), _SIZE))
        return cls(key, tuple(int(length) for length in lengths), frozenset(parts), share)

    @property
    def remark(self) -> str:
        """What is not looked for, as a sentence; empty if every run of words is."""
        return thinning(self.share)

    def is_in(self, text: str) -> bool:
        """Whether the text contains a run of erased words, directly or after its JSON escapes are decoded."""
        return any(self._is_in(part) for part in _parts(text))

    def _is_in(self, text: str) -> bool:
        if len(text) < _WORTH_REMEMBERING:
            return self._is_at_any_level(text)
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        if digest in self._clean:
            return False
        found = self._is_at_any_level(text)
        if not found and len(self._clean) < _MOST_REMEMBERED:
            self._clean.add(digest)
        return found

    def _is_at_any_level(self, text: str) -> bool:
        hashed: set[str] = set()
        for _level in range(_LEVELS):
            runs = self._runs(text)
            # Decoding changes a text only around its escapes: all other runs were hashed before.
            if not self.hashes.isdisjoint(self._marks(runs - hashed)):
                return True
            plain = _JSON_ESCAPES.sub(_unescaped, text)
            if plain == text:
                return False
            text, hashed = plain, hashed | runs
        return False

    def _runs(self, text: str) -> set[str]:
        """Returns each run of words in the text that is as long as one of the receipt."""
        plain = "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECES.findall(text)).casefold()
        found = _WORDS.findall(plain)
        # Receipts of versions up to 0.16.0 know no characters, so in these scripts both are looked for.
        by_character = [] if plain.isascii() else _CHARACTERS.findall(plain)
        return self._in_order(found) | (self._in_order(by_character) if by_character != found else set())

    def _in_order(self, found: list[str]) -> set[str]:
        return {
            run
            for length in self.lengths
            for run in map(" ".join, zip(*(found[first:] for first in range(length)), strict=False))
        }

    def _marks(self, runs: set[str]) -> Iterator[bytes]:
        # Copying the keyed state takes half the time of creating one.
        keyed = hashlib.blake2b(digest_size=_SIZE, key=self.key)
        for run in runs:
            state = keyed.copy()
            state.update(run.encode("utf-8", "replace"))
            yield state.digest()


def _parts(text: str) -> Iterator[str]:
    """Yields the text in overlapping parts, so that a long one needs the memory of a single part."""
    yield text[: _PIECE + _OVERLAP]
    for first in range(_PIECE, len(text) - _OVERLAP, _PIECE):
        yield text[first : first + _PIECE + _OVERLAP]


def share_of(stored: float | None, kind: Any) -> float | None:
    """The share of a receipt; earlier versions stored none and left out runs only of whole chat users."""
    return 1.0 if stored is None and kind != Erasure.Kind.USER else stored


def thinning(share: float | None) -> str:
    """What a receipt with this share of marks leaves out, as a sentence; empty if nothing."""
    if share is None:
        return _(
            "An earlier version made this receipt: of each text of a whole memory, three runs of five words are looked "
            "for."
        )
    if share >= 1:
        return ""
    likely = {"share": f"{share:.1%}", "longer": f"{1 - (1 - share) ** 16:.0%}"}
    return _(
        "The memory was large: an even selection of %(share)s of its runs of five words is looked for, which finds a "
        "quotation of twenty words in %(longer)s of the cases."
    ) % {name: text.replace("%", " %") for name, text in likely.items()}


def receipt(named: str) -> Receipt:
    """Returns the receipt with that number, or in that file. Raises UnreadableReceipt."""
    if named.isdecimal() and len(named) <= _MOST_DIGITS:
        row = Erasure.objects.filter(pk=int(named)).first()
        if row is None:
            raise UnreadableReceipt(_("There is no receipt %(number)s.") % {"number": named})
        found = Receipt.of(bytes(row.salt), bytes(row.marks), row.lengths, share_of(row.share, row.kind))
    else:
        found = _from_file(Path(named))
    if not found.hashes:
        raise UnreadableReceipt(
            _("This receipt holds no marks to look for: the erased texts are too short, or others contain them too.")
        )
    return found


def _from_file(path: Path) -> Receipt:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(values.get("receipt"), int):
            return receipt(str(values["receipt"]))
        salt, marks = base64.b64decode(values["salt"]), base64.b64decode(values["marks"])
        return Receipt.of(salt, marks, values["lengths"], share_of(values.get("share"), values.get("kind")))
    except OSError as error:
        raise UnreadableReceipt(
            _("%(path)s cannot be read: %(error)s.") % {"path": path, "error": error.strerror}
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnreadableReceipt(_("%(path)s is no receipt of an erasure.") % {"path": path}) from None


def residues(sought: Receipt) -> Iterator[Residue]:
    """Yields everything that is left, the database first: one residue for each row and each file."""
    yield from in_database(sought)
    yield from in_files(sought)


def verify(erasure: Erasure) -> None:
    """Looks for everything that is left of an erasure, and stores up to ``MOST_FOUND`` places in its receipt."""
    asked = timezone.now()
    try:
        found = [
            residue.place
            for residue, _count in zip(residues(receipt(str(erasure.pk))), range(MOST_FOUND), strict=False)
        ]
    except UnreadableReceipt:
        found = []
    erasure.residue, erasure.verified_at = found, timezone.now()
    erasure.save(update_fields=["residue", "verified_at"])
    Erasure.objects.filter(pk=erasure.pk, verify_asked_at__lte=asked).update(verify_asked_at=None)


def in_database(sought: Receipt) -> Iterator[Residue]:
    """Yields every value of every table that contains erased words."""
    columns = fetched(COLUMNS)
    for schema, table, column, kind, key in columns:
        for row, value in _values(schema, table, column, kind, key):
            if any(sought.is_in(text) for text in _texts(value, kind)):
                yield Residue(f"{table}.{column} {key} {row}".strip() if key else f"{table}.{column}")


def _values(schema: str, table: str, column: str, kind: str, key: str) -> Iterator[tuple[Any, Any]]:
    """Yields (first column of the row's key, value) of values that are not null; one batch of rows is in memory."""
    name = connection.ops.quote_name
    chosen_value = {"bytea": "{}", "tsvector": _IN_ORDER}.get(kind, "{}::text").format(name(column))
    chosen = f"{name(key)}::text" if key else "''"
    query = f"SELECT {chosen}, {chosen_value} FROM {name(schema)}.{name(table)} WHERE {name(column)} IS NOT NULL"
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from ((row, value) for row, value in rows if value is not None)


def _texts(value: Any, kind: str) -> Iterator[str]:
    if kind == "bytea":
        yield from _in_bytes(bytes(value))
    elif kind in ("json", "jsonb"):
        yield from _in_json(json.loads(value))
    else:
        yield value
        yield from _in_session(value)


def _in_json(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _in_json(item)
    elif isinstance(value, list):
        for item in value:
            yield from _in_json(item)


def _in_session(text: str) -> Iterator[str]:
    """Yields what Django compressed and signed: a dot, base64, then a time and a signature after colons."""
    if text.startswith("."):
        coded = text[1:].partition(":")[0]
        try:
            yield zlib.decompress(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4))).decode("utf-8", "replace")
        except (ValueError, zlib.error):
            return


def in_files(sought: Receipt) -> Iterator[Residue]:
    """Yields every file that contains erased words: in the data folder, and beside a database in another folder. The
    database's own files are left out: they contain pages, compressed values and the write-ahead log, not plain text."""
    cluster = paths.cluster(settings.DATA_DIR)
    tops = dict.fromkeys((settings.DATA_DIR, cluster.base, Path(settings.MEDIA_ROOT)))
    seen: set[Path] = set()
    for top in tops:
        for folder, inner, names in os.walk(top):
            inner[:] = sorted(name for name in inner if Path(folder, name) != cluster.data)
            for path in (Path(folder, name) for name in sorted(names)):
                # The way to the data folder is not of its making.
                inside = str(path.relative_to(top))
                if path not in seen and path.is_file() and (sought.is_in(inside) or _is_in_file(path, sought)):
                    yield Residue(str(path))
                seen.add(path)


def _is_in_file(path: Path, sought: Receipt) -> bool:
    try:
        with path.open("rb") as file:
            rest = b""
            while piece := file.read(_PIECE):
                if any(sought.is_in(text) for text in _decoded(rest + piece)):
                    return True
                rest = (rest + piece)[-_OVERLAP:]
            file.seek(0)
            start = file.read(4)
        packed = start[:2] == b"\x1f\x8b" or start[:1] == b"\x78" or start == b"PK\x03\x04"
        return packed and any(sought.is_in(text) for text in _unpacked(path.read_bytes()))
    except (FileNotFoundError, PermissionError):
        return False


def _in_bytes(value: bytes) -> Iterator[str]:
    yield from _decoded(value)
    yield from _unpacked(value)


def _decoded(value: bytes) -> Iterator[str]:
    """Yields the bytes as UTF-8 and, if they look like it, as UTF-16."""
    yield value.decode("utf-8", "replace")
    if value.count(0) * 4 > len(value):
        yield value.decode("utf-16-le", "replace")
        yield value.decode("utf-16-be", "replace")


def _unpacked(value: bytes) -> Iterator[str]:
    """Yields the content of gzip, zlib or zip."""
    if value[:4] == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(BytesIO(value)) as archive:
                for name in archive.namelist():
                    yield name
                    with archive.open(name) as member:
                        yield from _in_bytes(member.read(_MOST_UNPACKED))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError):
            return
    elif value[:2] == b"\x1f\x8b" or value[:1] == b"\x78":
        try:
            yield from _decoded(zlib.decompressobj(47).decompress(value, _MOST_UNPACKED))
        except zlib.error:
            return


def _unescaped(escape: re.Match[str]) -> str:
    found = escape[0][1:]
    return chr(int(found[1:], 16)) if found[0] == "u" else _LETTERS[found]
