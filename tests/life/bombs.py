"""Small files and bodies that fill the memory of a reader that counts nothing, and every reader with its own.
``measure`` feeds each reader its bomb and then an honest file, in a process of its own, and prints what became of them
with the seconds of the processor and the growth in MB."""

import gzip
import io
import json
import os
import resource
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from django.test import RequestFactory
from pypdf import PdfWriter
from pypdf.generic import EncodedStreamObject, NameObject

from memoryapp.doors.api.urls import api
from memoryapp.doors.traces import wire
from memoryapp.importers import Rejected, open_chat
from memoryapp.insight import capsules
from memoryapp.insight.evaluation.questions import read_questions
from memoryapp.intake.transfer import restoring
from memoryapp.memory import documents
from tests.intake import files

Read = Callable[[bytes, Path], object]


class Bomb(NamedTuple):
    """``says`` is a part of the sentence that refuses the bomb; empty where it is read within bounds."""

    read: Read
    bomb: Callable[[], bytes]
    good: Callable[[], bytes]
    says: str


@dataclass(frozen=True)
class Outcome:
    bomb: str
    good: str
    seconds: float
    grown: int


def objects(count: int) -> bytes:
    """JSON objects of seven bytes each, which take two hundred in memory."""
    return b'{"":0},' * count + b"{}"


def field(number: int, content: bytes) -> bytes:
    """A field of protobuf with its length."""
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def spans(number: int, count: int) -> bytes:
    """A request with one span in which an empty field is repeated."""
    return field(1, field(2, field(2, field(number, b"") * count)))


def archive(members: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in members.items():
            written.writestr(name, content)
    return target.getvalue()


def many_members() -> bytes:
    """An archive whose end says that its directory is empty, while the record for large archives knows better."""
    target = io.BytesIO()
    entry = b"PK\x01\x02" + bytes(24) + b"\x01\x00" + bytes(16) + b"a"
    count = 1_500_000
    target.write(b"PK\x03\x04" + entry * count)
    size = len(entry) * count
    numbers = (44).to_bytes(8, "little") + bytes(12) + count.to_bytes(8, "little") * 2
    target.write(b"PK\x06\x06" + numbers + size.to_bytes(8, "little") + (4).to_bytes(8, "little"))
    target.write(b"PK\x06\x07" + bytes(4) + (4 + size).to_bytes(8, "little") + bytes(4))
    target.write(b"PK\x05\x06" + bytes(4) + b"\xff\xff\xff\xff" + bytes(4) + b"\xff\xff\xff\xff" + bytes(2))
    return target.getvalue()


def database(rows: int) -> bytes:
    """A database of laplaced in which one text is as large as a database may hold."""
    with closing(sqlite3.connect("")) as made:
        columns = "id INTEGER PRIMARY KEY, user_id, topic_id, role, content, created_at"
        made.execute(f"CREATE TABLE history ({columns})")
        made.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO history "
            "SELECT i, 1, NULL, 'user', CASE WHEN i = 2 THEN zeroblob(60000000) ELSE 'Hello' END, '2025-07-25 14:00:00'"
            " FROM n",
            (rows,),
        )
        made.commit()
        return made.serialize()


def word(paragraphs: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(files.word("Hello"))) as source:
        members = {name: source.read(name) for name in source.namelist()}
    members["word/document.xml"] = members["word/document.xml"].replace(b"<w:body>", b"<w:body>" + paragraphs)
    return archive(members)


def deflated_pdf() -> bytes:
    """A page whose content is filled with what unpacks to hundreds of megabytes."""

    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    stream = EncodedStreamObject()
    stream._data = zlib.compress(b"q " * 30_000_000, 9)
    stream[NameObject("/Filter")] = NameObject("/FlateDecode")
    page[NameObject("/Contents")] = writer._add_object(stream)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def conversation(count: int = 3, extra: bytes = b"") -> bytes:
    said = [{"id": f"m{n}", "role": "user", "ts": f"2025-07-25T14:0{n}:00Z", "text": "Hello"} for n in range(count)]
    return b'{"messages":' + json.dumps(said).encode() + (b',"x":[' + extra + b"]" if extra else b"") + b"}\n"


def body(content: bytes, _folder: Path) -> object:
    return api.parser.parse_body(RequestFactory().generic("POST", "/v1/messages", content))


def traces(kind: str) -> Read:
    def read(content: bytes, _folder: Path) -> object:
        return wire.spans_in(wire.unpacked(content, "gzip"), kind)

    return read


def capsule(content: bytes, _folder: Path) -> object:
    try:
        return capsules.opened(content)
    except capsules.CapsuleError as error:
        if "The events" in str(error) or "Field required" in str(error):
            return None
        raise


def chat(name: str) -> Read:
    def read(content: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(content)
        for record in open_chat(path).records():
            if isinstance(record, Rejected):
                raise ValueError(record.reason)
        return None

    return read


def export(content: bytes, folder: Path) -> object:
    path = folder / "memory.jsonl"
    path.write_bytes(content)
    return restoring.outline(path)


def document(kind: str) -> Read:
    def read(content: bytes, _folder: Path) -> object:
        return documents.read(content, kind)

    return read


def questions(content: bytes, folder: Path) -> object:
    path = folder / "golden.jsonl"
    path.write_bytes(content)
    return read_questions(path)


PROTOBUF, JSON = traces("application/x-protobuf"), traces("application/json")
QUESTION = b'{"user": "anna", "question": "What?", "evidence": ["m1"]}\n'
EXPORT = b'{"mnemoscope": 1, "user": "anna"}\n{"mnemoscope": "end", "lines": 1}\n'
CAPSULE = b'{"format":"mnemoscope-run"}'


def packed(content: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: gzip.compress(content(), mtime=0)


BOMBS: dict[str, Bomb] = {
    "body": Bomb(body, lambda: b"[" + objects(1_490_000) + b"]", lambda: b"{}", "at most 1,000,000 values"),
    "body, nested": Bomb(body, lambda: b"[" * 10_000_000, lambda: b"{}", "at most 1,000,000 values"),
    **{
        f"traces, {name}": Bomb(PROTOBUF, packed(made), packed(lambda: spans(5, 1)), "more than 1,000,000 values")
        for name, made in {
            "resources": lambda: b"\x0a\x00" * 9_900_000,
            "attributes": lambda: spans(9, 9_900_000),
            "events": lambda: spans(11, 9_900_000),
        }.items()
    },
    "traces, few enough": Bomb(PROTOBUF, packed(lambda: spans(9, 999_000)), packed(lambda: spans(5, 1)), ""),
    "traces, JSON": Bomb(
        JSON,
        packed(lambda: b'{"x":[' + objects(2_800_000) + b"]}"),
        packed(lambda: b"{}"),
        "more than 1,000,000 values",
    ),
    "capsule": Bomb(
        capsule, lambda: b'{"x":[' + objects(2_800_000) + b"]}", lambda: CAPSULE, "more than 1,000,000 values"
    ),
    "chat, one conversation": Bomb(
        chat("chat.json"), lambda: conversation(3, objects(1_600_000)), conversation, "more than 3,000,000 values"
    ),
    "chat, a line": Bomb(
        chat("chat.jsonl"),
        lambda: conversation() + conversation(3, objects(2_200_000)),
        lambda: conversation() * 2,
        "more than 1,000,000 values",
    ),
    "chat, gzip": Bomb(
        chat("chat.json.gz"),
        packed(lambda: conversation(3, objects(20_000_000))),
        packed(conversation),
        "more than 200 times its size",
    ),
    "chat, zip": Bomb(
        chat("chat.zip"),
        lambda: archive({"chat.json": conversation(3, objects(20_000_000))}),
        lambda: archive({"chat.json": conversation()}),
        "more than 200 times its size",
    ),
    "chat, a zip of many": Bomb(
        chat("chat.zip"), many_members, lambda: archive({"chat.json": conversation()}), "holds too many files"
    ),
    "chat, database": Bomb(chat("chat.db"), lambda: database(3), lambda: database(1), "cannot be read"),
    "export": Bomb(
        export,
        lambda: b'{"mnemoscope":1,"x":[' + objects(2_200_000) + b"]}\n",
        lambda: EXPORT,
        "more than 1,000,000 values",
    ),
    "word": Bomb(document("docx"), lambda: word(b"<w:p/>" * 15_000_000), lambda: word(b""), "far too large"),
    "word, few enough": Bomb(document("docx"), lambda: word(b"<w:p/>" * 3_000_000), lambda: word(b""), ""),
    "word, nested": Bomb(
        document("docx"), lambda: word(b"<w:p>" * 1_500_000 + b"</w:p>" * 1_500_000), lambda: word(b""), "damaged"
    ),
    "pdf": Bomb(document("pdf"), deflated_pdf, lambda: files.pdf("Hello"), "file"),
    "questions": Bomb(
        questions, lambda: b"[" + objects(1_600_000) + b"]", lambda: QUESTION, "more than 3,000,000 values"
    ),
}


def measured(name: str, folder: Path) -> Outcome:
    """What a process of its own says of a bomb and of an honest file after it."""
    bomb = BOMBS[name]
    contents = bomb.bomb(), bomb.good()
    output, given = os.pipe()
    if not os.fork():
        before = _peak()
        said = [_said(bomb.read, content, folder) for content in contents]
        seconds = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        os.write(given, json.dumps(asdict(Outcome(*said, seconds, max(_peak() - before, children)))).encode())
        os._exit(0)
    os.close(given)
    os.wait()
    with os.fdopen(output) as file:
        return Outcome(**json.loads(file.read()))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _said(read: Read, content: bytes, folder: Path) -> str:
    try:
        read(content, folder)
    except Exception as refusal:  # noqa: BLE001 the sentence is compared
        return str(refusal) or type(refusal).__name__
    return ""


def measure(folder: str) -> None:
    """Prints the name and the outcome of each, a line each, as JSON."""
    for name in BOMBS:
        print(json.dumps([name, asdict(measured(name, Path(folder)))]), flush=True)
