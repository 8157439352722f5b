"""Exports of assistants, with the oddities real ones have: ChatGPT, Claude and coding agents, OpenAI messages, Open
WebUI."""

import json
import sqlite3
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryapp.importers import LeftOut, MessageRecord, Rejected, UnreadableFile, open_chat, read
from tests.examples import FIXTURES, table
from tests.support.chats import (
    asked,
    chatgpt,
    claude,
    code_line,
    lines,
    node,
    sorted_out,
    webui,
    webui_message,
    written,
)

UNSUPPORTED = "```\nThis block is not supported on your current device yet.\n```"


def texts(path: Path, **hints: Any) -> list[tuple[str, str]]:
    records, rejected = sorted_out(path, **hints)
    assert rejected == []
    return [(record.role, record.text) for record in records]


class TestClaude:
    def test_a_conversation(self, tmp_path: Path) -> None:
        path = written(tmp_path, [claude(asked(1, text="Which tea?"), asked(2, "assistant", "Green."))])
        [first, second], rejected = sorted_out(path)
        assert rejected == []
        assert (first.external_id, first.role, first.author, first.session) == ("claude:c1:u1", "user", "", "c1")
        assert (second.role, second.author, second.text) == ("assistant", "Claude", "Green.")
        assert second.sent_at.isoformat() == "2025-05-01T10:02:00+00:00"
        assert second.metadata == {"conversation": "Tea"}

    def test_thinking_tools_and_their_results_are_left_out_and_documents_stay(self, tmp_path: Path) -> None:
        content = [
            {"type": "thinking", "thinking": "SECRET", "summaries": []},
            {"type": "text", "text": "Here it is:"},
            {
                "type": "tool_use",
                "name": "artifacts",
                "input": {"id": "a", "title": "Poem", "command": "create", "content": "Tea,\nhot"},
            },
            {"type": "tool_result", "content": [{"type": "text", "text": "SECRET"}]},
            {"type": "tool_use", "name": "web_search", "input": {"query": "SECRET"}},
            {"type": "text", "text": "Do you like it?"},
        ]
        item = asked(1, "assistant", f"Here it is:\n{UNSUPPORTED}\nDo you like it?", content=content)
        assert texts(written(tmp_path, claude(item))) == [
            ("assistant", "Here it is:\n[Poem]\nTea,\nhot\nDo you like it?")
        ]

    def test_drafts_and_questions_that_were_shown_are_words(self, tmp_path: Path) -> None:
        """Tools of claude.ai whose input is what the person sees."""
        draft = {"variants": [{"label": "Short", "subject": "Tea", "body": "Dear Ms Alder"}]}
        choice = {"questions": [{"question": "Which tea?", "options": ["Green", "Black"]}]}
        content = [
            {"type": "tool_use", "name": "message_compose_v1", "input": draft},
            {"type": "tool_use", "name": "ask_user_input_v0", "input": choice},
        ]
        [record], _rejected = sorted_out(written(tmp_path, claude(asked(1, "assistant", "", content=content))))
        assert record.text == "Short\nTea\nDear Ms Alder\nWhich tea?\n- Green\n- Black"

    def test_files_voice_notes_and_old_exports_without_content(self, tmp_path: Path) -> None:
        attached = {"file_name": "a.pdf", "file_type": "pdf", "extracted_content": "many words"}
        file = asked(1, text="read", attachments=[attached], files=[{"file_name": "a.pdf"}, {"file_name": "b.png"}])
        voice = asked(2, text="", content=[{"type": "voice_note", "title": "Note", "text": "spoken"}])
        old = asked(3, text="old words", content=[])
        shown = asked(4, text="", content=[{"type": "image"}, {"type": "document", "title": "lease.pdf"}])
        text = asked(5, text=None, content="only words")
        records, _rejected = sorted_out(written(tmp_path, claude(file, voice, old, shown, text)))
        assert [record.text for record in records] == [
            "[file: a.pdf]\n[file: b.png]\nread",
            "Note\nspoken",
            "old words",
            "[image]\n[file: lease.pdf]",
            "only words",
        ]
        assert records[0].metadata["attachments"] == [{"name": "a.pdf", "content": "many words"}]

    def test_a_block_of_an_unknown_kind_keeps_its_words_or_is_named(self, tmp_path: Path) -> None:
        """The kinds of blocks grow with the program; words must not go with those that nobody knows yet."""
        path = written(
            tmp_path,
            [
                claude(
                    asked(1, "assistant", "", content=[{"type": "recipe", "title": "Tea", "body": "Boil it"}]),
                    asked(2, "assistant", "", content=[{"type": "hologram", "shape": {"x": 1}}]),
                    asked(3, "assistant", "", content=[{"type": "thinking", "thinking": "SECRET"}]),
                    asked(4, "human", "", content=[]),
                )
            ],
        )
        records, [rejected] = sorted_out(path)
        assert [(each.role, each.text) for each in records] == [("assistant", "Tea\nBoil it")]
        assert rejected.line == "[0].chat_messages[1]"
        assert [item.reason for item in open_chat(path).records() if isinstance(item, Rejected)] == [
            "there is nothing to read in content of the type 'hologram'",
            "it is of a tool, reasoning or hidden",
            "it is empty",
        ]

    def test_a_text_pasted_beside_words_is_kept_with_them(self, tmp_path: Path) -> None:
        pasted = {"file_name": "", "file_type": "txt", "extracted_content": "a long recipe"}
        [record], _rejected = sorted_out(written(tmp_path, [claude(asked(1, attachments=[pasted]))]))
        assert record.text == "[file]\nhi"
        assert record.metadata["attachments"] == [{"name": "", "content": "a long recipe"}]

    def test_of_versions_the_one_that_was_shown_is_read(self, tmp_path: Path) -> None:
        root = "00000000-0000-4000-8000-000000000000"
        conversation = claude(
            asked(1, text="first", parent_message_uuid=root),
            asked(2, "assistant", "answer", parent_message_uuid="u1"),
            asked(3, text="first, edited", parent_message_uuid=root),
            asked(4, "assistant", "better answer", parent_message_uuid="u3"),
        )
        path = written(tmp_path, conversation)
        assert [text for _role, text in texts(path)] == ["first, edited", "better answer"]
        shown = written(tmp_path, {**conversation, "current_leaf_message_uuid": "u2"}, "shown.json")
        assert [text for _role, text in texts(shown)] == ["first", "answer"]

    def test_what_cannot_be_read_is_named_and_empty_conversations_are_nothing(self, tmp_path: Path) -> None:
        broken = [
            claude(),
            claude(asked(1), asked(2, uuid=None), asked(3, created_at="soon"), asked(4, "robot")),
            claude(asked(1), uuid=None),
            {"uuid": "c2", "chat_messages": None},
            "x",
        ]
        records, rejected = sorted_out(written(tmp_path, broken))
        assert len(records) == 1
        assert [item.line for item in rejected] == [
            "[1].chat_messages[1]",
            "[1].chat_messages[2]",
            "[1].chat_messages[3]",
            "[2]",
            "[3]",
            "[4]",
        ]

    def test_the_zip_as_it_was_downloaded(self, tmp_path: Path) -> None:
        path = tmp_path / "data-2025-05-01-batch-0000.zip"
        with zipfile.ZipFile(path, "w") as archive:
            beside = {"users": [], "projects": [], "memories": [{"conversations_memory": "x", "account_uuid": "a"}]}
            for name, value in {**beside, "conversations": [claude(asked())]}.items():
                archive.writestr(f"{name}.json", json.dumps(value))
        assert open_chat(path).format == "claude"
        assert texts(path) == [("user", "hi")]

    def test_one_that_was_cut_off_is_one_sentence(self, tmp_path: Path) -> None:
        text = json.dumps([claude(asked())])
        with pytest.raises(Exception, match="cut off before its end"):
            open_chat(written(tmp_path, text[: len(text) // 2]))


class TestClaudeCode:
    def test_words_stay_and_everything_else_is_left_out(self, tmp_path: Path) -> None:
        path = FIXTURES / "chats" / "claude_code.jsonl"
        assert open_chat(path).format == "claude-code"
        records, rejected = sorted_out(path)
        assert rejected == []
        assert [(record.role, record.text) for record in records] == [
            ("user", "Fix the kettle"),
            ("assistant", "I look."),
            ("user", "And this?\n[image]"),
        ]
        first = records[0]
        assert (first.external_id, first.session) == ("claude-code:u1", "claude-code:s1")
        assert first.metadata == {"cwd": "/home/anna/tea"}

    def test_what_was_typed_while_the_assistant_worked_is_read(self, tmp_path: Path) -> None:
        """Claude Code 2 keeps it in an attachment alone, which has no id (kenn-io/agentsview#406)."""
        queued = {"type": "queued_command", "prompt": "And milk", "commandMode": "prompt"}
        other = {"type": "queued_command", "prompt": "<x>", "commandMode": "task-notification"}
        kept = {key: value for key, value in code_line(2, "user", "").items() if key not in ("message", "uuid")}
        path = lines(
            tmp_path,
            code_line(1, "user", "Boil it"),
            {**kept, "type": "attachment", "attachment": queued},
            {**kept, "type": "attachment", "attachment": other},
        )
        assert texts(path) == [("user", "Boil it"), ("user", "And milk")]

    def test_what_was_typed_stands_in_the_queue_alone(self, tmp_path: Path) -> None:
        """Some versions write no line for it (anthropics/claude-code#30623, simonw/claude-code-transcripts#98)."""

        path = FIXTURES / "chats" / "claude_code_queue.jsonl"
        assert texts(path) == [("user", "Boil it"), ("user", "And milk"), ("user", "With sugar")]
        ids = [record.external_id for record in sorted_out(path)[0]]
        assert ids == [record.external_id for record in sorted_out(path)[0]]

    def test_what_a_person_answered_to_a_tool_is_read(self, tmp_path: Path) -> None:
        """Reasons of refusals, answers to questions, plans and words behind a command stand in calls and results. The
        sentences are those of Open-ClaudeCode, src/utils/messages.ts."""
        path = FIXTURES / "chats" / "claude_code_answers.jsonl"
        assert texts(path) == [
            ("user", "/brew green tea"),
            ("assistant", "Which pot?\n- clay\n- tin"),
            ("user", "clay"),
            ("user", "none of them"),
            ("assistant", "Boil"),
            ("user", "Use tin"),
        ]

    def test_a_log_whose_end_was_not_written_is_read_to_there(self, tmp_path: Path) -> None:
        path = lines(tmp_path, code_line(1, "user", "one"), '{"type": "user", "uu')
        records, [rejected] = sorted_out(path)
        assert ([record.text for record in records], rejected.line) == (["one"], 2)

    def test_several_logs_in_an_archive(self, tmp_path: Path) -> None:
        path = tmp_path / "projects.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in (1, 2):
                archive.writestr(f"tea/{number}.jsonl", json.dumps(code_line(number, "user", f"words {number}")))
        assert texts(path) == [("user", "words 1"), ("user", "words 2")]


def codex(role: str, text: str, kind: str = "input_text") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def now(payload: dict[str, Any], kind: str = "response_item", minute: int = 1) -> dict[str, Any]:
    return {"timestamp": f"2025-10-01T10:{minute:02}:00.000Z", "type": kind, "payload": payload}


class TestCodex:
    def test_a_log_of_today(self, tmp_path: Path) -> None:
        path = FIXTURES / "chats" / "codex.jsonl"
        assert open_chat(path).format == "codex"
        records, rejected = sorted_out(path)
        assert rejected == []
        assert [(record.role, record.text, record.external_id) for record in records] == [
            ("user", "Boil it", "codex:s1:2"),
            ("assistant", "Boiled.", "codex:s1:3"),
        ]
        assert records[0].sent_at.minute == 2
        assert records[0].metadata == {"cwd": "/tea"}

    def test_words_that_stand_only_in_items_of_events_are_read(self, tmp_path: Path) -> None:
        """Logs of Codex 0.149 (furkankly/zoetrope#10)."""
        question = {"type": "UserMessage", "id": "i1", "content": [{"type": "text", "text": "Boil it"}]}
        answer = {"type": "AgentMessage", "id": "i2", "content": [{"type": "Text", "text": "Boiled."}]}
        path = lines(
            tmp_path,
            now({"id": "s1", "timestamp": "2025-10-01T10:00:00Z"}, "session_meta"),
            *(now({"type": "item_completed", "item": item}, "event_msg") for item in (question, answer)),
        )
        assert texts(path) == [("user", "Boil it"), ("assistant", "Boiled.")]

    def test_an_old_log_whose_lines_have_no_times(self, tmp_path: Path) -> None:
        path = lines(
            tmp_path,
            {"id": "s0", "timestamp": "2025-06-01T10:00:00Z", "instructions": None},
            {"record_type": "state"},
            codex("user", "Boil it"),
            {"type": "reasoning", "summary": []},
            codex("assistant", "Boiled.", "output_text"),
        )
        records, rejected = sorted_out(path)
        assert rejected == []
        assert [(record.text, record.sent_at.isoformat()) for record in records] == [
            ("Boil it", "2025-06-01T10:00:00+00:00"),
            ("Boiled.", "2025-06-01T10:00:00+00:00"),
        ]
        assert records[0].metadata == {"time_source": "neighbour"}

    def test_a_document_of_the_first_versions(self, tmp_path: Path) -> None:
        """One document with the session and its items: openai/codex, codex-cli/src/utils/storage/save-rollout.ts."""
        session = {"id": "s0", "timestamp": "2025-04-20T10:00:00.000Z", "instructions": "SECRET"}
        old = [codex("user", "Boil it"), {"type": "reasoning"}, codex("assistant", "Boiled.", "output_text"), 7]
        path = written(tmp_path, {"session": session, "items": old}, "rollout-2025-04-20-s0.json")
        records, [rejected] = sorted_out(path)
        assert [(each.role, each.text, each.session) for each in records] == [
            ("user", "Boil it", "codex:s0"),
            ("assistant", "Boiled.", "codex:s0"),
        ]
        assert rejected.line == "items[3]"
        assert len(list(open_chat(path).records())) == 1 + len(old)

    def test_a_log_without_its_beginning_says_so(self, tmp_path: Path) -> None:
        records, [rejected] = sorted_out(lines(tmp_path, now(codex("user", "Boil it"))))
        assert (records, rejected.reason) == ([], "the log does not begin with its session")


# ChatGPT's export, with the oddities real ones have, as messages or as rejections with a place.


class TestChatGPT:
    def test_only_the_branch_that_was_shown_is_read(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("root", None),
            node("hidden", "root", "", role="system"),
            node("first", "hidden", "first wording"),
            node("second", "hidden", "second wording", create_time=1700000100.5),
            node("answer", "second", "an answer", role="assistant"),
        )
        records, rejected = sorted_out(written(tmp_path, [conversation]))
        assert rejected == []
        assert [(record.external_id, record.role, record.text) for record in records] == [
            ("chatgpt:c1:second", "user", "second wording"),
            ("chatgpt:c1:answer", "assistant", "an answer"),
        ]
        assert {record.session for record in records} == {"c1"}
        assert records[0].metadata["conversation"] == "Tea"

    def test_a_message_without_a_time_takes_that_before_it(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("a", None, "one"),
            node("b", "a", "two", create_time=1700000100),
            node("c", "b", "three"),
            node("d", "c", "four", create_time=1700000050),
        )
        records, _rejected = sorted_out(written(tmp_path, {"conversations": [conversation]}))
        assert [record.sent_at.timestamp() for record in records] == [1700000000, 1700000100, 1700000100, 1700000100]

    def test_what_the_person_never_saw_is_left_out_without_a_word(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("a", None, "profile", metadata={"is_user_system_message": True}),
            node("b", "a", "secret", metadata={"is_visually_hidden_from_conversation": True}),
            node("c", "b", "question"),
            node("d", "c", {"content_type": "thoughts", "thoughts": [{"content": "hm"}]}, role="assistant"),
            node("e", "d", {"content_type": "code", "text": "print(1)"}, role="assistant", recipient="python"),
            node("f", "e", {"content_type": "execution_output", "text": "1"}, role="tool"),
            node("g", "f", "answer", role="assistant", recipient="all"),
            node("h", "g", "report", role="tool", metadata={"is_async_task_result_message": True}),
        )
        records, rejected = sorted_out(written(tmp_path, [conversation]))
        assert [record.text for record in records] == ["question", "answer", "report"]
        assert rejected == []

    def test_pictures_files_and_voice_become_marks_and_words(self, tmp_path: Path) -> None:
        parts = [
            {"content_type": "image_asset_pointer", "asset_pointer": "sediment://x"},
            {"content_type": "audio_transcription", "text": "spoken"},
            "typed \ue200cite\ue202turn0search1\ue201",
        ]
        files = [{"id": "1", "name": "plan.pdf"}, {"id": "2", "name": "x.png", "mime_type": "image/png"}]
        message = node("a", None, {"content_type": "multimodal_text", "parts": parts}, metadata={"attachments": files})
        [record], _rejected = sorted_out(written(tmp_path, [chatgpt(message)]))
        assert record.text == "[file: plan.pdf]\n[image]\nspoken\ntyped"

    @pytest.mark.parametrize(("conversation", "reason"), table("conversations_that_are_none"))
    def test_a_conversation_without_its_tree_is_reported_with_its_place(
        self, tmp_path: Path, conversation: Any, reason: str
    ) -> None:
        good = chatgpt(node("a", None, "fine"), id="c2")
        records, [rejected] = sorted_out(written(tmp_path, [good, conversation]))
        assert [record.text for record in records] == ["fine"]
        assert rejected.line == "[1]"
        assert reason in rejected.reason

    def test_bad_nodes_are_reported_and_the_rest_stays(self, tmp_path: Path) -> None:
        conversation = chatgpt(
            node("a", "lost", "what is left"),
            node("b", "a", {"content_type": "hologram"}, role="assistant"),
            node("c", "b", "robot", role="robot"),
        )
        records, rejected = sorted_out(written(tmp_path, [conversation]))
        assert [record.text for record in records] == ["what is left"]
        assert [item.line for item in rejected] == ["[0].mapping[a]", "[0].mapping[b]", "[0].mapping[c]"]

    def test_a_tree_that_bites_its_tail_ends(self, tmp_path: Path) -> None:
        path = written(tmp_path, [chatgpt(node("a", "b", "one"), node("b", "a", "two"))])
        assert [record.text for record in sorted_out(path)[0]] == ["one", "two"]

    def test_the_exported_archive_is_read_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("chat.html", "<html>")
            for number in (1, 2):
                one = chatgpt(node("a", None, f"part {number}"), id=f"c{number}")
                archive.writestr(f"conversations-{number:03}.json", json.dumps([one]))
        assert [record.text for record in sorted_out(path)[0]] == ["part 1", "part 2"]


# Lists of OpenAI messages, and the database of laplaced.


START = datetime(2024, 5, 1, tzinfo=UTC)
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Which tea?", "name": "Anna"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "SECRET"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "SECRET"},
    {"role": "assistant", "content": [{"type": "text", "text": "Green."}]},
    {"role": "user", "content": [{"type": "text", "text": "This?"}, {"type": "image_url", "image_url": {"url": "x"}}]},
]


class TestOpenAI:
    def test_messages_of_the_assistants_api_have_their_words_one_level_below(self, tmp_path: Path) -> None:
        part = {"type": "text", "text": {"value": "Which tea?", "annotations": []}}
        thread = {"object": "thread.message", "role": "user", "content": [part], "created_at": 1_700_000_000}
        [record], rejected = sorted_out(lines(tmp_path, thread))
        assert (record.text, rejected) == ("Which tea?", [])

    @pytest.mark.parametrize("value", [TALK, {"messages": TALK}, [{"messages": TALK}], [TALK]])
    def test_a_conversation_in_any_wrapping(self, tmp_path: Path, value: Any) -> None:
        records, rejected = sorted_out(written(tmp_path, value), start=START)
        assert rejected == []
        assert [(record.role, record.author, record.text) for record in records] == [
            ("system", "", "Be kind."),
            ("user", "Anna", "Which tea?"),
            ("assistant", "", "Green."),
            ("user", "", "This?\n[image]"),
        ]
        assert len({record.session for record in records}) == 1

    @pytest.mark.parametrize(
        "form",
        [
            lambda kind, text: {"type": kind, "data": {"content": text, "additional_kwargs": {}, "id": "1"}},
            lambda kind, text: {
                "lc": 1,
                "type": "constructor",
                "id": ["langchain", "schema", "messages", "HumanMessage" if kind == "human" else "AIMessageChunk"],
                "kwargs": {"content": text, "type": kind},
            },
            lambda kind, text: {"type": kind, "content": text, "id": "1", "tool_calls": []},
        ],
        ids=["messages_to_dict", "dumpd", "model_dump"],
    )
    @pytest.mark.parametrize("wrap", [lambda it: it, lambda it: {"messages": it}, lambda it: {"History": it}])
    def test_messages_of_langchain_are_read_in_each_of_its_forms(self, tmp_path: Path, form: Any, wrap: Any) -> None:
        """langchain_core.messages.messages_to_dict, langchain_core.load.dumpd, and a message as a model of pydantic;
        ``History`` is the table of DynamoDBChatMessageHistory."""
        said = [form("human", "q"), form("tool", "SECRET"), form("ai", "a")]
        said[1] = {"type": "tool", "data": {"content": "SECRET"}}
        records, _rejected = sorted_out(written(tmp_path, wrap(said)), start=START)
        assert [(record.role, record.text) for record in records] == [("user", "q"), ("assistant", "a")]

    def test_without_a_date_each_message_asks_for_one_and_times_of_the_file_are_taken(self, tmp_path: Path) -> None:
        records, rejected = sorted_out(written(tmp_path, TALK))
        assert (records, len(rejected)) == ([], 4)
        timed = [{"role": "user", "content": "a", "timestamp": 1753453800}, {"role": "assistant", "content": "b"}]
        records, _rejected = sorted_out(written(tmp_path, timed))
        assert [record.sent_at.timestamp() for record in records] == [1753453800] * 2

    @pytest.mark.parametrize(
        "rows",
        [
            [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
            [[{"role": "user", "content": "q"}], [{"role": "assistant", "content": "a"}]],
            [{"id": "s", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}],
        ],
        ids=["a message a line", "a list a line", "ShareGPT"],
    )
    def test_lines_as_people_and_data_sets_write_them(self, tmp_path: Path, rows: list[Any]) -> None:
        """The formats of lmsys/FastChat and of logs that are written message by message."""
        records, rejected = sorted_out(lines(tmp_path, *rows), start=START)
        assert [(record.role, record.text) for record in records] == [("user", "q"), ("assistant", "a")]
        assert rejected == []
        assert len({record.external_id for record in records}) == 2

    def test_conversations_that_begin_alike_stay_apart_and_keep_their_ids_in_a_longer_file(
        self, tmp_path: Path
    ) -> None:
        first, second = {"messages": TALK[:2]}, {"messages": [*TALK[:2], {"role": "assistant", "content": "Black."}]}
        short, _rejected = sorted_out(lines(tmp_path, first, second), start=START)
        longer, _rejected = sorted_out(
            lines(tmp_path, {"messages": TALK}, second, {"messages": [{"role": "user", "content": "New"}]}), start=START
        )
        ids = [record.external_id for record in longer]
        assert len(set(ids)) == len(ids) == 8
        assert {record.external_id for record in short} < set(ids)

    def test_lines_that_are_no_conversation_are_named(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"messages": TALK[:2]}, "{oops", {"messages": "x"}, {"messages": [7]})
        records, rejected = sorted_out(path, start=START)
        assert len(records) == 2
        assert [item.line for item in rejected] == [2, "line 3", "line 4.messages[0]"]

    def test_what_else_a_conversation_holds_is_kept(self, tmp_path: Path) -> None:
        path = lines(tmp_path, {"id": "abc", "messages": TALK[1:2], "model": "m", "score": 3})
        [record], _rejected = sorted_out(path, start=START)
        assert (record.external_id, record.metadata["conversation"]["score"]) == ("openai:abc:0", 3)


def database(tmp_path: Path, *statements: str) -> Path:
    path = tmp_path / "memory.db"
    rows = sqlite3.connect(path)
    for statement in statements:
        rows.execute(statement)
    rows.commit()
    rows.close()
    return path


HISTORY = "CREATE TABLE history (id INTEGER PRIMARY KEY, user_id, role TEXT, content TEXT, topic_id, created_at)"
USERS = "CREATE TABLE users (id INTEGER PRIMARY KEY, username TEXT, first_name TEXT, last_name TEXT)"


class TestLaplaced:
    def test_messages_of_all_users_by_their_names(self, tmp_path: Path) -> None:
        path = database(
            tmp_path,
            HISTORY,
            USERS,
            "INSERT INTO users VALUES (1, 'anna', 'Anna', ''), (2, '', 'Boris', 'P'), (3, 'anna', '', '')",
            "INSERT INTO history VALUES (1, 1, 'user', 'hi', 7, '2025-07-25 14:30:00')",
            "INSERT INTO history VALUES (2, 1, 'assistant', 'hello', 7, '2025-07-25 14:31:00.5 +0300 MSK m=+0.1')",
            "INSERT INTO history VALUES (3, 2, 'user', 'new', NULL, '2025-07-26T00:00:00Z')",
            "INSERT INTO history VALUES (4, 3, 'user', 'other', NULL, NULL)",
            "INSERT INTO history VALUES (5, 9, 'robot', 'x', NULL, NULL)",
        )
        assert open_chat(path).format == "laplaced"
        records, [rejected] = sorted_out(path)
        assert [(record.user, record.text, record.session) for record in records] == [
            ("anna", "hi", "laplaced:topic:7"),
            ("anna", "hello", "laplaced:topic:7"),
            ("Boris P", "new", "laplaced"),
            ("anna 3", "other", "laplaced"),
        ]
        assert records[1].sent_at.isoformat() == "2025-07-25T11:31:00.500000+00:00"
        assert records[3].sent_at == records[2].sent_at
        assert rejected.line == "history[5]"

    @pytest.mark.parametrize(
        ("statements", "sentence"),
        [
            (["CREATE TABLE other (id)"], "not one of laplaced"),
            (["CREATE TABLE history (id, text)"], "not one of laplaced"),
            (["CREATE VIEW history AS SELECT 1 id, 2 user_id, 'user' role, 'x' content"], "not one of laplaced"),
        ],
    )
    def test_another_database_is_one_sentence(self, tmp_path: Path, statements: list[str], sentence: str) -> None:
        with pytest.raises(UnreadableFile, match=sentence):
            open_chat(database(tmp_path, *statements))

    def test_a_broken_database_is_one_sentence(self, tmp_path: Path) -> None:
        path = database(
            tmp_path, HISTORY, *[f"INSERT INTO history VALUES ({n}, 1, 'user', '{'x' * 900}', 1, 1)" for n in range(30)]
        )
        path.write_bytes(path.read_bytes()[:6_000])
        with pytest.raises(UnreadableFile, match="a database that cannot be read"):
            list(open_chat(path).records())


# Open WebUI: the shown path, folded blocks, old chats, exports of several people.


def open_webui_texts(path: Path) -> list[str]:
    return [item.text for item in read(path) if isinstance(item, MessageRecord)]


def test_the_path_to_the_current_message_is_read_and_the_other_branches_are_left_out(tmp_path: Path) -> None:
    """``createMessagesList`` of open-webui walks from ``currentId`` to the root by ``parentId``."""
    chat = webui(
        webui_message("a", None, "Tea?"),
        webui_message("b", "a", "Black", "assistant", modelName="Llama"),
        webui_message("cc", "a", "Green", "assistant", model="llama:8b"),
        webui_message("ddd", "cc", "Thanks"),
    )
    path = written(tmp_path, [chat])
    assert open_webui_texts(path) == ["Tea?", "Green", "Thanks"]
    records = [item for item in read(path) if isinstance(item, MessageRecord)]
    assert [record.author for record in records] == ["", "llama:8b", ""]
    assert records[0].external_id == "open-webui:c1:a"
    [left] = [item for item in read(path) if isinstance(item, LeftOut)]
    assert "branch" in left.reason


def test_a_chat_that_does_not_name_its_end_ends_with_its_latest_message(tmp_path: Path) -> None:
    chat = webui(webui_message("a", None, "Tea?"), webui_message("bb", "a", "Green", "assistant"), current=None)
    assert open_webui_texts(written(tmp_path, [chat])) == ["Tea?", "Green"]


def test_reasoning_and_tools_are_not_part_of_the_words(tmp_path: Path) -> None:
    """Reasoning stands in ``<details type="reasoning">``; in new chats in ``output``, of which ``getOutputText`` of
    structuredOutput.ts shows the parts of the type message."""
    folded = '<details type="reasoning" done="true" duration="3">\n<summary>Thought</summary>\n> hm\n</details>\nGreen'
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "name": "search", "arguments": "{}"},
        {"type": "message", "content": [{"type": "output_text", "text": "White"}]},
    ]
    chat = webui(
        webui_message(
            "a", None, "Tea?", files=[{"type": "image", "url": "data:x"}, {"type": "file", "name": "plan.pdf"}]
        ),
        webui_message("b", "a", folded, "assistant"),
        webui_message("c", "b", "", "assistant", output=output),
        webui_message("d", "c", '<details type="tool_calls" done="false">\n<summary>Cut', "assistant"),
    )
    path = written(tmp_path, [chat])
    assert open_webui_texts(path) == ["[image]\n[file: plan.pdf]\nTea?", "Green", "White"]
    assert len([item for item in read(path) if isinstance(item, LeftOut)]) == 1


def test_chats_of_before_the_tree_are_lists(tmp_path: Path) -> None:
    old = {"id": "c0", "title": "Old", "chat": {"models": ["llama"], "messages": [webui_message("a", None, "Tea?")]}}
    assert open_webui_texts(written(tmp_path, [old])) == ["Tea?"]


def test_an_administrators_export_keeps_people_apart(tmp_path: Path) -> None:
    message = webui_message("a", None)
    path = written(tmp_path, [webui(message), webui(message, id="c2", user_id="u2")])
    assert open_chat(path).users() == {"u1", "u2"}
    assert [item.user for item in read(path)] == ["u1", "u2"]
    assert open_chat(written(tmp_path, [webui(message)], "own.json")).users() == set()
