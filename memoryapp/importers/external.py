"""Exports of other programs that cannot be read; they are recognised so that the refusal can name them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.engine.beside import table_beside
from memoryapp.importers.record import UnreadableFile
from memoryapp.importers.values import fields, items

_LINES_LOOKED_AT = 20
_PAGE_NAME = re.compile(r"(?:.*/)?messages\d*\.html")
_PACKAGE_NAME = re.compile(r"(?:.*/)?messages/c?\d+/messages\.(?:json|csv)", re.IGNORECASE)
_SLACK_NAMES = {"channels.json", "dms.json", "groups.json", "mpims.json"}

Kind = str | Promise

_TABLES = table_beside(__file__)
_KINDS: Mapping[str, Kind] = {
    "SLACK": gettext_lazy("a Slack export"),
    "TAKEOUT": gettext_lazy("a Google Takeout export"),
    "META": gettext_lazy("a Facebook or Instagram export"),
    "ZEP": gettext_lazy("a dump of Zep"),
    "GEMINI": gettext_lazy("a chat of Gemini CLI or Google AI Studio"),
    "SIGNAL": gettext_lazy("a Signal export"),
    "SKYPE": gettext_lazy("a Skype or Teams export"),
    "LIBRECHAT": gettext_lazy("a LibreChat export"),
    "LOBECHAT": gettext_lazy("a LobeChat export"),
    "GROK": gettext_lazy("a Grok export"),
    "DEEPSEEK": gettext_lazy("a DeepSeek export"),
    "MATRIX": gettext_lazy("a Matrix export"),
    "DISCORD_PACKAGE": gettext_lazy(
        "a data package of Discord, which has only your own words (DiscordChatExporter has all)"
    ),
    "SILLY_TAVERN": gettext_lazy("a SillyTavern chat"),
    "COPILOT": gettext_lazy("a GitHub Copilot chat"),
    "PAGE": gettext_lazy("a web page (HTML)"),
    "CHARACTER": gettext_lazy("an export of Character.AI"),
    "ACTIVITY": gettext_lazy("an export of Copilot's activity"),
    "INSTRUCTIONS": gettext_lazy("a data set of instructions, which has no chats"),
    "CLAUDE_BESIDE": gettext_lazy("a part of Claude's export without chats (they are in conversations.json)"),
    "LINE": gettext_lazy("a chat of LINE"),
    "DISCORD_TEXT": gettext_lazy("a Discord export as text or CSV (export it again as JSON)"),
    "TELEGRAM_PAGE": gettext_lazy("a Telegram export as a web page (export it again as machine-readable JSON)"),
    **{
        kind: format_lazy(gettext_lazy("an export of {program}"), program=program)
        for kind, program in _TABLES["programs"].items()
    },
}
_SHAPES = [
    (_KINDS[kind], () if path == "." else path.split("/"), frozenset(keys))
    for kind, path, *keys in map(str.split, _TABLES["shapes"].splitlines())
]


def refuse(name: str, kind: Kind) -> None:
    """Raises UnreadableFile unless ``kind`` is empty."""
    if kind:
        raise UnreadableFile(_("%(path)s is %(kind)s; it cannot be read yet.") % {"path": name, "kind": kind})


def document(value: object) -> Kind:
    """Returns the kind of another program's JSON document, or empty; ``value`` may be only its beginning."""
    return next((kind for kind, path, keys in _SHAPES if _fits(value, path, keys)), "")


def _fits(value: object, path: Sequence[str], keys: frozenset[str]) -> bool:
    if not path:
        own = fields(value).keys()
        # A message of our own format has these; those of other programs lack a part of them.
        is_ours = {"id", "text"} <= own and not {"role", "ts"}.isdisjoint(own)
        return keys <= own and not is_ours
    here, rest = path[0], path[1:]
    if here == "0":
        return any(_fits(item, rest, keys) for item in items(value)[:_LINES_LOOKED_AT])
    if here == "*":
        return any(_fits(item, rest, keys) for item in list(fields(value).values())[:_LINES_LOOKED_AT])
    return here in fields(value) and _fits(fields(value)[here], rest, keys)


# How the first line of a text begins, or the head of a table; as the programs or their exporters write it.
_BEGINNINGS: tuple[tuple[str, Kind], ...] = (
    ("[LINE]", _KINDS["LINE"]),
    ("Conversation,Time,Author,Message", _KINDS["ACTIVITY"]),
    ("AuthorID,Author,Date,Content", _KINDS["DISCORD_TEXT"]),
    ("ID,Timestamp,Contents,Attachments", _KINDS["DISCORD_PACKAGE"]),
    ("MsgSvrID,type_name,is_sender", _KINDS["WECHAT"]),
    ("--- Log opened ", _KINDS["IRC"]),
)
# Lines by which a text is known; those of WhatsApp have another order.
_LINES = (
    (re.compile(r"^=+\nGuild: .*\nChannel: ", re.MULTILINE), _KINDS["DISCORD_TEXT"]),
    (re.compile(r"^(?:[^\W\d]{1,4} ?)?\d{1,2}:\d\d\t[^\t\n]{1,60}\t", re.MULTILINE), _KINDS["LINE"]),
    (re.compile(r"^\d\d/\d\d/\d{4},\d\d:\d\d:\d\d,[^,\n]{1,60},", re.MULTILINE), _KINDS["VIBER"]),
    (
        re.compile(
            r"^[A-Z][a-z]{2} \d\d, \d{4} {1,2}\d{1,2}:\d\d:\d\d [AP]M(?: \(Read by [^)\n]{1,80}\))?$", re.MULTILINE
        ),
        _KINDS["IMESSAGE"],
    ),
)


def text(beginning: str) -> Kind:
    """Returns the kind of a text that is not JSON, or empty."""
    beginning = beginning.lstrip("\ufeff \r\n")[:2_000].replace("\r\n", "\n")
    if beginning.lower().startswith(("<!doctype html", "<html")):
        return _KINDS["TELEGRAM_PAGE"] if "<title>Exported Data</title>" in beginning else _KINDS["PAGE"]
    if beginning.startswith("<?xml") and "<smses" in beginning:
        return _KINDS["SMS_BACKUP"]
    first = beginning.partition("\n")[0].replace('"', "")
    by_line = (kind for expression, kind in _LINES if expression.search(beginning))
    return next((kind for start, kind in _BEGINNINGS if first.startswith(start)), "") or next(by_line, "")


def archive(names: Sequence[str]) -> Kind:
    """Returns the kind of an archive with these files, or empty."""
    if any(name.startswith("Takeout/") for name in names):
        return _KINDS["TAKEOUT"]
    # An export that was unpacked and packed again has a folder around it.
    top = {name.rpartition("/")[2] for name in names if name.count("/") < 2}
    if "users.json" in top and _SLACK_NAMES & top:
        return _KINDS["SLACK"]
    if any(_PACKAGE_NAME.fullmatch(name) for name in names):
        return _KINDS["DISCORD_PACKAGE"]
    return _KINDS["PAGE"] if any(_PAGE_NAME.fullmatch(name) for name in names) else ""


def refuse_lines(name: str, line: Mapping[str, Any]) -> NoReturn:
    """Raises UnreadableFile for JSON Lines; ``line`` is the first of them."""
    refuse(name, document(line) or document([line]))
    raise UnreadableFile(
        _(
            "%(path)s is JSON Lines of another kind: its first line holds %(fields)s. A line here holds user and "
            "messages, and a message id, role, ts and text."
        )
        % {"path": name, "fields": ", ".join(str(field)[:30] for field in list(line)[:6]) or "{}"}
    )
