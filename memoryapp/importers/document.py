r"""The JSON in a file or in an exported archive, read whole, within bounds.

Real exports break the rules of JSON: Telegram Desktop writes control characters as ``\x0B``, which no
parser takes, and hand-made files hold raw ones. Both are mended here. What cannot be read is a
sentence with its place, and neither a huge file nor a tower of brackets is more than that.
"""

from __future__ import annotations

import codecs
import json
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from memoryapp.importers.record import UnreadableFile

MOST_BYTES = 1_000_000_000

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)
_EXPORTED = re.compile(r"(?:.*/)?(?:conversations[^/]*|result)\.json")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def parse(text: str) -> Any:
    """The JSON value of ``text``. Raises ValueError, whose text says what is wrong and where."""
    try:
        return _decode(text)
    except ValueError:
        if "\\x" not in text:
            raise
    return _decode(_ESCAPE.sub(_mended, text))


def _decode(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ValueError(_("it is nested too deeply")) from None


def _mended(escape: re.Match[str]) -> str:
    # Every escape is matched, so that the x of an escaped backslash (``\\x0B``) is left alone.
    return f"\\u00{escape[1][1:]}" if len(escape[1]) == 3 else escape[0]


def check(path: Path) -> None:
    """Raises UnreadableFile unless ``path`` is a file of a size that can be read."""
    if not path.exists():
        raise UnreadableFile(_("There is no file %(path)s.") % {"path": path})
    if not path.is_file():
        raise UnreadableFile(_("%(path)s is not a file.") % {"path": path})
    _check_size(path, path.stat().st_size)


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise UnreadableFile(
            _("%(path)s holds %(size)s MB; at most %(most)s MB can be read at once.")
            % {"path": path, "size": f"{size // 1_000_000:,}", "most": f"{MOST_BYTES // 1_000_000:,}"}
        )


def encoding(path: Path) -> str:
    """UTF-16 when the file says so in its first bytes (as PowerShell writes), else UTF-8."""
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in _UTF_16 else "utf-8-sig"


def load(path: Path) -> Any:
    """The document of a JSON file; of a zip archive, the conversations in it as one list."""
    if zipfile.is_zipfile(path):
        return _load_archive(path)
    return _document(path, path.read_bytes())


def _document(path: Path, raw: bytes) -> Any:
    try:
        return parse(raw.decode("utf-16" if raw[:2] in _UTF_16 else "utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            _("%(path)s is not UTF-8 text (byte %(place)s).") % {"path": path, "place": error.start}
        ) from None
    except ValueError as error:
        raise UnreadableFile(_("%(path)s is not valid JSON: %(error)s.") % {"path": path, "error": error}) from None


def _load_archive(path: Path) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            members = sorted(name for name in archive.namelist() if _EXPORTED.fullmatch(name))
            _check_size(path, sum(archive.getinfo(name).file_size for name in members))
            documents = [_document(path / name, archive.read(name)) for name in members]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise UnreadableFile(_("%(path)s cannot be unpacked: %(error)s.") % {"path": path, "error": error}) from None
    if not documents:
        raise UnreadableFile(_("%(path)s holds neither conversations.json nor result.json.") % {"path": path})
    if len(documents) == 1:
        return documents[0]
    return [conversation for document in documents if isinstance(document, list) for conversation in document]
