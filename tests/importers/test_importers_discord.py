"""Discord: who the user is, what is said beside the words, notices, several channels."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memoryapp.importers import Hints, LeftOut, MessageRecord, UnknownSpeaker, UnreadableFile, open_chat
from tests.importers.other_chats import discord, discord_message
from tests.support.chats import sorted_out, written


def records(path: Path, **hints: Any) -> list[MessageRecord]:
    found, rejected = sorted_out(path, **{"me": "-", **hints})
    assert rejected == []
    return found


def test_what_is_said_beside_the_words_is_read(tmp_path: Path) -> None:
    """Fields as ``WriteMessageAsync`` of DiscordChatExporter writes them; a forwarded message has no content of its own
    (issue 1322 there)."""
    files = [{"id": "9", "url": "general_Files/plan-1.pdf", "fileName": "plan.pdf", "fileSizeBytes": 3}]
    embed = {"title": "Ferry", "description": "Times", "fields": [{"name": "Mon", "value": "9:00"}]}
    forwarded = {"timestamp": "2025-12-31T10:00:00+00:00", "content": "Look at this", "attachments": [], "stickers": []}
    path = written(
        tmp_path,
        discord(
            discord_message(1, "See", attachments=files),
            discord_message(2, "", embeds=[embed]),
            discord_message(3, "", stickers=[{"id": "1", "name": "wave"}]),
            discord_message(4, "", forwardedMessage=forwarded, reference={"type": "Forward", "messageId": "77"}),
            discord_message(5, "yes", "oleg", type="Reply", reference={"messageId": "1", "channelId": "2"}),
            discord_message(6, "Joined the server.", "oleg", type="GuildMemberJoin"),
        ),
    )
    found = records(path)
    assert [record.text for record in found] == [
        "[file: plan.pdf]\nSee",
        "Ferry\nTimes\nMon: 9:00",
        "[sticker: wave]",
        "Look at this",
        "yes",
        "Joined the server.",
    ]
    assert [record.reply_to for record in found] == ["", "", "", "", "discord:2:1", ""]
    assert found[3].forwarded_from
    assert [record.role for record in found] == ["peer"] * 5 + ["system"]
    assert found[0].metadata["attachments"] == [{"name": "plan.pdf", "path": "general_Files/plan-1.pdf"}]


def test_a_poll_has_no_words_in_the_export_and_is_counted(tmp_path: Path) -> None:
    """Issue 64 of slatinsky/DiscordChatExporter-frontend: polls are not exported, their messages are blank."""
    path = written(tmp_path, discord(discord_message(1), discord_message(2, "")))
    items = list(open_chat(path, hints=Hints(me="-")).records())
    assert [type(item) for item in items] == [MessageRecord, LeftOut]


def test_the_user_is_found_by_name_by_the_title_of_a_direct_chat_or_asked_for(tmp_path: Path) -> None:
    both = (discord_message(1), discord_message(2, who="oleg"))
    path = written(tmp_path, discord(*both))
    assert [record.role for record in records(path, me="", owner="mira")] == ["user", "peer"]
    assert [record.role for record in records(path, me="id-oleg")] == ["peer", "user"]
    with pytest.raises(UnknownSpeaker) as asked:
        open_chat(path, hints=Hints(owner="nobody"))
    assert asked.value.speakers == ["Mira", "Oleg"]
    direct = written(tmp_path, discord(*both, type="DirectTextChat", name="oleg"), "direct.json")
    assert [record.role for record in records(direct, me="", owner="nobody")] == ["user", "peer"]


def test_a_bot_in_a_direct_chat_is_an_assistant(tmp_path: Path) -> None:
    bot = {"id": "9", "name": "helper", "isBot": True}
    path = written(tmp_path, discord(discord_message(1, author=bot), discord_message(2), type="DirectTextChat"))
    assert [record.role for record in records(path, me="mira")] == ["assistant", "user"]


@pytest.mark.parametrize("form", ["zip", "folder"])
def test_the_channels_of_a_server_are_read_together(tmp_path: Path, form: str) -> None:
    """DiscordChatExporter names a file after server, channel and id; a person who was named need not speak in each."""
    channels = {
        "Garden - Text - general [2].json": discord(discord_message(1), discord_message(2, who="oleg")),
        "Garden - Text - ferries [3] [part 2].json": discord(discord_message(3, who="oleg"), id="3", name="ferries"),
    }
    path = tmp_path / "server"
    path.mkdir()
    for name, value in channels.items():
        (path / name).write_text(json.dumps(value))
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "server.zip", "w") as archive:
            for file in path.iterdir():
                archive.write(file, f"exports/{file.name}")
        path = tmp_path / "server.zip"
    chat = open_chat(path, hints=Hints(me="mira"))
    found = sorted((item.external_id, item.role) for item in chat.records() if isinstance(item, MessageRecord))
    assert found == [("discord:2:1", "user"), ("discord:2:2", "peer"), ("discord:3:3", "peer")]
    assert [(each.name, each.count) for each in chat.chats()] == [("ferries", 1), ("general", 2)]
    only = open_chat(path, hints=Hints(me="mira", chats=frozenset(["general"])))
    assert [type(item) for item in only.records()].count(LeftOut) == 1
    with pytest.raises(UnreadableFile, match="no chat “boats”.*It has: ferries, general"):
        open_chat(path, hints=Hints(me="mira", chats=frozenset(["boats"])))
