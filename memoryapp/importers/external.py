"""Exports of other programs that cannot be read; they are recognised so that the refusal can name them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memoryapp.importers.record import UnreadableFile
from memoryapp.importers.values import fields, items

_LINES_LOOKED_AT = 20
_PAGE_NAME = re.compile(r"(?:.*/)?messages\d*\.html")
_PACKAGE_NAME = re.compile(r"(?:.*/)?messages/c?\d+/messages\.(?:json|csv)", re.IGNORECASE)
_SLACK_NAMES = {"channels.json", "dms.json", "groups.json", "mpims.json"}

Kind = str | Promise

SLACK = gettext_lazy("a Slack export")
TAKEOUT = gettext_lazy("a Google Takeout export")
META = gettext_lazy("a Facebook or Instagram export")
ZEP = gettext_lazy("a dump of Zep")
GEMINI = gettext_lazy("a chat of Gemini CLI or Google AI Studio")
SIGNAL = gettext_lazy("a Signal export")
SKYPE = gettext_lazy("a Skype or Teams export")
LIBRECHAT = gettext_lazy("a LibreChat export")
LOBECHAT = gettext_lazy("a LobeChat export")
GROK = gettext_lazy("a Grok export")
DEEPSEEK = gettext_lazy("a DeepSeek export")
MATRIX = gettext_lazy("a Matrix export")
DISCORD_PACKAGE = gettext_lazy("a data package of Discord, which has only your own words (DiscordChatExporter has all)")
SILLY_TAVERN = gettext_lazy("a SillyTavern chat")
COPILOT = gettext_lazy("a GitHub Copilot chat")
PAGE = gettext_lazy("a web page (HTML)")
CHARACTER = gettext_lazy("an export of Character.AI")
ACTIVITY = gettext_lazy("an export of Copilot's activity")
INSTRUCTIONS = gettext_lazy("a data set of instructions, which has no chats")
CLAUDE_BESIDE = gettext_lazy("a part of Claude's export without chats (they are in conversations.json)")
LINE = gettext_lazy("a chat of LINE")
DISCORD_TEXT = gettext_lazy("a Discord export as text or CSV (export it again as JSON)")
TELEGRAM_PAGE = gettext_lazy("a Telegram export as a web page (export it again as machine-readable JSON)")


def _export_of(program: str) -> Promise:
    """Returns the kind of a program whose name is the same in all languages."""
    return format_lazy(gettext_lazy("an export of {program}"), program=program)


VK = _export_of("VK")
WECHAT = _export_of("WeChat")
VIBER = _export_of("Viber")
CLINE = _export_of("Cline")
QWEN = _export_of("Qwen")
OPENCODE = _export_of("OpenCode")
CURSOR = _export_of("Cursor")
MCP_MEMORY = _export_of("MCP Memory")
NEXTCHAT = _export_of("NextChat")
IMESSAGE = _export_of("imessage-exporter")
SMS_BACKUP = _export_of("SMS Backup & Restore")
IRC = _export_of("IRC")


# Another program's JSON is known by keys of the value at a path of names, where ``0`` is one of the first items of a
# list and ``*`` any of an object. They are from the programs' own exporters, or from what others wrote to read them.
_SHAPES: tuple[tuple[Kind, str, str], ...] = (
    (CLINE, "0", "ts type say"),
    (CLINE, "0", "ts type ask"),
    (SLACK, "0", "type ts user text"),
    (SLACK, "0", "id team_id profile"),
    (SLACK, "0", "id creator members"),
    (TAKEOUT, "0", "header title time"),
    (TAKEOUT, "messages 0", "creator created_date"),
    (TAKEOUT, "conversations 0 events 0", "conversation_id sender_id timestamp"),
    (META, "messages 0", "sender_name timestamp_ms"),
    (META, "messages 0", "senderName timestamp"),
    (ZEP, "messages 0", "role_type content"),
    (ZEP, "0", "role_type content"),
    (ZEP, "facts 0", "uuid fact"),
    (ZEP, "edges 0", "uuid fact"),
    (ZEP, "0", "uuid fact"),
    (ZEP, "sessions 0", "session_id user_id"),
    (ZEP, "episodes 0", "uuid content source"),
    (QWEN, "message", "role parts"),
    (QWEN, "data 0 chat history", "messages currentId"),
    (GEMINI, "", "sessionId projectHash"),
    (GEMINI, "0", "sessionId messageId message type"),
    (GEMINI, "0", "role parts"),
    (GEMINI, "history 0", "role parts"),
    (GEMINI, "", "chunkedPrompt"),
    (SIGNAL, "", "version backupTimeMs"),
    (SIGNAL, "chatItem", "chatId dateSent"),
    (SIGNAL, "", "sender date body quote"),
    (SIGNAL, "0", "sender date body quote"),
    (SIGNAL, "envelope", "source timestamp"),
    (SKYPE, "conversations 0", "MessageList"),
    (LIBRECHAT, "", "conversationId messages"),
    (LIBRECHAT, "0", "messageId parentMessageId isCreatedByUser"),
    (LOBECHAT, "", "exportType state"),
    (LOBECHAT, "", "data mode schemaHash"),
    (GROK, "conversations 0", "conversation responses"),
    (DEEPSEEK, "0 mapping * message", "fragments"),
    (DEEPSEEK, "mapping * message", "fragments"),
    (DEEPSEEK, "0 mapping * message", "inserted_at"),
    (DEEPSEEK, "mapping * message", "inserted_at"),
    (MATRIX, "", "room_name exported_by messages"),
    *((MATRIX, path, "event_id sender origin_server_ts") for path in ("messages 0", "chunk 0", "0", "")),
    *((SKYPE, path, "messageType body createdDateTime") for path in ("value 0", "messages 0", "0", "")),
    *((VK, path, "peer_id from_id text") for path in ("response items 0", "items 0", "0")),
    *((WECHAT, path, "type_name is_sender talker") for path in ("0", "")),
    (WECHAT, "messages 0", "localId createTime isSend"),
    (DISCORD_PACKAGE, "0", "ID Timestamp Contents"),
    (SILLY_TAVERN, "", "user_name character_name"),
    (COPILOT, "", "requesterUsername requests"),
    (COPILOT, "", "sessionId requests"),
    (COPILOT, "v", "requests"),
    (COPILOT, "", "type data id timestamp parentId"),
    (CURSOR, "", "composerId conversation"),
    (OPENCODE, "messages 0", "info parts"),
    (MCP_MEMORY, "", "entityType observations"),
    (MCP_MEMORY, "entities 0", "entityType observations"),
    (NEXTCHAT, "chat-next-web-store", "sessions"),
    (SLACK, "0", "type ts text"),
    (GEMINI, "contents 0", "role parts"),
    (CHARACTER, "histories 0", "msgs"),
    (CHARACTER, "histories histories 0", "msgs"),
    (CHARACTER, "turns 0", "turn_key candidates"),
    (CHARACTER, "chats 0 turns 0", "turn_key candidates"),
    (INSTRUCTIONS, "", "instruction output"),
    (INSTRUCTIONS, "", "prompt chosen rejected"),
    (INSTRUCTIONS, "0", "instruction output"),
    (INSTRUCTIONS, "0", "prompt chosen rejected"),
    (CLAUDE_BESIDE, "0", "uuid docs prompt_template"),
    (CLAUDE_BESIDE, "0", "uuid full_name email_address"),
    (CLAUDE_BESIDE, "0", "conversations_memory"),
)


def refuse(name: str, kind: Kind) -> None:
    """Raises UnreadableFile unless ``kind`` is empty."""
    if kind:
        raise UnreadableFile(_("%(path)s is %(kind)s; it cannot be read yet.") % {"path": name, "kind": kind})


def document(value: object) -> Kind:
    """Returns the kind of another program's JSON document, or empty; ``value`` may be only its beginning."""
    return next((kind for kind, path, keys in _SHAPES if _fits(value, path.split(), frozenset(keys.split()))), "")


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
    ("[LINE]", LINE),
    ("Conversation,Time,Author,Message", ACTIVITY),
    ("AuthorID,Author,Date,Content", DISCORD_TEXT),
    ("ID,Timestamp,Contents,Attachments", DISCORD_PACKAGE),
    ("MsgSvrID,type_name,is_sender", WECHAT),
    ("--- Log opened ", IRC),
)
# Lines by which a text is known; those of WhatsApp have another order.
_LINES = (
    (re.compile(r"^=+\nGuild: .*\nChannel: ", re.MULTILINE), DISCORD_TEXT),
    (re.compile(r"^(?:[^\W\d]{1,4} ?)?\d{1,2}:\d\d\t[^\t\n]{1,60}\t", re.MULTILINE), LINE),
    (re.compile(r"^\d\d/\d\d/\d{4},\d\d:\d\d:\d\d,[^,\n]{1,60},", re.MULTILINE), VIBER),
    (
        re.compile(
            r"^[A-Z][a-z]{2} \d\d, \d{4} {1,2}\d{1,2}:\d\d:\d\d [AP]M(?: \(Read by [^)\n]{1,80}\))?$", re.MULTILINE
        ),
        IMESSAGE,
    ),
)


def text(beginning: str) -> Kind:
    """Returns the kind of a text that is not JSON, or empty."""
    beginning = beginning.lstrip("\ufeff \r\n")[:2_000].replace("\r\n", "\n")
    if beginning.lower().startswith(("<!doctype html", "<html")):
        return TELEGRAM_PAGE if "<title>Exported Data</title>" in beginning else PAGE
    if beginning.startswith("<?xml") and "<smses" in beginning:
        return SMS_BACKUP
    first = beginning.partition("\n")[0].replace('"', "")
    by_line = (kind for expression, kind in _LINES if expression.search(beginning))
    return next((kind for start, kind in _BEGINNINGS if first.startswith(start)), "") or next(by_line, "")


def archive(names: Sequence[str]) -> Kind:
    """Returns the kind of an archive with these files, or empty."""
    if any(name.startswith("Takeout/") for name in names):
        return TAKEOUT
    # An export that was unpacked and packed again has a folder around it.
    top = {name.rpartition("/")[2] for name in names if name.count("/") < 2}
    if "users.json" in top and _SLACK_NAMES & top:
        return SLACK
    if any(_PACKAGE_NAME.fullmatch(name) for name in names):
        return DISCORD_PACKAGE
    return PAGE if any(_PAGE_NAME.fullmatch(name) for name in names) else ""


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
