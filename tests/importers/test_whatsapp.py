"""WhatsApp's exported chats as phones write them: dates in many languages, notices, media, and who is the user."""

import zipfile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memoryapp.importers import Hints, UnknownOrder, UnknownSpeaker, UnreadableFile, open_chat
from tests.examples import table, text_of
from tests.support.chats import sorted_out, written

LRM, NNBSP = "\u200e", "\u202f"

IOS = text_of("chats/whatsapp_ios.txt")
ANDROID = text_of("chats/whatsapp_android.txt")


def read(tmp_path: Path, text: str, me: str = "Anna", **hints: Any) -> list[tuple[str, str, str]]:
    records, rejected = sorted_out(written(tmp_path, text, "chat.txt"), me=me, **hints)
    assert rejected == []
    return [(record.sent_at.strftime("%Y-%m-%d %H:%M:%S"), record.role, record.text) for record in records]


class TestPhones:
    def test_an_iphone(self, tmp_path: Path) -> None:
        assert read(tmp_path, IOS) == [
            ("2024-07-25 09:05:11", "system", "Messages and calls are end-to-end encrypted."),
            ("2024-07-25 09:05:12", "peer", "Are you up?"),
            ("2024-07-25 09:05:40", "user", "Yes!\nTwo lines,\n\nand a third: with a colon."),
            ("2024-07-25 09:06:00", "user", "[file: 00000012-PHOTO-2024-07-25.jpg]"),
            ("2024-07-25 09:07:00", "peer", "Lunch at one"),
            ("2024-07-25 09:07:30", "peer", "You deleted this message."),
        ]

    def test_an_android_phone_of_an_american(self, tmp_path: Path) -> None:
        found = read(tmp_path, ANDROID.replace(" PM", f"{NNBSP}PM").replace(" AM", f"{NNBSP}AM"))
        assert found[0][1] == found[5][1] == "system"
        assert found[1] == ("2023-12-31 23:59:00", "user", "Happy new year: almost")
        assert found[2:5] == [
            ("2024-01-01 00:00:00", "peer", "[media]"),
            ("2024-01-01 00:00:00", "peer", "ok"),
            ("2024-01-01 00:00:00", "peer", "ok"),
        ]
        assert [text for _at, _role, text in found[6:]] == ["[file: IMG-20240101-WA0001.jpg]\nthe fireworks", "[media]"]

    @pytest.mark.parametrize(
        "mark", ["This message was edited", "Diese Nachricht wurde bearbeitet.", "تم تعديل هذه الرسالة"]
    )
    def test_an_android_phone_marks_what_was_edited_without_a_sign(self, tmp_path: Path, mark: str) -> None:
        """The mark stands behind the words, in the language of the phone (whatsapp-chat-analyzer's list of them)."""
        lines = f"25/07/24, 09:05 - Anna: seven <pots> <{mark}>\n25/07/24, 09:06 - Anna: a <b> <c d>"
        assert [text for _at, _role, text in read(tmp_path, lines)] == ["seven <pots>", "a <b> <c d>"]

    def test_times_are_of_the_zone_that_is_given_and_ids_are_not(self, tmp_path: Path) -> None:
        text = "[25.07.24, 09:05:12] Anna: summer\n[25.01.25, 09:05:12] Anna: winter"
        berlin, _rejected = sorted_out(written(tmp_path, text, "chat.txt"), me="Anna", zone=ZoneInfo("Europe/Berlin"))
        utc, _rejected = sorted_out(written(tmp_path, text, "chat.txt"), me="Anna")
        assert [record.sent_at.hour for record in berlin] == [7, 8]
        assert [record.sent_at.hour for record in utc] == [9, 9]
        assert [record.external_id for record in berlin] == [record.external_id for record in utc]

    def test_a_file_behind_the_words_that_were_sent_with_it_is_named(self, tmp_path: Path) -> None:
        """An iPhone writes both in one line, and before a document its title and pages."""
        lines = (
            f"[25.07.24, 09:06:00] Anna: Look {LRM}<attached: 00000013-PHOTO-2024-07-25.jpg>",
            f"[25.07.24, 09:07:00] Anna: plan.pdf • {LRM}2 pages {LRM}<angehängt: 00000014-plan.pdf>",
        )
        assert [text for _at, _role, text in read(tmp_path, "\n".join(lines))] == [
            "[file: 00000013-PHOTO-2024-07-25.jpg]\nLook",
            f"[file: 00000014-plan.pdf]\nplan.pdf • {LRM}2 pages",
        ]

    def test_files_of_old_iphones_and_names_with_spaces(self, tmp_path: Path) -> None:
        """``3.jpg <attached>`` is an iPhone's mark of 2016 (thevelop.nl, "WhatsBook")."""
        lines = (
            "28-09-16 11:20:19: Anna: 3.jpg <attached>",
            f"28-09-16 11:21:19: Anna: {LRM}plan of May.pdf (file attached)",
            "28-09-16 11:22:19: Anna: plan of May.pdf (the second)",
        )
        assert [text for _at, _role, text in read(tmp_path, "\n".join(lines))] == [
            "[file: 3.jpg]",
            "[file: plan of May.pdf]",
            "plan of May.pdf (the second)",
        ]

    def test_edited_messages_are_marked(self, tmp_path: Path) -> None:
        records, _rejected = sorted_out(written(tmp_path, IOS, "chat.txt"), me="Anna")
        assert [record.text for record in records if record.metadata.get("edited")] == ["Lunch at one"]

    @pytest.mark.parametrize(("line", "time"), table("whatsapp_dates"))
    def test_dates_of_many_languages(self, tmp_path: Path, line: str, time: str) -> None:
        assert [at for at, _role, _text in read(tmp_path, line)] == [time]

    def test_the_order_of_day_and_month_is_seen_from_all_lines(self, tmp_path: Path) -> None:
        american = "1/2/2024, 10:00 - Anna: a\n1/3/2024, 10:00 - Anna: b\n1/25/2024, 10:00 - Anna: c"
        assert [at[:10] for at, *_rest in read(tmp_path, american)] == ["2024-01-02", "2024-01-03", "2024-01-25"]
        running = "1/2/2024, 10:00 - Anna: a\n3/1/2024, 10:00 - Anna: b"
        assert [at[:10] for at, *_rest in read(tmp_path, running)] == ["2024-01-02", "2024-03-01"], "time runs forwards"

    def test_a_year_of_two_digits_at_the_beginning_is_seen_from_all_lines(self, tmp_path: Path) -> None:
        """Korean, Basque and Nepali phones (CLDR's short dates); no message is of the future."""
        korean = "24. 7. 25. 오후 3:24 - Anna: a\n24. 7. 26. 오후 3:24 - Anna: b\n24. 8. 3. 오후 3:24 - Anna: c"
        assert [at[:10] for at, *_rest in read(tmp_path, korean)] == ["2024-07-25", "2024-07-26", "2024-08-03"]
        usual = "24/12/25, 15:24 - Anna: a\n25/12/25, 15:24 - Anna: b\n26/12/25, 15:24 - Anna: c"
        assert [at[:10] for at, *_rest in read(tmp_path, usual)] == ["2025-12-24", "2025-12-25", "2025-12-26"]

    def test_a_line_of_another_style_is_no_part_of_the_message_before(self, tmp_path: Path) -> None:
        """A chat that went on on another phone."""
        mixed = "25/07/2024, 15:24 - Anna: a\nJul 26, 2024, 3:25 PM - Anna: b"
        assert [text for *_rest, text in read(tmp_path, mixed)] == ["a", "b"]
        assert [text for *_rest, text in read(tmp_path, "25/07/2024, 15:24 - Anna: a\n3 kg in May 2016 - and: b")] == [
            "a\n3 kg in May 2016 - and: b"
        ]

    def test_who_only_sent_pictures_is_their_author(self, tmp_path: Path) -> None:
        """An iPhone marks the line of a picture; a notice has its mark only behind the name."""
        chat = (
            f"[25.07.24, 15:24:10] Team: {LRM}Messages and calls are end-to-end encrypted.\n"
            f"[25.07.24, 15:24:11] Anna: a\n{LRM}[25.07.24, 15:25:10] Boris: {LRM}image omitted"
        )
        assert [role for _at, role, _text in read(tmp_path, chat)] == ["system", "user", "peer"]

    @pytest.mark.parametrize("half", ["", " AM", " am"])
    def test_an_order_that_nothing_shows_is_asked_and_never_guessed(self, tmp_path: Path, half: str) -> None:
        text = f"1/2/24, 10:00{half} - Anna: a\n2/2/24, 10:00{half} - Anna: b"
        path = written(tmp_path, text, "chat.txt")
        with pytest.raises(UnknownOrder, match=r"such as 1/2/24, .* --dates dmy or --dates mdy") as asked:
            open_chat(path, hints=Hints(me="Anna"))
        assert asked.value.example == "1/2/24"
        assert [at[:10] for at, *_rest in read(tmp_path, text, dates="dmy")] == ["2024-02-01", "2024-02-02"]
        assert [at[:10] for at, *_rest in read(tmp_path, text, dates="mdy")] == ["2024-01-02", "2024-02-02"]

    @pytest.mark.parametrize(
        ("line", "day"),
        [
            ("01.02.2024, 10:00 - Anna: a", "2024-02-01"),
            ("01-02-2024 10:00 - Anna: a", "2024-02-01"),
            ("2024/1/2 10:00 - Anna: a", "2024-01-02"),
            ("2/2/2024, 10:00 - Anna: a", "2024-02-02"),
            ("١/٢/٢٠٢٤، ١٠:٠٠ ص - Anna: a", "2024-02-01"),
        ],
    )
    def test_nobody_is_asked_for_an_order_that_is_plain(self, tmp_path: Path, line: str, day: str) -> None:
        assert [at[:10] for at, *_rest in read(tmp_path, line)] == [day]


class TestHalvesOfTheDay:
    """The words are those of Unicode CLDR, from which Android and iOS take them (``dayPeriods`` of each language).
    Afternoon must never be stored as morning, because nobody would see it."""

    @pytest.mark.parametrize(("line", "time"), table("whatsapp_halves_of_the_day"))
    def test_every_language_and_place(self, tmp_path: Path, line: str, time: str) -> None:
        assert [at[:16] for at, *_rest in read(tmp_path, line, me="-")] == [f"2023-09-14 {time}"]

    def test_a_word_that_nobody_knows_is_never_taken_for_morning(self, tmp_path: Path) -> None:
        lines = ["14.9.2023, 3:24 qpqp - Ana: a", "14.9.2023, 9:24 zozo - Ana: b"]
        with pytest.raises(UnreadableFile, match="the word “qpqp” beside its times"):
            open_chat(written(tmp_path, "\n".join(lines), "chat.txt"), hints=Hints(me="Ana"))
        late = "14.9.2023 xx 3.24 - Ana: a\n14.9.2023 xx 15.24 - Ana: b"
        assert [at[11:16] for at, *_rest in read(tmp_path, late, me="Ana")] == ["03:24", "15:24"]


class TestOldPhones:
    def test_lines_without_a_dash_are_messages(self, tmp_path: Path) -> None:
        """Old iPhones end a head with a colon: github.com/nmoya/whatsapp-parser issue 4."""
        text = (
            "24/3/14 13:59 - Sam Hill: first\n24/3/14 14:01:02: Joy: second\n"
            "24/3/14 14:02:02: Joy changed the subject\n"
            "25/3/14, 1:59:59 PM: Sam Hill: third\nwe meet\n26/3/14 14:00: at the pier"
        )
        found = read(tmp_path, text, me="Joy")
        assert [(role, text) for _at, role, text in found] == [
            ("peer", "first"),
            ("user", "second"),
            ("system", "Joy changed the subject"),
            ("peer", "third\nwe meet\n26/3/14 14:00: at the pier"),
        ]


class TestOtherEnds:
    @pytest.mark.parametrize(
        ("line", "author"),
        [
            ("[2026/7/9 02:28:37] Bob:Hi", "Bob"),
            ("[9/24/25, 10:30:15 AM] - John Doe: Hi", "John Doe"),
            ("24/07/2023 15:24:10 Ana: Hi", "Ana"),
            ("24/07/2023 15:24:10 Maria del Mar: Hi", "Maria del Mar"),
            ("[15:24, 24/07/2023] Ana: Hi", "Ana"),
        ],
    )
    def test_the_author_is_known_whatever_stands_before_and_behind(
        self, tmp_path: Path, line: str, author: str
    ) -> None:
        """ChatLab/ChatLab#280 (no blank behind the author); what is copied from WhatsApp Web has the time first."""
        records, rejected = sorted_out(written(tmp_path, f"{line}\n{line}", "chat.txt"), me="-")
        assert rejected == []
        assert [(each.author, each.text) for each in records] == [(author, "Hi"), (author, "Hi")]

    @pytest.mark.parametrize("text", ["see https://example.org", "we meet at 12:30", "24/07/2023 15:24 Ana: Hi"])
    def test_a_colon_in_a_text_names_nobody(self, tmp_path: Path, text: str) -> None:
        lines = f"[25/07/2026, 10:00:00] Zoe: a\n{text}\n[25/07/2026, 10:00:01] {text.partition(' ')[2]}"
        records, _rejected = sorted_out(written(tmp_path, lines, "chat.txt"), me="-")
        assert records[0].text == f"a\n{text}"
        assert (records[1].author, records[1].role) == ("", "system")


class TestWhoIsWho:
    @pytest.mark.parametrize(
        "name", ["WhatsApp Chat with Boris.txt", "WhatsApp Chat - Boris (1).zip", "Чат WhatsApp с Boris.txt"]
    )
    def test_who_is_left_where_the_file_bears_the_others_name(self, tmp_path: Path, name: str) -> None:
        chat = open_chat(written(tmp_path, IOS, "staged"), hints=Hints("ada", name=name))
        roles = {item.author: item.role for item in chat.records() if getattr(item, "author", "")}
        assert roles == {"Anna": "user", "Boris": "peer"}

    def test_otherwise_the_user_has_to_be_named(self, tmp_path: Path) -> None:
        path = written(tmp_path, IOS, "chat.txt")
        with pytest.raises(UnknownSpeaker) as asked:
            open_chat(path, hints=Hints("ada"))
        assert set(asked.value.speakers) == {"Anna", "Boris"}
        with pytest.raises(UnknownSpeaker, match="Nobody in this file is “Zoe”"):
            open_chat(path, hints=Hints("ada", "Zoe"))
        assert {role for _at, role, _text in read(tmp_path, IOS, me="-")} == {"system", "peer"}
        assert {role for _at, role, _text in read(tmp_path, IOS, me="", owner="anna")} == {"system", "peer", "user"}


class TestFiles:
    def test_ids_stay_the_same_in_a_longer_export_and_equal_words_stay_apart(self, tmp_path: Path) -> None:
        whole, _rejected = sorted_out(written(tmp_path, ANDROID, "whole.txt"), me="Anna")
        ids = [record.external_id for record in whole]
        assert len(set(ids)) == len(ids)
        cut = "\n".join(ANDROID.splitlines()[:4])
        part, _rejected = sorted_out(written(tmp_path, cut, "part.txt"), me="Anna")
        assert [record.external_id for record in part] == ids[:4]
        renamed = ANDROID.replace("Boris Petrov", "Boris from work")
        again, _rejected = sorted_out(written(tmp_path, renamed, "renamed.txt"), me="Anna")
        assert [record.external_id for record in again][:5] == ids[:5], "a contact may be renamed"

    @pytest.mark.parametrize("name", ["_chat.txt", "Чат WhatsApp с Boris.txt"])
    def test_a_zip_as_a_phone_shares_it(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "chat.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, IOS)
            archive.writestr("00000012-PHOTO-2024-07-25.jpg", "x")
        assert open_chat(path, hints=Hints(me="Anna")).format == "whatsapp"

    def test_a_file_in_another_encoding_is_one_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "chat.txt"
        path.write_bytes("13.05.2024, 14:30 - Анна: привет".encode("cp1251"))
        with pytest.raises(UnreadableFile, match=r"not UTF-8 text \(from line 1 on\): save it as UTF-8"):
            open_chat(path, hints=Hints(me="Anna"))
        path.write_text("13.05.2024, 14:30 - Анна: привет", "utf-16")
        assert open_chat(path, hints=Hints(me="Анна")).format == "whatsapp"

    def test_a_date_that_is_none_is_rejected_with_its_line(self, tmp_path: Path) -> None:
        text = "13.05.2024, 14:30 - Anna: a\n45.05.2024, 14:30 - Anna: b\n14.05.2024, 14:30 - Anna: c"
        records, [rejected] = sorted_out(written(tmp_path, text, "chat.txt"), me="Anna")
        assert ([record.text for record in records], rejected.line) == (["a", "c"], 2)

    @pytest.mark.slow
    def test_an_endless_message_takes_no_endless_memory(self, tmp_path: Path) -> None:
        text = "13.05.2024, 14:30 - Anna: a\n" + "x\n" * 600_000 + "14.05.2024, 14:30 - Anna: b"
        [record], [rejected] = sorted_out(written(tmp_path, text, "chat.txt"), me="Anna")
        assert (record.text, rejected.line) == ("b", 1)
        assert "longer than 1,000,000" in rejected.reason
