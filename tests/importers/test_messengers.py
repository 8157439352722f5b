"""Exports of Telegram, Discord and KakaoTalk, with the oddities real ones have."""

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memoryapp.importers import Hints, LeftOut, MessageRecord, UnknownSpeaker, UnreadableFile, open_chat
from tests.examples import table, text_of
from tests.support.chats import discord, discord_message, sent, sorted_out, telegram, written


class TestTelegram:
    def test_in_a_private_chat_the_peer_is_the_one_with_the_id_of_the_chat(self, tmp_path: Path) -> None:
        theirs = sent(2, **{"from": None, "from_id": "user7"})
        records, _rejected = sorted_out(written(tmp_path, telegram(sent(), theirs)))
        assert [(r.external_id, r.role, r.author) for r in records] == [
            ("telegram:7:1", "user", "Anna"),
            ("telegram:7:2", "peer", "Deleted account"),
        ]

    def test_an_old_export_with_bare_numbers_and_local_dates_is_read(self, tmp_path: Path) -> None:
        old = {"id": 1, "type": "message", "date": "2019-01-02T03:04:05", "from": "Boris", "from_id": 7, "text": "hi"}
        [record], _rejected = sorted_out(written(tmp_path, telegram(old)))
        assert (record.role, record.sent_at) == ("peer", datetime(2019, 1, 2, 3, 4, 5, tzinfo=UTC))

    def test_without_any_ids_the_peer_is_the_one_with_the_name_of_the_chat(self, tmp_path: Path) -> None:
        mine, theirs = sent(1), sent(2, **{"from": "Boris"})
        del mine["from_id"], theirs["from_id"]
        records, _rejected = sorted_out(written(tmp_path, telegram(mine, theirs)))
        assert [record.role for record in records] == ["user", "peer"]

    def test_a_bot_is_the_assistant(self, tmp_path: Path) -> None:
        chat = telegram(sent(), sent(2, **{"from": "Bot", "from_id": "user7"}), type="bot_chat")
        records, _rejected = sorted_out(written(tmp_path, chat))
        assert [record.role for record in records] == ["user", "assistant"]

    def test_in_a_group_only_the_owner_by_name_is_the_user(self, tmp_path: Path) -> None:
        path = written(tmp_path, telegram(sent(), sent(2, **{"from": "Clara"}), type="private_group"))
        assert [record.role for record in sorted_out(path, me="-")[0]] == ["peer", "peer"]
        assert [record.role for record in sorted_out(path, owner="anna")[0]] == ["user", "peer"]

    def test_an_account_export_knows_its_owner_in_every_chat(self, tmp_path: Path) -> None:
        saved = {"type": "saved_messages", "id": 1, "messages": [sent()]}
        group = telegram(sent(), sent(2, from_id="user9"), type="private_supergroup", id=70)
        account = {
            "personal_information": {"user_id": 1},
            "chats": {"about": "", "list": [saved, group]},
            "left_chats": {"list": [telegram(sent(5, from_id="channel3"), type="public_channel", id=3)]},
        }
        records, _rejected = sorted_out(written(tmp_path, account))
        assert [(record.external_id, record.role) for record in records] == [
            ("telegram:1:1", "user"),
            ("telegram:70:1", "user"),
            ("telegram:70:2", "peer"),
            ("telegram:3:5", "peer"),
        ]
        assert len({record.session for record in records}) == 3

    def test_control_characters_written_the_exporters_way_are_mended(self, tmp_path: Path) -> None:
        text = json.dumps(telegram(sent(text="a@b"), sent(2, text=r"C:\x0B")), indent=1).replace("a@b", r"a\x0Bb")
        records, _rejected = sorted_out(written(tmp_path, text))
        assert [record.text for record in records] == ["a\x0bb", r"C:\x0B"]

    # Invoices are in the smallest unit, by core.telegram.org/bots/payments/currencies.json.
    @pytest.mark.parametrize(("fields", "text"), table("telegram_contents"))
    def test_every_kind_of_content_becomes_words(self, tmp_path: Path, fields: dict[str, Any], text: str) -> None:
        [record], _rejected = sorted_out(written(tmp_path, telegram(sent(**fields))))
        assert record.text == text

    def test_what_a_message_has_beside_its_words_is_kept(self, tmp_path: Path) -> None:
        parts = [
            {"type": "text_link", "text": "here", "href": "https://x.org"},
            {"type": "plain", "text": " or "},
            {"type": "link", "text": "https://y.org"},
            {"type": "hashtag", "text": "#run"},
            {"type": "hashtag", "text": "#run"},
        ]
        message = sent(photo="photos/1.jpg", width=10, text_entities=parts, edited_unixtime="1744709460", views=12)
        [record], _rejected = sorted_out(written(tmp_path, telegram(message)))
        assert record.metadata == {
            "channel": "Boris",
            "channel_id": "7",
            "chat_type": "personal_chat",
            "message_id": 1,
            "from_id": "user1",
            "links": ["https://x.org", "https://y.org"],
            "hashtags": ["#run"],
            "media_types": ["photo"],
            "lang": "en",
            "edited": "2025-04-15T09:31:00+00:00",
            "photo": "photos/1.jpg",
            "width": 10,
            "views": 12,
        }

    def test_what_a_message_has_not_is_left_out_of_its_metadata(self, tmp_path: Path) -> None:
        voice = sent(media_type="voice_message", file="a.ogg", text="", edited="soon")
        records, _rejected = sorted_out(written(tmp_path, telegram(voice, sent(2, text="Привет, #мир"))))
        assert records[0].metadata["media_types"] == ["voice message"]
        assert records[0].metadata["edited"] == "soon"
        assert records[0].metadata.keys().isdisjoint({"links", "hashtags", "lang"})
        assert records[1].metadata["lang"] == "ru"

    @pytest.mark.parametrize(("fields", "text"), table("telegram_events"))
    def test_what_happened_in_a_chat_is_a_system_sentence(
        self, tmp_path: Path, fields: dict[str, Any], text: str
    ) -> None:
        service = {"id": 3, "type": "service", "date_unixtime": "1744698600", "actor": "Anna", "text": "", **fields}
        [record], _rejected = sorted_out(written(tmp_path, telegram(service)))
        assert (record.role, record.author) == ("system", "Anna")
        assert text in record.text

    def test_replies_and_forwards_keep_where_they_come_from(self, tmp_path: Path) -> None:
        here = sent(2, reply_to_message_id=1, forwarded_from=None)
        elsewhere = sent(3, reply_to_message_id=4, reply_to_peer_id="channel55", forwarded_from="News")
        records, _rejected = sorted_out(written(tmp_path, telegram(here, elsewhere)))
        assert [(r.reply_to, r.forwarded_from) for r in records] == [
            ("telegram:7:1", "Deleted account"),
            ("telegram:55:4", "News"),
        ]

    def test_the_unix_time_wins_over_the_local_date(self, tmp_path: Path) -> None:
        message = sent(date="2025-04-15T09:30:00", date_unixtime="1744968600")
        [record], _rejected = sorted_out(written(tmp_path, telegram(message)))
        assert record.sent_at == datetime(2025, 4, 18, 9, 30, tzinfo=UTC)

    def test_what_cannot_be_read_is_reported_with_its_path(self, tmp_path: Path) -> None:
        undated = {"id": 991, "type": "message", "text": "when?"}
        chat = telegram({"id": 4, "type": "unsupported"}, undated, {"type": "message", "text": "who?"}, 5)
        account = {"chats": {"list": [{"name": "empty"}, chat]}}
        _records, rejected = sorted_out(written(tmp_path, account))
        assert [item.line for item in rejected] == [
            "chats.list[0]",
            "chats.list[1].messages[0] (id 4)",
            "chats.list[1].messages[1] (id 991)",
            "chats.list[1].messages[2]",
            "chats.list[1].messages[3]",
        ]
        assert "unsupported" in rejected[1].reason


# Discord: who the user is, what is said beside the words, notices, several channels.


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


# KakaoTalk's exported chats: the texts of phones and computers, and the tables of Macs, in Korean and English.


ANDROID = text_of("chats/kakaotalk_android.txt")
IPHONE = text_of("chats/kakaotalk_iphone.txt")
COMPUTER = text_of("chats/kakaotalk_computer.txt")
ENGLISH = text_of("chats/kakaotalk_english.txt")
ENGLISH_COMPUTER = """KakaoTalk Chats with Boris
Date Saved : 2024-12-10 10:00:00

--------------- Monday, December 9, 2024 ---------------
[Boris] [2:30 PM] roses?
Clara joined this chatroom.
[Anna] [12:05 AM] yes
"""
TABLE = 'Date,User,Message\n2026-02-06 15:00:58,"보라","두, 줄\n이다"\n2026-02-06 15:01:20,"정원","응"\n'
DAY_HOURS = "2026. 1. 7. 13:01, 보라 : 안녕: 하\n2026. 1. 7. 0:02, 정원 : \n"


def read(tmp_path: Path, text: str, me: str = "") -> list[tuple[str, str, str, str]]:
    path = written(tmp_path, text, "chat.txt")
    assert open_chat(path, hints=Hints(me=me)).format == "kakaotalk"
    records, rejected = sorted_out(path, me=me)
    assert rejected == []
    return [(f"{each.sent_at:%Y-%m-%d %H:%M}", each.role, each.author, each.text) for each in records]


class TestShapes:
    def test_an_android_phone(self, tmp_path: Path) -> None:
        assert read(tmp_path, ANDROID) == [
            ("2023-01-01 15:24", "peer", "정원", "장미: 심을까\n둘째 줄"),
            ("2023-01-01 00:05", "user", "보라", "응"),
            ("2023-01-01 12:06", "system", "", "지훈님이 들어왔습니다."),
        ]

    def test_an_iphone(self, tmp_path: Path) -> None:
        assert read(tmp_path, IPHONE, "보라") == [
            ("2026-01-07 13:01", "user", "보라", "안녕"),
            ("2026-01-07 13:02", "system", "", "정원님이 지훈님을 초대했습니다."),
        ]

    def test_a_computer(self, tmp_path: Path) -> None:
        assert read(tmp_path, COMPUTER) == [
            ("2024-01-01 15:20", "peer", "정원", "장미 [빨강]\n둘째 줄"),
            ("2024-01-01 15:20", "system", "", "지훈님이 들어왔습니다."),
            ("2024-01-02 00:07", "user", "보라", "응"),
        ]

    def test_in_english(self, tmp_path: Path) -> None:
        assert read(tmp_path, ENGLISH) == [
            ("2023-01-01 15:24", "peer", "Boris", "roses?"),
            ("2023-01-01 00:05", "user", "Anna", "yes"),
        ]
        assert read(tmp_path, ENGLISH_COMPUTER) == [
            ("2024-12-09 14:30", "peer", "Boris", "roses?"),
            ("2024-12-09 14:30", "system", "", "Clara joined this chatroom."),
            ("2024-12-09 00:05", "user", "Anna", "yes"),
        ]

    def test_a_table_of_a_mac(self, tmp_path: Path) -> None:
        assert read(tmp_path, "\ufeff" + TABLE, "정원") == [
            ("2026-02-06 15:00", "peer", "보라", "두, 줄\n이다"),
            ("2026-02-06 15:01", "user", "정원", "응"),
        ]

    def test_hours_to_24_without_a_head_and_an_empty_message(self, tmp_path: Path) -> None:
        assert read(tmp_path, DAY_HOURS, "-") == [("2026-01-07 13:01", "peer", "보라", "안녕: 하")]
        items = list(open_chat(written(tmp_path, DAY_HOURS, "chat.txt"), hints=Hints(me="-")).records())
        assert [item.reason for item in items if isinstance(item, LeftOut)] == ["it is empty"]


def test_a_message_of_whatsapp_that_speaks_of_kakaotalk_is_whatsapps(tmp_path: Path) -> None:
    path = written(tmp_path, "[2024. 1. 1. 오후 3:20:10] 보라: 카카오톡 대화 봤어?\n", "chat.txt")
    assert open_chat(path, hints=Hints(me="보라")).format == "whatsapp"


class TestPeople:
    def test_the_user_is_asked_for_and_times_are_of_the_zone(self, tmp_path: Path) -> None:
        path = written(tmp_path, DAY_HOURS, "chat.txt")
        with pytest.raises(UnknownSpeaker) as asked:
            open_chat(path, hints=Hints("ada"))
        assert set(asked.value.speakers) == {"보라", "정원"}
        seoul, _rejected = sorted_out(path, me="보라", zone=ZoneInfo("Asia/Seoul"))
        assert seoul[0].sent_at.hour == 4

    def test_equal_messages_have_ids_of_their_own_that_stay(self, tmp_path: Path) -> None:
        line = "2026. 1. 7. 13:01, 보라 : 응\n"
        whole, _rejected = sorted_out(written(tmp_path, line * 3, "chat.txt"), me="보라")
        part, _rejected = sorted_out(written(tmp_path, line * 2, "part.txt"), me="보라")
        ids = [each.external_id for each in whole]
        assert len(set(ids)) == 3
        assert [each.external_id for each in part] == ids[:2]

    def test_a_row_that_is_none_and_a_day_that_does_not_exist_are_not_lost(self, tmp_path: Path) -> None:
        records, [rejected] = sorted_out(written(tmp_path, f"{TABLE}soon,보라\n", "chat.csv"), me="-")
        assert (len(records), rejected.reason) == (2, "it is no row of date, user and message")
        broken = "2026. 1. 7. 13:01, 보라 : a\n2026. 2. 31. 13:01, 보라 : b\n"
        assert read(tmp_path, broken, "보라")[0][3] == "a\n2026. 2. 31. 13:01, 보라 : b"
