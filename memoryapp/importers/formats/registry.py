"""The registry of formats. A format is a module with a ``Format`` value, which is listed here. No other code compares
names of formats."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from memoryapp.importers import external
from memoryapp.importers.format import DocumentLayout, Format, LinesLayout, TextLayout
from memoryapp.importers.formats.assistants import (
    chatgpt,
    claude,
    claude_code,
    codex,
    letta,
    open_webui,
    openai_messages,
)
from memoryapp.importers.formats.memories import jsonl, laplaced, mem0
from memoryapp.importers.formats.messengers import discord, kakaotalk, telegram, whatsapp

# By name, in the order in which they are tried. The last one recognises the most.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        claude_code.FORMAT,
        codex.FORMAT,
        telegram.FORMAT,
        discord.FORMAT,
        chatgpt.FORMAT,
        claude.FORMAT,
        open_webui.FORMAT,
        letta.FORMAT,
        kakaotalk.FORMAT,
        whatsapp.FORMAT,
        laplaced.FORMAT,
        mem0.FORMAT,
        openai_messages.FORMAT,
        jsonl.FORMAT,
    )
}
# An archive may hold documents beside a text, and logs of coding agents beside both.
_MEMBERS = (DocumentLayout, TextLayout, LinesLayout)
# Claude's export has, beside its conversations, a file of the name of OpenMemory's backup.
_CONVERSATIONS, _MEMORIES = "conversations*.json", "memories.json"


def members(names: Iterable[str]) -> list[str]:
    """Returns the names of an archive's files that are chats, sorted; all have one layout."""
    files = sorted(name for name in names if not name.startswith("__MACOSX/"))
    for kind in _MEMBERS:
        layouts = [layout for format in FORMATS.values() for layout in format.layouts if isinstance(layout, kind)]
        patterns = {pattern for layout in layouts for pattern in layout.members}
        found = [name for name in files if any(_is_called(name, each) for each in patterns)]
        if any(_is_called(name, _CONVERSATIONS) for name in found):
            found = [name for name in found if not _is_called(name, _MEMORIES)]
        if found:
            return found
    if external.archive(files):
        return []
    # Files that people named themselves are read if nothing else in the archive is a chat.
    named = ([name for name in files if name.lower().endswith(end)] for end in (".json", ".txt", ".csv"))
    return next(filter(None, named), [])


def _is_called(name: str, pattern: str) -> bool:
    return fnmatchcase(name.rpartition("/")[2], pattern)
