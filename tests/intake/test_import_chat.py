"""The command import_chat, as scripts use it, and the forecast of its cost."""

import io
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from memoryapp.intake import imports, messages
from memoryapp.memory.forecast import QUESTION_TOKENS, ArchiveForecast
from memoryapp.memory.sessions import limits
from memoryapp.models import AgentCall, ChatUser, ImportBatch, Message
from tests.conftest import record
from tests.support import forked

pytestmark = pytest.mark.django_db


def line(user: str | None, *texts: str, **fields: Any) -> str:
    messages = [
        {"id": f"m{n}", "role": "user", "author": "A", "ts": f"2025-07-25T14:{n:02}:00Z", "text": text, **fields}
        for n, text in enumerate(texts)
    ]
    return json.dumps({"user": user, "messages": messages} if user else {"messages": messages})


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


def run(*arguments: Any) -> tuple[dict[str, Any], str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("import_chat", *map(str, arguments), "--json", stdout=out, stderr=err)
    return json.loads(out.getvalue()), err.getvalue()


@pytest.mark.parametrize("id", ['"', "a\\", '\\"', "{a,b}", "NULL", " a ", "a\nb\tc", "\x01", "Ёлка", "'"])
def test_a_message_is_known_again_whatever_its_id(chat: Path, id: str) -> None:
    chat.write_text("\n".join(line("anna", "one", id=one) for one in (id, "other")))
    assert [run(chat)[0]["messages_added"] for _ in range(2)] == [2, 0]
    assert Message.objects.filter(external_id=id).exists()


@pytest.mark.slow
def test_the_database_knows_of_a_new_memory_after_its_first_thousands(chat: Path) -> None:
    """Otherwise the database reads the whole memory for each batch, and a large import becomes slower with each."""
    message = {"role": "user", "ts": "2025-07-25T14:00:00Z", "text": "one"}
    chat.write_text("\n".join(json.dumps({"id": str(n), **message}) for n in range(messages.BATCH + 1)))
    run(chat, "--user", "anna")
    columns = "SELECT attname FROM pg_stats WHERE tablename = %s AND attname IN ('owner_id', 'external_id')"
    with connection.cursor() as cursor:
        cursor.execute(columns, [Message._meta.db_table])
        assert len(cursor.fetchall()) == 2


def test_what_is_known_is_found_without_reading_the_messages_of_everybody(chat: Path) -> None:
    """Otherwise an import takes longer, the more messages others have."""
    chat.write_text(line("anna", "one", "two"))
    run(chat)
    looked = "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = %s"
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {Message._meta.db_table}; SET enable_seqscan = on")
        before = cursor.execute(looked, [Message._meta.db_table]).fetchone()
        assert run(chat)[0]["messages_skipped"] == 2
        assert cursor.execute(looked, [Message._meta.db_table]).fetchone() == before


def test_a_second_run_adds_nothing(chat: Path) -> None:
    chat.write_text(line("anna", "one", "two"))
    first, _err = run(chat, "--user", "anna")
    nothing_wrong = {"messages_rejected": 0, "rejected": [], "messages_changed": 0, "changed": []}
    nothing_wrong |= {"messages_left_out": 0, "left_out": {}, "messages_in_file": 2}
    assert first == {"users": ["anna"], "messages_added": 2, "messages_skipped": 0, **nothing_wrong}
    second, _err = run(chat, "--user", "anna")
    assert second == {"users": ["anna"], "messages_added": 0, "messages_skipped": 2, **nothing_wrong}


@pytest.mark.parametrize(
    "text", ["a\tb\nc\rd\r\ne", r"C:\new\table", r"\N", "\\.", "a\n\\.\nb", "\\", "\t", "Ёлка\u2028\x01"]
)
def test_every_sign_of_a_text_is_stored_as_it_is(chat: Path, text: str) -> None:
    fields = {"session": text, "reply_to": text, "forwarded_from": text, "kept": text}
    chat.write_text(line("anna", text, "next", **fields))
    run(chat)
    first, _second = Message.objects.order_by("external_id")
    assert (first.text, first.session, first.reply_to, first.forwarded_from) == (text,) * 4
    assert first.metadata == {"kept": text}
    assert run(chat)[0]["messages_skipped"] == 2


def test_a_file_that_names_one_user_goes_to_the_one_asked_for(chat: Path) -> None:
    chat.write_text(line("anna", "one"))
    report, err = run(chat, "--user", "Boris")
    assert report["users"] == ["Boris"]
    assert err == ""
    assert not ChatUser.objects.filter(name="anna").exists()


def test_a_file_that_names_several_users_keeps_them_and_says_so(chat: Path) -> None:
    chat.write_text(f"{line('anna', 'one')}\n{line('boris', 'one', 'two')}\n")
    report, err = run(chat, "--user", "someone")
    assert report["users"] == ["anna", "boris"]
    assert report["messages_added"] == 3
    assert "someone is not used" in err
    assert Message.objects.filter(owner__name="boris").count() == 2


def test_without_a_user_the_files_own_names_serve(chat: Path) -> None:
    chat.write_text(f"{line('anna', 'one')}\n{line(None, 'whose?')}\n")
    report, _err = run(chat)
    assert report["users"] == ["anna"]
    assert [item["line"] for item in report["rejected"]] == ["line 2, message 1"]
    assert "--user" in report["rejected"][0]["reason"]


def test_bad_records_are_listed_and_the_rest_is_stored(chat: Path) -> None:
    chat.write_text(f"{line('anna', 'one')}\n{{oops\n{line('anna', 'x', role='robot')}\n")
    report, _err = run(chat)
    assert report["messages_added"] == 1
    assert [item["line"] for item in report["rejected"]] == [2, "line 3, message 1"]
    batch = ImportBatch.objects.get()
    assert (batch.source, batch.format, batch.added, batch.skipped) == ("chat.jsonl", "jsonl", 1, 0)
    assert batch.rejected == report["rejected"]


def test_an_id_used_twice_in_a_file_is_told_unless_it_is_the_same_message(chat: Path) -> None:
    chat.write_text(f"{line('anna', 'one')}\n{line('anna', 'one')}\n{line('anna', 'other')}\n")
    report, _err = run(chat)
    assert (report["messages_added"], report["messages_skipped"]) == (1, 1)
    assert [item["line"] for item in report["rejected"]] == ["line 3, message 1"]


def test_messages_edited_since_an_import_are_reported_and_left_as_they_are(chat: Path) -> None:
    chat.write_text(line("anna", "one", "two"))
    run(chat)
    chat.write_text(line("anna", "one", "two, edited", "three"))
    dry, _err = run(chat, "--dry-run")
    report, _err = run(chat)
    assert dry == report
    assert (report["messages_added"], report["messages_skipped"], report["rejected"]) == (1, 1, [])
    assert (report["messages_changed"], report["changed"]) == (1, ["m1"])
    assert Message.objects.get(external_id="m1").text == "two"
    assert ImportBatch.objects.latest("pk").rejected[0]["line"] == "line 1, message 2"


def test_edited_messages_are_a_sentence_for_people(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("one", "one, edited"):
        chat.write_text(line("anna", text))
        call_command("import_chat", str(chat))
    assert "1 message was edited since it was imported; the memory keeps the text it has: m0" in capsys.readouterr().err


def test_more_bad_records_than_a_report_names_are_counted(chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "MOST_NAMED", 3)
    chat.write_text(f"{line('anna', 'one')}\n" + "{oops\n" * 5)
    report, _err = run(chat)
    assert (report["messages_rejected"], len(report["rejected"])) == (5, 3)


def test_a_file_without_times_says_how_it_can_be_imported(chat: Path) -> None:
    chat.write_text(line("anna", "one", "two", ts=None))
    with pytest.raises(CommandError, match="no time; --start DATE"):
        run(chat)
    report, _err = run(chat, "--start", "2024-05-01")
    assert report["messages_added"] == 2
    times = Message.objects.order_by("sent_at").values_list("external_id", "sent_at")
    assert [(id, time.isoformat()) for id, time in times] == [
        ("m0", "2024-05-01T00:00:00+00:00"),
        ("m1", "2024-05-01T00:01:00+00:00"),
    ]
    with pytest.raises(CommandError, match="'soon' is not a time"):
        run(chat, "--start", "soon")


def group(tmp_path: Path) -> Path:
    sent = {"id": 1, "type": "message", "date_unixtime": "1744698600", "from": "Me", "from_id": "user1", "text": "hi"}
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"name": "B", "type": "private_group", "id": 7, "messages": [sent]}))
    return path


def test_a_script_is_told_to_say_who_of_a_group_the_user_is(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--me NAME"):
        run(group(tmp_path), "--user", "anna")
    assert not ChatUser.objects.exists()
    run(group(tmp_path), "--user", "anna", "--me", "Me")
    assert Message.objects.get().role == "user"


def test_a_person_at_a_terminal_is_asked_who_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("Me\n"))
    call_command("import_chat", str(group(tmp_path)), "--user", "anna")
    assert Message.objects.get().role == "user"


def test_a_dry_run_says_the_same_and_writes_nothing(chat: Path) -> None:
    chat.write_text(f"{line('anna', 'one', 'two')}\n{line('anna', 'one')}\n{line('anna', 'other')}\n")
    dry, _err = run(chat, "--dry-run")
    assert not ChatUser.objects.exists()
    assert not ImportBatch.objects.exists()
    wet, _err = run(chat)
    assert dry == wet
    again, _err = run(chat, "--dry-run")
    assert (again["messages_added"], again["messages_skipped"]) == (0, 3)


def test_a_telegram_chat_becomes_the_memory_of_the_user_given(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    sent = {"id": 1, "type": "message", "date_unixtime": "1744698600", "from": "Me", "from_id": "user1", "text": "hi"}
    path.write_text(json.dumps({"name": "B", "type": "personal_chat", "id": 7, "messages": [sent]}, indent=1))
    report, _err = run(path, "--user", "anna")
    assert report["messages_added"] == 1
    assert ImportBatch.objects.get().format == "telegram"


def test_a_file_that_names_nobody_needs_a_user(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(line(None, "one"))
    with pytest.raises(CommandError, match="No message could be read"):
        run(path)
    assert not ChatUser.objects.exists()


@pytest.mark.parametrize("content", ["", "{}", "not json", line("anna"), line("anna", "x", role="robot")])
def test_a_file_without_a_readable_message_fails(chat: Path, content: str) -> None:
    chat.write_text(content)
    with pytest.raises(CommandError):
        run(chat, "--user", "anna")
    assert not ChatUser.objects.exists()


def test_a_name_that_cannot_be_a_chat_user_is_refused(chat: Path) -> None:
    chat.write_text(line(None, "one"))
    for name in ("a" * 201, "a\nb", "a\x00"):
        with pytest.raises(CommandError, match="name is at most"):
            run(chat, "--user", name)


def test_people_get_sentences(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat.write_text(f"{line('anna', 'one')}\n" + "{oops\n" * 25)
    call_command("import_chat", str(chat))
    printed = capsys.readouterr()
    assert printed.out == "anna: 1 added, 0 were there already.\n"
    assert "line 2; line 3; line 4 and 22 more: not valid JSON" in printed.err
    assert printed.err.count("not valid JSON") == 1


def test_a_reason_is_given_once_and_not_all_reasons_are_given(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strange = [line("anna", f"m{n}", role=f"robot {n}") for n in range(25)]
    chat.write_text("\n".join([line(None, "one"), line(None, "two"), line("anna", "three"), *strange]))
    call_command("import_chat", str(chat))
    printed = capsys.readouterr().err.splitlines()
    assert "line 1, message 1; line 2, message 1: it names no user: say whose memory this is with --user" in printed
    assert sum("robot" in sentence for sentence in printed) == 19
    assert printed[-1] == "6 more were rejected."


@pytest.mark.processes
def test_a_missing_file_is_one_sentence_and_exit_code_1(tmp_path: Path) -> None:
    done = forked.run([forked.MANAGE, "import_chat", str(tmp_path / "no.json"), "--user", "x", "--json"], os.environ)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.strip().splitlines()[-1].endswith("no.json.")
    assert "Traceback" not in done.stderr


# The cost of an import: nothing for embedded models; for others, from a price or from past costs.


@pytest.fixture
def forecast(anna: ChatUser) -> ArchiveForecast:
    made = ArchiveForecast.of(anna, limits(anna))
    for number in range(8):
        made.add(record(number, "word " * 100))
    return made


def asked(owner: ChatUser, agent: str, tokens: int, dollars: float) -> None:
    AgentCall.objects.create(owner=owner, agent=agent, input_tokens=tokens, cost_usd=dollars)


def test_embedded_models_cost_nothing_and_are_sent_no_tokens(forecast: ArchiveForecast) -> None:
    assert (forecast.cost_usd, forecast.embedding_usd, forecast.chat_usd, forecast.chat_tokens) == (0.0, 0.0, 0, 0)


def test_an_embedding_model_costs_what_the_setting_says(forecast: ArchiveForecast, settings: Any) -> None:
    settings.EMBEDDING_BASE_URL, settings.EMBEDDING_PRICE = "http://models", 0.15
    assert forecast.cost_usd == pytest.approx(forecast.tokens * 0.15 / 1_000_000)
    settings.EMBEDDING_PRICE = -1.0
    assert (forecast.embedding_usd, forecast.cost_usd) == (None, None)


def test_a_chat_model_costs_what_its_answers_did(forecast: ArchiveForecast, settings: Any, anna: ChatUser) -> None:
    settings.LLM_BASE_URL = "http://models"
    talk = forecast.chars // 4
    assert forecast.chat_tokens == 2 * talk + (forecast.sessions + forecast.topics) * QUESTION_TOKENS
    assert (forecast.chat_usd, forecast.cost_usd) == (None, None)
    asked(anna, "splitter", 1_000, 0.0)
    assert forecast.chat_usd is None, "a provider that names no price says nothing"
    asked(anna, "splitter", 1_000, 0.002)
    assert forecast.chat_usd == pytest.approx(forecast.chat_tokens * 0.000002)
    asked(anna, "archivist", 1_000, 0.001)
    assert forecast.chat_usd == pytest.approx((talk + QUESTION_TOKENS) * 0.000003)


def test_a_session_a_day_is_a_question_a_day(anna: ChatUser, settings: Any) -> None:
    settings.LLM_BASE_URL = "http://models"
    made = ArchiveForecast.of(anna, limits(anna))
    for day in range(3):
        made.add(record(day, "x", at=record(0, "x").sent_at + timedelta(days=day)))
    assert (made.sessions, made.chat_tokens) == (3, 6 * QUESTION_TOKENS)
