"""Which queries refer to a file of the running conversation, and which only mention files."""

import pytest

from memoryapp.engine.offline.items import choose_files, files_in
from tests.engine.scripted import artifact
from tests.examples import table

PHOTO = artifact(1, "IMG_0012.jpg", "A cat on a stove", in_session=True, file_type="image")
CLAUSE = artifact(2, "nordlys-swap-clause.pdf", "A clause of a contract", in_session=True)
VOICE = artifact(3, "petrov.ogg", in_session=True, file_type="voice")
ELSEWHERE = artifact(4, "knee-mri.pdf", "Report of the knee scan", keywords=["meniscus"])
AT_HAND = "\n".join(each.line for each in (PHOTO, CLAUSE, VOICE, ELSEWHERE))
NAMES = {PHOTO.id: "photo", CLAUSE.id: "clause", VOICE.id: "voice", ELSEWHERE.id: "elsewhere"}


def chosen(query: str) -> list[str]:
    return [NAMES[kept.item.id] for kept in choose_files(query, files_in(AT_HAND)) if kept.why == "here"]


@pytest.mark.parametrize(("query", "files"), table("questions_about_files"))
def test_a_query_that_points_at_a_file_chooses_those_it_can_mean(query: str, files: list[str]) -> None:
    assert sorted(chosen(query)) == sorted(files)


@pytest.mark.parametrize("query", table("mentions_of_files"))
def test_a_query_that_speaks_of_files_in_general_chooses_none_of_the_conversation(query: str) -> None:
    assert chosen(query) == []


def test_a_kind_that_was_not_sent_is_not_pointed_at() -> None:
    assert chosen("what is said in this video?") == []


def test_what_is_pointed_at_stands_before_what_shares_words() -> None:
    kept = choose_files("does this pdf say more than the meniscus report?", files_in(AT_HAND))
    assert [NAMES[each.item.id] for each in kept] == ["clause", "elsewhere"]
