"""Telegram's export, with the oddities real ones have, as messages or as rejections with a place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.chats import sent, sorted_out, telegram, written


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

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"text": ["see ", {"type": "link", "text": "x.org"}, "!"]}, "see x.org!"),
            ({"text": "", "text_entities": [{"type": "plain", "text": "new"}]}, "new"),
            ({"text": "old", "text_entities": "..."}, "old"),
            ({"text": "old", "text_entities": []}, "old"),
            ({"text": "sea", "photo": "photos/1.jpg"}, "[photo] sea"),
            ({"text": "", "file": "f/a.pdf"}, "[file: a.pdf]"),
            ({"text": "", "file": "(File not included. Change data exporting settings to download.)"}, "[file]"),
            ({"text": "", "file": "s.webp", "media_type": "sticker", "sticker_emoji": "😀"}, "[sticker: 😀]"),
            ({"text": "", "file": "v.ogg", "media_type": "voice_message", "duration_seconds": 4}, "[voice message]"),
            ({"text": "", "media_type": "audio_file", "performer": "P", "title": "T"}, "[audio: P – T]"),
            ({"text": "", "contact_information": {"first_name": "Ivan", "last_name": ""}}, "[contact: Ivan]"),
            ({"text": "", "location_information": {"latitude": 1.5, "longitude": 2}}, "[location: 1.5, 2]"),
            ({"text": "", "location_information": None}, "[location]"),
            ({"text": "", "poll": {"question": "Q?", "answers": [{"text": "A"}, {"text": "B"}]}}, "[poll: Q? / A / B]"),
            ({"text": "", "invoice_information": '{"title": "Tea", "amount": 3}'}, "[invoice: Tea 3]"),
            ({"text": "", "invoice_information": "{"}, "[invoice]"),
            # In the smallest unit, by core.telegram.org/bots/payments/currencies.json.
            ({"text": "", "invoice_information": '{"amount": 12000, "currency": "EUR"}'}, "[invoice: 120.00 EUR]"),
            ({"text": "", "invoice_information": {"amount": 5, "currency": "USD"}}, "[invoice: 0.05 USD]"),
            ({"text": "", "invoice_information": {"amount": "1200", "currency": "JPY"}}, "[invoice: 1200 JPY]"),
            ({"text": "", "invoice_information": {"amount": 250, "currency": "XTR"}}, "[invoice: 250 XTR]"),
            ({"text": "", "invoice_information": {"amount": 1500, "currency": "KWD"}}, "[invoice: 1.500 KWD]"),
            ({"text": {"type": "plain", "text": "an object"}}, "an object"),
            (
                {"text": "", "poll": {"question": {"text": "Q?"}, "answers": [{"text": {"text": "A"}}]}},
                "[poll: Q? / A]",
            ),
            ({"text": "...", "text_entities": [{"type": "plain", "text": "..."}]}, "..."),
            (
                {"text": "", "rich_message": {"blocks": [{"items": ["tent", {"text": "rope"}]}, {"code": "x=1"}]}},
                "tent\nrope\nx=1",
            ),
        ],
    )
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

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            (
                {"action": "create_group", "title": "Team", "members": ["A", None]},
                "created the group “Team” with A, De",
            ),
            ({"action": "phone_call", "duration_seconds": 60, "discard_reason": "hangup"}, "called (60 s, hangup)"),
            ({"action": "phone_call", "discard_reason": "missed"}, "called (missed)"),
            ({"action": "send_payment", "amount": 12000, "currency": "EUR"}, "paid 120.00 EUR"),
            ({"action": "invite_members"}, "invited nobody"),
            ({"action": "suggest_profile_photo"}, "suggest profile photo"),
            ({"action": "edit_group_title", "title": "{0}{x}"}, "renamed the group to “{0}{x}”"),
            ({"action": "topic_edit", "new_title": "Trips"}, "topic edit: Trips"),
            ({"action": "send_star_gift", "gift_text": [{"type": "plain", "text": "for you"}]}, "gift: for you"),
            ({"action": "todo_append_tasks", "items": [{"id": 3, "text": "buy rope"}]}, "append tasks: buy rope"),
            ({"information_text": "Something custom"}, "Something custom"),
        ],
    )
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
