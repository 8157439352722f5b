"""ChatGPT's export, with the oddities real ones have, as messages or as rejections with a place."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.chats import chatgpt, node, sorted_out, written


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

    @pytest.mark.parametrize(
        ("conversation", "reason"),
        [
            ({"id": "c1", "title": "x"}, "mapping"),
            (chatgpt(), "mapping"),
            (chatgpt(node("a", None, "x"), id=None), "no id"),
            (chatgpt(node("a", None, "x"), current_node="gone"), "'gone'"),
            (chatgpt(node("a", None, "x"), node("b", None, "y"), current_node=None), "current_node"),
            (chatgpt(node("a", None, "x"), current_node=["a"]), "current_node"),
            (5, "JSON object"),
        ],
    )
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
