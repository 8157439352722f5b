"""The program that opens one file: it reads the bytes from standard input and writes one JSON object. Run as ``python
-m memoryapp.memory.document_child KIND``; KIND is text, pdf or docx. The object has ``text``, ``pages`` (0 if the
format has none) and ``is_cut``, or ``fault``: encrypted, malformed, bomb or limits."""

import io
import json
import logging
import resource
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping

MOST_CHARS = 200_000
MOST_PAGES = 300
# A Word file is an archive: limits on its unpacked size, on that of the parts that are parsed, which take twenty times
# as much in memory, and on the number of parts.
MOST_UNPACKED_BYTES = 100_000_000
MOST_XML_BYTES = 20_000_000
MOST_PARTS = 5_000
MEMORY_BYTES = 800_000_000
CPU_SECONDS = 60

Extracted = dict[str, object]


class _Fault(Exception):
    """Why there is no text, in one word."""


def main(kind: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    # The libraries log details about a file; the fault is all that the parent needs.
    logging.disable(logging.CRITICAL)
    content = sys.stdin.buffer.read()
    try:
        found = READERS[kind](content)
    except _Fault as fault:
        found = {"fault": str(fault)}
    except MemoryError:
        found = {"fault": "limits"}
    except Exception:  # noqa: BLE001 - a broken file raises whatever its library did not expect
        found = {"fault": "malformed"}
    sys.stdout.write(json.dumps(found))


def _of_text(content: bytes) -> Extracted:
    encodings = ("utf-16",) if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1251")
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        return _bounded([text], pages=0)
    raise _Fault("malformed")


def _of_pdf(content: bytes) -> Extracted:
    from pypdf import PdfReader  # noqa: PLC0415 - the limits are set before a library is loaded

    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise _Fault("encrypted")
    count = len(reader.pages)
    pages = (reader.pages[number].extract_text() for number in range(min(count, MOST_PAGES)))
    found = _bounded(pages, pages=count)
    return {**found, "is_cut": found["is_cut"] or count > MOST_PAGES}


def _of_docx(content: bytes) -> Extracted:
    from docx import Document  # noqa: PLC0415 - the limits are set before a library is loaded

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
        size = sum(part.file_size for part in parts)
        # What is no image is parsed, whatever its name is.
        parsed = sum(part.file_size for part in parts if not part.filename.startswith("word/media/"))
        if len(parts) > MOST_PARTS or size > MOST_UNPACKED_BYTES or parsed > MOST_XML_BYTES:
            raise _Fault("bomb")
        if any(part.flag_bits & 1 for part in parts):
            raise _Fault("encrypted")
    document = Document(io.BytesIO(content))
    return _bounded(_lines(document.iter_inner_content()), pages=0)


def _lines(blocks: Iterable[object]) -> Iterator[str]:
    """Yields the text of paragraphs, and of tables row by row."""
    for block in blocks:
        rows = getattr(block, "rows", None)
        if rows is None:
            yield str(getattr(block, "text", ""))
        else:
            yield from ("\t".join(cell.text for cell in row.cells) for row in rows)


def _bounded(texts: Iterable[str], pages: int) -> Extracted:
    """Joins the texts, up to ``MOST_CHARS``."""
    found: list[str] = []
    size = 0
    for text in texts:
        found.append(text[: MOST_CHARS - size])
        size += len(text) + 1
        if size > MOST_CHARS:
            break
    return {"text": "\n".join(found), "pages": pages, "is_cut": size > MOST_CHARS + 1}


READERS: Mapping[str, Callable[[bytes], Extracted]] = {"text": _of_text, "pdf": _of_pdf, "docx": _of_docx}

if __name__ == "__main__":
    main(sys.argv[1])
