"""The arguments of commands, as people type them."""

from __future__ import annotations

import os

import pytest
from django.core.management import CommandError, call_command

NOT_UTF8 = os.fsdecode(b"an\xffna")


@pytest.mark.parametrize(
    "arguments",
    [
        ("archive", "--user", NOT_UTF8),
        ("check_memory", "--user", NOT_UTF8),
        ("create_token", "reader", "--scope", "read", "--user", NOT_UTF8),
        ("erase_user", NOT_UTF8, "--yes"),
        ("evaluate", "questions.jsonl", "--user", NOT_UTF8),
        ("export_user", NOT_UTF8, "-"),
        ("import_chat", "chat.json", "--me", NOT_UTF8),
        ("judged_questions", "--user", NOT_UTF8),
        ("recall", "bread", "--user", NOT_UTF8),
        ("recall", "bread", "--user", "anna", "--set", f"author={NOT_UTF8}"),
        ("undo_night", NOT_UTF8),
    ],
    ids=" ".join,
)
def test_a_name_that_is_no_text_is_refused_in_a_sentence(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="is not UTF-8 text"):
        call_command(*arguments)
