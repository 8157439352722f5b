"""What was shown becomes messages with its text, whatever holds it; what was taken back is left out and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from memoryapp.importers import LeftOut, MessageRecord, read
from tests.support.chats import asked, chatgpt, claude, code_line, lines, node, sent, sorted_out, telegram, written


def texts(path: Path) -> list[str]:
    return [item.text for item in read(path, me="-") if isinstance(item, MessageRecord)]


def left_out(path: Path) -> list[int | str]:
    return [item.line for item in read(path) if isinstance(item, LeftOut)]


def reasons(path: Path) -> dict[int | str, str]:
    return {item.line: item.reason for item in read(path) if isinstance(item, LeftOut)}


def canvas(key: str, parent: str, tool: str, call: Any) -> tuple[str, dict[str, Any]]:
    """The call of a tool of the canvas, as its instructions give the schema: josephjohncox/chatgpt-json-to-md
    and convoviz read these from ``conversations.json``, because an export has no other copy of the documents."""
    content = {
        "content_type": "code",
        "language": "unknown",
        "text": call if isinstance(call, str) else json.dumps(call),
    }
    return node(key, parent, content, "assistant", recipient=f"canmore.{tool}")


def test_documents_of_chatgpts_canvas_are_messages(tmp_path: Path) -> None:
    update = {"updates": [{"pattern": ".*", "multiple": False, "replacement": "Dear Ms Oak"}]}
    chat = chatgpt(
        node("a", None, "Write a letter"),
        canvas("b", "a", "create_textdoc", {"name": "Letter", "type": "document", "content": "Dear Ms Alder"}),
        node("c", "b", "Successfully created", "tool"),
        canvas("d", "c", "update_textdoc", update),
        canvas("e", "d", "comment_textdoc", {"comments": [{"pattern": "Dear", "comment": "Be warmer"}]}),
        canvas("f", "e", "create_textdoc", '{"name": "Cut", "content": "half'),
    )
    path = written(tmp_path, [chat])
    assert texts(path) == [
        "Write a letter",
        "[Letter]\nDear Ms Alder",
        "Dear Ms Oak",
        "Be warmer",
        '{"name": "Cut", "content": "half',
    ]
    assert left_out(path) == ["[0].mapping[c]"]


def test_a_picture_alone_is_a_message_of_chatgpt(tmp_path: Path) -> None:
    attached = {"attachments": [{"id": "file-1", "name": "boat.png", "mime_type": "image/png"}]}
    assert texts(written(tmp_path, [chatgpt(node("a", None, "", metadata=attached))])) == ["[file: boat.png]"]


def test_files_that_claude_writes_and_texts_that_people_paste_are_messages(tmp_path: Path) -> None:
    """``create_file`` takes description, path and file_text; a pasted text is an attachment without a name."""
    made = {"description": "d", "path": "/mnt/user-data/outputs/plan.md", "file_text": "Row one: basil"}
    tools = [
        {"type": "tool_use", "name": "create_file", "input": made},
        {"type": "tool_use", "name": "view", "input": {}},
    ]
    pasted = {"file_name": "", "extracted_content": "The boiler is old."}
    path = written(
        tmp_path,
        claude(
            asked(1, text="", content=[], attachments=[pasted]),
            asked(2, "assistant", "", content=tools),
            asked(3, text="", content=[], files=[{"file_name": ""}]),
            asked(4, text="", content=[]),
        ),
    )
    assert texts(path) == ["The boiler is old.", "[plan.md]\nRow one: basil", "[file]"]
    assert len(left_out(path)) == 1


class TestRewinds:
    def test_what_a_person_went_back_from_in_claude_code_is_left_out(self, tmp_path: Path) -> None:
        path = lines(
            tmp_path,
            code_line(1, "user", "Plan", parentUuid=None),
            code_line(2, "assistant", "Basil"),
            code_line(3, "user", "Mint"),
            code_line(4, "assistant", "All mint"),
            code_line(5, "user", "Chives", parentUuid="u2"),
            code_line(6, "assistant", "Chives too"),
        )
        assert texts(path) == ["Plan", "Basil", "Chives", "Chives too"]
        assert left_out(path) == [3, 4]

    def test_a_command_or_a_hook_before_the_next_prompt_hides_no_rewind(self, tmp_path: Path) -> None:
        """The next message re-parents to the target of the rewind (backnotprop/plannotator#1141)."""
        command = "<command-name>/rewind</command-name>"
        path = lines(
            tmp_path,
            code_line(1, "user", "Plant mint", parentUuid=None),
            code_line(2, "assistant", "Planted."),
            code_line(3, "user", "And nettles"),
            code_line(4, "assistant", "Really?"),
            {**code_line(5, "system", "", parentUuid="u2"), "subtype": "turn_duration"},
            code_line(6, "user", command, parentUuid="u5"),
            code_line(7, "user", "And sage"),
        )
        assert texts(path) == ["Plant mint", "Planted.", "And sage"]

    def test_tools_that_run_at_the_same_time_are_no_branches(self, tmp_path: Path) -> None:
        result = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
        use = [{"type": "text", "text": "Two at once"}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
        path = lines(
            tmp_path,
            code_line(1, "user", "Look", parentUuid=None),
            code_line(2, "assistant", use),
            code_line(3, "user", result, parentUuid="u2"),
            code_line(4, "user", result, parentUuid="u2"),
            code_line(5, "assistant", "Done", parentUuid="u3"),
        )
        assert texts(path) == ["Look", "Two at once", "Done"]
        assert left_out(path) == [3, 4]

    def test_turns_that_codex_rolled_back_are_left_out(self, tmp_path: Path) -> None:
        """``thread_rolled_back`` with ``num_turns`` is appended to the log, which is never rewritten."""
        path = lines(
            tmp_path,
            codex("session_meta", id="t1", timestamp="2025-12-07T10:00:00Z"),
            *(codex("event_msg", type=f"{who}_message", message=text) for who, text in TALK),
            codex("event_msg", type="thread_rolled_back", num_turns=1),
            codex("event_msg", type="user_message", message="third"),
        )
        assert texts(path) == ["first", "one", "third"]
        assert reasons(path) == {4: "somebody went back from it", 5: "somebody went back from it", **EVENTS}

    @pytest.mark.parametrize(
        "words",
        [
            lambda who, text: {"type": f"{who}_message", "text": text},
            lambda who, text: {"type": f"{who}_message", "content": text},
            lambda who, text: {"type": f"{who}_message", "content": [{"type": "text", "text": text}]},
            lambda who, text: {"type": f"{who}_message", "message": {"type": "text", "text": text}},
            lambda who, text: {"type": f"{who}Message", "content": [{"type": "Text", "text": text}]},
            lambda who, text: {"type": "item_completed", "item": {"type": f"{who}Message", "text": text}},
        ],
        ids=["text", "content", "parts", "an object", "camel case", "an item"],
    )
    def test_words_of_codex_are_read_under_any_of_their_names(self, tmp_path: Path, words: Any) -> None:
        """openai/codex#30190, BeehiveInnovations/pal-mcp-server#286: each version moved them."""
        events = [codex("event_msg", **words(who, text)) for who, text in TALK]
        path = lines(tmp_path, codex("session_meta", id="t1", timestamp="2025-12-07T10:00:00Z"), *events)
        records, _rejected = sorted_out(path)
        assert [record.text for record in records] == [text for _who, text in TALK]

    def test_words_of_codex_that_stand_twice_are_read_once(self, tmp_path: Path) -> None:
        user_words = {"role": "user", "content": [{"type": "input_text", "text": "first"}]}
        path = lines(
            tmp_path,
            codex("session_meta", id="t1", timestamp="2025-12-07T10:00:00Z"),
            codex("response_item", type="message", **user_words),
            codex("event_msg", type="user_message", message="first"),
            codex("event_msg", type="agent_message", message="only here"),
        )
        assert texts(path) == ["first", "only here"]


EVENTS = {1: "it is an event of the log, no message", 6: "it is an event of the log, no message"}
TALK = (("user", "first"), ("agent", "one"), ("user", "second"), ("agent", "two"))


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2025-12-07T10:00:01Z", "type": kind, "payload": payload}


class TestTelegram:
    def test_new_contents_give_their_text(self, tmp_path: Path) -> None:
        checklist = {"title": "Trip", "answers": [{"id": 1, "text": "tent"}, {"id": 2, "text": [{"text": "ferry"}]}]}
        rich = {"blocks": [{"type": "heading", "text": "Plan"}, {"items": [{"checked": True, "text": "buy"}]}]}
        poll = {"question": "When?", "answers": [{"text": "May"}, {"text": "June"}]}
        path = written(
            tmp_path,
            telegram(
                sent(1, text="", todo_list=checklist),
                sent(2, text="", rich_message=rich),
                sent(3, text="", poll=poll),
                sent(4, text="", something_new={"caption": "Words of a kind to come"}),
            ),
        )
        assert texts(path) == [
            "Trip\ntent\nferry",
            "Plan\n[x] buy",
            "[poll: When? / May / June]",
            "Words of a kind to come",
        ]

    def test_nothing_is_stored_with_an_empty_text(self, tmp_path: Path) -> None:
        records, [rejected] = sorted_out(written(tmp_path, telegram(sent(1, text="", dice_roll=3), sent(2))))
        assert [record.text for record in records] == ["hi"]
        assert "dice_roll" in rejected.reason
