"""The registry of formats. A format is a module with a ``Format`` value, which is listed here.

No other code compares names of formats.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from memoryapp.importers import foreign
from memoryapp.importers.format import DocumentLayout, Format, LinesLayout, TextLayout
from memoryapp.importers.formats.assistants import (
    chatgpt,
    claude,
    coding_agents,
    letta,
    open_webui,
    openai_messages,
)
from memoryapp.importers.formats.memories import jsonl, laplaced, mem0
from memoryapp.importers.formats.messengers import discord, telegram, whatsapp

# By name, in the order in which they are tried. The last one recognises the most.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        coding_agents.CLAUDE_CODE,
        coding_agents.CODEX,
        telegram.FORMAT,
        discord.FORMAT,
        chatgpt.FORMAT,
        claude.FORMAT,
        open_webui.FORMAT,
        letta.FORMAT,
        whatsapp.FORMAT,
        laplaced.FORMAT,
        mem0.FORMAT,
        openai_messages.FORMAT,
        jsonl.FORMAT,
    )
}
# An archive may hold documents beside a text, and logs of coding agents beside both.
_MEMBERS = (DocumentLayout, TextLayout, LinesLayout)


def members(names: Iterable[str]) -> list[str]:
    """Returns the names of an archive's files that are chats, sorted; all have one layout."""
    files = sorted(name for name in names if not name.startswith("__MACOSX/"))
    for kind in _MEMBERS:
        layouts = [layout for format in FORMATS.values() for layout in format.layouts if isinstance(layout, kind)]
        patterns = {pattern for layout in layouts for pattern in layout.members}
        found = [name for name in files if any(fnmatchcase(name.rpartition("/")[2], each) for each in patterns)]
        if found:
            return found
    # Files that people named themselves are read if nothing else in the archive is a chat.
    return [] if foreign.archive(files) else [name for name in files if name.endswith(".json")]
