"""The bytes of a chat, from a file, a gzip file, or the files of an exported zip archive. They are read as UTF-8 in
pieces, so a file of any size takes the memory of one piece. Unpacked bytes are counted, because the size in a header
may be wrong; a file that unpacks to far more than a chat is refused."""

import codecs
import gzip
import io
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar, cast

from django.utils.translation import gettext as _

from memoryapp.importers import external
from memoryapp.importers.record import UnreadableFile

# How long a file may be read, and whether anybody still waits for it.
#
# A file comes from strangers and may be made to be read without an end. Whatever reads one calls ``check`` at every
# piece, so that reading ends after a time that its size allows, and soon after a person discards the file.

# Seconds of processor time in which a reader has to yield something, and one more for each of these bytes that it read.
# It is not time on the clock, because a busy machine is no fault of the file.
FIRST_SECONDS = 60.0
BYTES_A_SECOND = 200_000
# Seconds between the questions whether the file is still wanted.
ASK_SECONDS = 0.5

Item = TypeVar("Item")


class Unwanted(Exception):
    """Nobody waits for the file any longer."""


@dataclass(slots=True)
class Patience:
    """``ask`` raises an exception when the file is no longer wanted. It is called in the thread that made this, which
    may wait for a reader in another thread; that one then ends with Unwanted. ``too_long`` returns the error of a file
    on which all time was spent."""

    ask: Callable[[], None] = lambda: None
    too_long: Callable[[], UnreadableFile] = UnreadableFile
    _owner: int = field(default_factory=threading.get_ident)
    _asked: float = 0.0
    _is_stopped: bool = False
    _reader: int = 0
    _began: float = 0.0
    _bytes: int = 0

    def begin(self) -> None:
        """Begins to read; nobody has stopped it yet."""
        self._is_stopped = False
        self.renew()

    def renew(self) -> None:
        """Gives the reader, which is the calling thread, its whole time again."""
        self._reader, self._began, self._bytes = threading.get_ident(), time.thread_time(), 0

    def stop(self) -> None:
        """Lets a reader in another thread end at its next piece."""
        self._is_stopped = True

    def check(self, read: int = 0) -> None:
        """Counts ``read`` more bytes. Raises Unwanted, UnreadableFile, and what ``ask`` raises."""
        if self._is_stopped:
            raise Unwanted
        self.still_wanted()
        if threading.get_ident() != self._reader:
            self.renew()
        self._bytes += read
        if time.thread_time() - self._began > FIRST_SECONDS + self._bytes / BYTES_A_SECOND:
            raise self.too_long()

    def still_wanted(self) -> None:
        """Asks, but not too often and only in the thread that made this. Raises what ``ask`` raises."""
        if threading.get_ident() == self._owner and time.monotonic() - self._asked >= ASK_SECONDS:
            self._asked = time.monotonic()
            self.ask()

    def for_each(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """Yields the items; the reader has its whole time for each of them."""
        self.renew()
        for item in items:
            yield item
            self.renew()


MOST_BYTES = 1_000_000_000
# Chats are packed to a tenth or a twentieth of their size, a file of zeros to a thousandth.
MOST_RATIO = 200
UNSUSPICIOUS_BYTES = 20_000_000
# The directory of an archive is read whole; this size is enough for about 200,000 files.
MOST_LISTED_BYTES = 20_000_000
PIECE = 65_536
# How many files of a folder are looked at.
MOST_FILES = 20_000

_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"

Pieces = Iterator[bytes]


@dataclass(slots=True)
class Meter:
    """How many of a file's ``size`` bytes on the disk were read. The whole file is read ``passes`` times. ``patience``
    is asked at each piece whether to read on."""

    size: int
    read: int = 0
    passes: int = 1
    patience: Patience = field(default_factory=Patience)

    @property
    def share(self) -> float:
        return min(1.0, self.read / max(1, self.size * self.passes))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file, or the file ``member`` of a zip archive. ``packing`` is ``gzip``, ``zip`` or empty."""

    path: Path
    packing: str = ""
    member: str = ""
    meter: Meter = field(default_factory=lambda: Meter(0), compare=False)

    @property
    def name(self) -> str:
        return str(self.path / self.member) if self.member else str(self.path)

    @contextmanager
    def opened(self, change: Callable[[Pieces], Pieces] | None = None) -> Iterator[IO[bytes]]:
        """Yields the bytes as UTF-8, without a byte order mark, after ``change``. Reading may raise UnreadableFile."""
        with closing(self._pieces()) as pieces:
            text = _utf8(pieces)
            joined: io.RawIOBase = _Joined(change(text) if change else text)
            with io.BufferedReader(joined, PIECE) as file:
                yield file

    def _pieces(self) -> Generator[bytes, None, None]:
        try:
            with self.path.open("rb") as file, self._unpack(file) as stream:
                yield from self._count(file, stream)
        except EOFError:
            raise _cut_off(self.name) from None
        except (zipfile.BadZipFile, gzip.BadGzipFile, NotImplementedError, RuntimeError, zlib.error) as error:
            raise UnreadableFile(
                _("%(path)s cannot be unpacked: %(error)s.") % {"path": self.name, "error": error}
            ) from None

    @contextmanager
    def _unpack(self, file: IO[bytes]) -> Iterator[IO[bytes]]:
        if self.packing == "gzip":
            with gzip.GzipFile(fileobj=file) as stream:
                yield cast(IO[bytes], stream)
        elif self.packing == "zip":
            with zipfile.ZipFile(file) as archive, archive.open(self.member) as stream:
                yield stream
        else:
            yield file

    def _count(self, file: IO[bytes], stream: IO[bytes]) -> Iterator[bytes]:
        total, began, counted = 0, file.tell() if self.packing == "zip" else 0, self.meter.read
        while piece := stream.read(PIECE):
            total += len(piece)
            packed = file.tell() - began
            self.meter.read = counted + max(0, packed)
            self._check(total, packed)
            self.meter.patience.check(len(piece))
            yield piece

    def _check(self, total: int, packed: int) -> None:
        if total > MOST_BYTES:
            raise too_large(self.name, total)
        if self.packing and total > UNSUSPICIOUS_BYTES and total > MOST_RATIO * max(packed, 1):
            raise UnreadableFile(
                _("%(path)s unpacks to more than %(ratio)s times its size: no chat does, so it was not read further.")
                % {"path": self.name, "ratio": MOST_RATIO}
            )


class _Joined(io.RawIOBase):
    """A stream of the pieces."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def sources(
    path: Path, members: Callable[[Sequence[str]], list[str]], ask: Callable[[], None] = lambda: None
) -> list[SourceFile]:
    """Returns the file itself, or those files of an exported archive that ``members`` chooses from their names. ``ask``
    is called while they are read, and ends it by an exception. Raises UnreadableFile and OSError."""
    if not path.exists():
        raise UnreadableFile(_("There is no file %(path)s.") % {"path": path})
    if path.is_dir():
        return _in_folder(path, members, ask)
    if not path.is_file():
        raise UnreadableFile(_("%(path)s is not a file.") % {"path": path})
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise too_large(str(path), size)
    meter = Meter(size, patience=Patience(ask, lambda: _too_long(path)))
    meter.patience.begin()
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == _GZIP:
        return [SourceFile(path, "gzip", meter=meter)]
    if start == _ZIP:
        return [SourceFile(path, "zip", name, meter) for name in _members(path, members)]
    return [SourceFile(path, meter=meter)]


def _in_folder(path: Path, members: Callable[[Sequence[str]], list[str]], ask: Callable[[], None]) -> list[SourceFile]:
    """Returns the chats in a folder, such as an archive that was unpacked. Raises UnreadableFile."""
    names = [str(each.relative_to(path)) for each in islice(path.rglob("*"), MOST_FILES) if each.is_file()]
    chosen = members(names)
    if not chosen:
        external.refuse(str(path), external.archive(names))
        raise UnreadableFile(_("%(path)s is a folder without a chat: name the file of the chat.") % {"path": path})
    size = sum((path / name).stat().st_size for name in chosen)
    if size > MOST_BYTES:
        raise too_large(str(path), size)
    meter = Meter(size, patience=Patience(ask, lambda: _too_long(path)))
    meter.patience.begin()
    return [_plain(path / name, meter) for name in chosen]


def _plain(path: Path, meter: Meter) -> SourceFile:
    with path.open("rb") as file:
        return SourceFile(path, "gzip" if file.read(2) == _GZIP else "", meter=meter)


def too_large(name: str, size: int) -> UnreadableFile:
    return UnreadableFile(
        _("%(path)s holds %(size)s MB; at most %(most)s MB can be read at once.")
        % {"path": name, "size": f"{size // 1_000_000:,}", "most": f"{MOST_BYTES // 1_000_000:,}"}
    )


def _too_long(path: Path) -> UnreadableFile:
    return UnreadableFile(
        _("%(path)s takes far longer to read than a chat of its size: it is damaged or no chat; export it again.")
        % {"path": path}
    )


def not_utf8(name: str, fault: UnicodeDecodeError, where: str) -> UnreadableFile:
    """Returns the error for bytes that are not UTF-8. A file that ends within a character was cut off."""
    if fault.reason == "unexpected end of data":
        return _cut_off(name)
    return UnreadableFile(
        _("%(path)s is not UTF-8 text (%(where)s): save it as UTF-8.") % {"path": name, "where": where}
    )


def _cut_off(name: str) -> UnreadableFile:
    return UnreadableFile(_("%(path)s was cut off before its end: download or copy it again.") % {"path": name})


def _members(path: Path, members: Callable[[Sequence[str]], list[str]]) -> list[str]:
    """Returns the names of the chats in an archive, in order. Raises UnreadableFile."""
    if not zipfile.is_zipfile(path):
        raise _cut_off(str(path))
    if _listed_bytes(path) > MOST_LISTED_BYTES:
        raise UnreadableFile(
            _("%(path)s holds too many files; put the chat alone into an archive, or import it unpacked.")
            % {"path": path}
        )
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise UnreadableFile(_("%(path)s cannot be unpacked: %(error)s.") % {"path": path, "error": error}) from None
    if chosen := members(names):
        return chosen
    external.refuse(str(path), external.archive(names))
    raise UnreadableFile(
        _("%(path)s holds no chat: no JSON of a chat, no text of WhatsApp or KakaoTalk, no agent file, no JSON Lines.")
        % {"path": path}
    )


def _listed_bytes(path: Path) -> int:
    """The size of an archive's directory, by that of its records with which ``ZipFile`` will read it."""
    with path.open("rb") as file:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    return int(end[zipfile._ECD_SIZE])  # type: ignore[attr-defined]


def _utf8(pieces: Pieces) -> Pieces:
    """Converts UTF-16 to UTF-8, with or without a byte order mark (PowerShell writes one); keeps other bytes."""
    first = next(pieces, b"")
    encoding = _encoding(first)
    if encoding:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        yield decoder.decode(first).encode("utf-8", "replace")
        for piece in pieces:
            yield decoder.decode(piece).encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")
    else:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from pieces


def _encoding(first: bytes) -> str:
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # JSON begins with two ASCII characters, each of which has a zero byte in UTF-16.
    if len(first) >= 4 and first[1] == first[3] == 0 < first[0]:
        return "utf-16-le"
    return "utf-16-be" if len(first) >= 4 and first[0] == first[2] == 0 < first[1] else ""
