"""Claude's export and the logs of coding agents: what was visible, and nothing of the hidden parts."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memoryapp.importers import Rejected, open_chat
from tests.support.chats import asked, claude, code_line, lines, sorted_out, written

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
        path = lines(
            tmp_path,
            {"type": "summary", "summary": "SECRET", "leafUuid": "u9"},
            {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
            code_line(1, "user", "Fix the kettle"),
            code_line(2, "user", "<command-name>/clear</command-name>"),
            code_line(3, "user", "Caveat: SECRET", isMeta=True),
            code_line(4, "assistant", [{"type": "thinking", "thinking": "SECRET"}]),
            code_line(5, "assistant", [{"type": "text", "text": "I look."}]),
            code_line(6, "assistant", [{"type": "tool_use", "name": "Bash", "input": {"command": "SECRET"}}]),
            code_line(7, "user", [{"type": "tool_result", "content": "SECRET", "tool_use_id": "t1"}]),
            code_line(8, "user", "SECRET of a helper", isSidechain=True),
            code_line(9, "assistant", [{"type": "text", "text": "SECRET"}], isSidechain=True),
            code_line(10, "user", "SECRET of before", isCompactSummary=True),
            code_line(
                11,
                "user",
                [
                    {"type": "text", "text": "<ide_opened_file>SECRET</ide_opened_file>"},
                    {"type": "text", "text": "And this?"},
                    {"type": "image", "source": {"data": "SECRET"}},
                ],
            ),
            {**code_line(12, "assistant", "SECRET"), "message": {"model": "<synthetic>", "content": "SECRET"}},
        )
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

        def queued(operation: str, content: str = "", **fields: Any) -> dict[str, Any]:
            known = {"type": "queue-operation", "operation": operation, "timestamp": "2025-05-01T10:02:00.000Z"}
            return {**known, "sessionId": "s1", **({"content": content} if content else {}), **fields}

        path = lines(
            tmp_path,
            code_line(1, "user", "Boil it"),
            queued("enqueue", "And milk"),
            queued("enqueue", "With sugar"),
            queued("remove", "And milk", reason="absorbed_mid_turn"),
            queued("enqueue", "<task-notification>SECRET</task-notification>"),
            queued("enqueue", "Pour it away"),
            queued("popAll", "Pour it away"),
            queued("dequeue"),
            code_line(2, "user", "With sugar"),
        )
        assert texts(path) == [("user", "Boil it"), ("user", "And milk"), ("user", "With sugar")]
        ids = [record.external_id for record in sorted_out(path)[0]]
        assert ids == [record.external_id for record in sorted_out(path)[0]]

    def test_what_a_person_answered_to_a_tool_is_read(self, tmp_path: Path) -> None:
        """Reasons of refusals, answers to questions, plans and words behind a command stand in calls and results.

        The sentences are those of Open-ClaudeCode, src/utils/messages.ts.
        """
        asks = {"questions": [{"question": "Which pot?", "options": [{"label": "clay"}, {"label": "tin"}]}]}
        refused = (
            "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file "
            "edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nUse tin"
        )
        answered = 'User has answered your questions: "Which pot?"="clay". You can now continue.'
        command = "<command-message>brew</command-message>\n<command-name>/brew</command-name>"

        def result(content: str) -> list[dict[str, Any]]:
            return [{"type": "tool_result", "tool_use_id": "t", "content": content}]

        path = lines(
            tmp_path,
            code_line(1, "user", f"{command}\n<command-args>green tea</command-args>"),
            code_line(2, "user", f"{command}\n<command-args></command-args>"),
            code_line(3, "assistant", [{"type": "tool_use", "id": "t", "name": "AskUserQuestion", "input": asks}]),
            code_line(4, "user", result(answered), toolUseResult={"answers": {"Which pot?": "clay"}}),
            code_line(5, "user", result(answered.replace("clay", "none of them"))),
            code_line(
                6, "assistant", [{"type": "tool_use", "id": "t", "name": "ExitPlanMode", "input": {"plan": "Boil"}}]
            ),
            code_line(7, "user", result(refused), toolUseResult="Error"),
            code_line(8, "user", result("SECRET: the user said: nothing")),
            code_line(9, "user", "<command-name>/model</command-name><command-args>SECRET</command-args>"),
        )
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
        path = lines(
            tmp_path,
            now({"id": "s1", "timestamp": "2025-10-01T10:00:00Z", "cwd": "/tea", "instructions": "x"}, "session_meta"),
            now(codex("developer", "SECRET")),
            now(codex("user", "<environment_context>SECRET</environment_context>")),
            now(codex("user", "Boil it"), minute=2),
            now({"type": "user_message", "message": "Boil it"}, "event_msg"),
            now({"type": "reasoning", "summary": [{"type": "summary_text", "text": "SECRET"}]}),
            now({"type": "function_call", "name": "shell", "arguments": "SECRET"}),
            now({"type": "function_call_output", "output": "SECRET"}),
            now(codex("assistant", "Boiled.", "output_text"), minute=3),
            now({"type": "agent_message", "message": "Boiled."}, "event_msg"),
        )
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
