"""Open WebUI: the shown path, folded blocks, old chats, exports of several people."""

from __future__ import annotations

from pathlib import Path

from memoryapp.importers import LeftOut, MessageRecord, open_chat, read
from tests.importers.other_chats import webui, webui_message
from tests.support.chats import written


def texts(path: Path) -> list[str]:
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
    assert texts(path) == ["Tea?", "Green", "Thanks"]
    records = [item for item in read(path) if isinstance(item, MessageRecord)]
    assert [record.author for record in records] == ["", "llama:8b", ""]
    assert records[0].external_id == "open-webui:c1:a"
    [left] = [item for item in read(path) if isinstance(item, LeftOut)]
    assert "branch" in left.reason


def test_a_chat_that_does_not_name_its_end_ends_with_its_latest_message(tmp_path: Path) -> None:
    chat = webui(webui_message("a", None, "Tea?"), webui_message("bb", "a", "Green", "assistant"), current=None)
    assert texts(written(tmp_path, [chat])) == ["Tea?", "Green"]


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
    assert texts(path) == ["[image]\n[file: plan.pdf]\nTea?", "Green", "White"]
    assert len([item for item in read(path) if isinstance(item, LeftOut)]) == 1


def test_chats_of_before_the_tree_are_lists(tmp_path: Path) -> None:
    old = {"id": "c0", "title": "Old", "chat": {"models": ["llama"], "messages": [webui_message("a", None, "Tea?")]}}
    assert texts(written(tmp_path, [old])) == ["Tea?"]


def test_an_administrators_export_keeps_people_apart(tmp_path: Path) -> None:
    message = webui_message("a", None)
    path = written(tmp_path, [webui(message), webui(message, id="c2", user_id="u2")])
    assert open_chat(path).users() == {"u1", "u2"}
    assert [item.user for item in read(path)] == ["u1", "u2"]
    assert open_chat(written(tmp_path, [webui(message)], "own.json")).users() == set()
