"""KakaoTalk's exported chats: the texts of phones and computers, and the tables of Macs, in Korean and English.

The shapes are those that people's readers of such files parse: suziewithz/kakaoship (computers, Macs, English),
Gudongyeop/kakaotalk_data_preprocessing (Android), m00nlygreat/katalk (iPhones, 24 hours).
"""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from memoryapp.importers import Hints, LeftOut, UnknownSpeaker, open_chat
from tests.support.chats import sorted_out, written

ANDROID = """정원 님과 카카오톡 대화
저장한 날짜 : 2023년 1월 2일 오후 3:24


2023년 1월 1일 오후 3:24
2023년 1월 1일 오후 3:24, 정원 : 장미: 심을까
둘째 줄

2023년 1월 1일 오전 12:05
2023년 1월 1일 오전 12:05, 보라 : 응
2023년 1월 1일 오후 12:06, 지훈님이 들어왔습니다.
"""
IPHONE = """Talk_2026.1.7 13:01-1.txt
저장한 날짜 : 2026. 1. 7. 오후 11:01

2026년 1월 7일 수요일
2026. 1. 7. 오후 1:01, 보라 : 안녕
2026. 1. 7. 오후 1:02: 정원님이 지훈님을 초대했습니다.
"""
COMPUTER = """정원 님과 카카오톡 대화
저장한 날짜 : 2024-01-03 15:20:41

--------------- 2024년 1월 1일 월요일 ---------------
[정원] [오후 3:20] 장미 [빨강]
둘째 줄
지훈님이 들어왔습니다.
--------------- 2024년 1월 2일 화요일 ---------------
[보라] [오전 12:07] 응
"""
ENGLISH = """KakaoTalk Chats with Boris
Date Saved : Jan 2, 2023 3:24 PM

Jan 1, 2023 3:24 PM
Jan 1, 2023 3:24 PM, Boris : roses?
Jan 1, 2023 12:05 AM, Anna : yes
"""
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
