"""Which queries refer to a file of the running conversation, and which only mention files."""

import pytest

from memoryapp.engine.offline.items import choose_files, files_in
from tests.engine.scripted import artifact

PHOTO = artifact(1, "IMG_0012.jpg", "A cat on a stove", in_session=True, file_type="image")
CLAUSE = artifact(2, "nordlys-swap-clause.pdf", "A clause of a contract", in_session=True)
VOICE = artifact(3, "petrov.ogg", in_session=True, file_type="voice")
ELSEWHERE = artifact(4, "knee-mri.pdf", "Report of the knee scan", keywords=["meniscus"])
AT_HAND = "\n".join(each.line for each in (PHOTO, CLAUSE, VOICE, ELSEWHERE))
ALL = ["photo", "clause", "voice"]
NAMES = {PHOTO.id: "photo", CLAUSE.id: "clause", VOICE.id: "voice", ELSEWHERE.id: "elsewhere"}


def chosen(query: str) -> list[str]:
    return [NAMES[kept.item.id] for kept in choose_files(query, files_in(AT_HAND)) if kept.why == "here"]


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("what is in this file?", ALL),
        ("Who is on that photo?", ["photo"]),
        ("Summarise the document I sent", ["clause"]),
        ("does the pdf Petrov just forwarded mention H200?", ["clause"]),
        ("what does IMG_0012.jpg show", ["photo"]),
        ("is there a number of cards in nordlys-swap-clause?", ["clause"]),
        ("What's in the picture?", ["photo"]),
        ("how many people are in the image?", ["photo"]),
        ("describe the picture", ["photo"]),
        ("please transcribe the recording for me", ["voice"]),
        ("translate this attached document into English", ["clause"]),
        ("how do I open this pdf?", ["clause"]),
        ("What is this?", ALL),
        ("is that recording from Petrov", ["voice"]),
        ("what date stands in the attached file", ALL),
        ("the screenshot shows an error, why?", ["photo"]),
        ("what did he say in the voice message?", ["voice"]),
        ("compare these photos", ["photo"]),
        ("что в этом файле?", ALL),
        ("Кто это на фото?", ["photo"]),
        ("что написано в документе", ["clause"]),
        ("посмотри фото, которое я прислала", ["photo"]),
        ("переведи этот pdf", ["clause"]),
        ("О чём документ, который я тебе вчера скинул?", ["clause"]),
        ("что за файл прислал Петров?", ALL),
        ("что он говорит в этом голосовом?", ["voice"]),
        ("расшифруй запись", ["voice"]),
        ("какая сумма указана в приложенном документе?", ["clause"]),
        ("как зовут кота на фотографии?", ["photo"]),
        ("прочитай вложение и скажи, можно ли поменять карты", ALL),
        ("на той картинке есть печка?", ["photo"]),
        ("что это?", ALL),
        ("есть ли срок в nordlys-swap-clause.pdf?", ["clause"]),
        ("перескажи документ", ["clause"]),
        ("как мне подписать этот документ?", ["clause"]),
        ("сколько человек на снимке", ["photo"]),
        ("вот фото, кто там?", ["photo"]),
        ("сделай выжимку из документа", ["clause"]),
        ("In the recording, what does he promise?", ["voice"]),
        ("I've just attached a screenshot, what is wrong?", ["photo"]),
    ],
)
def test_a_query_that_points_at_a_file_chooses_those_it_can_mean(query: str, files: list[str]) -> None:
    assert sorted(chosen(query)) == sorted(files)


@pytest.mark.parametrize(
    "query",
    [
        "which file format does vLLM use",
        "What image format is smaller, png or webp?",
        "how do I read a file line by line in Python?",
        "is it true that pdf is older than docx?",
        "which documents do I need for the tax return",
        "where is the config file of nginx",
        "rebuild the docker image",
        "how to convert a picture to black and white",
        "What did I name the file system on the new disk?",
        "the photos from Georgia, where did we put them?",
        "how large may an attached file be in Gmail?",
        "should I back up files every day",
        "does this file system support snapshots?",
        "the document I sent to the tax office in March",
        "best camera for video",
        "what is a file descriptor",
        "did the recording studio answer?",
        "how does the file get from MinIO to the GPU?",
        "какой формат файла использует vLLM?",
        "как сжать фото без потерь?",
        "какие документы нужны для вычета",
        "где лежит файл конфигурации nginx",
        "сколько фото мы сделали в Грузии",
        "как открыть pdf на телефоне",
        "запись к ортопеду на понедельник",
        "что прописать в файле hosts",
        "сохрани разговор в файл",
        "документы, которые я отправил в налоговую",
        "что такое файловая система?",
        "в каком файле хранятся ключи",
        "что испечь, если видео с рецептом удалили",
        "почему картинки в статье не грузятся?",
        "документация по MinIO",
        "как распознать текст на фото",
        "купить новый фотоаппарат",
        "это правда, что docx лучше?",
        "I uploaded a file to S3, where is it?",
        "кому я отправил документы в марте?",
        "вот бы фото получались лучше",
    ],
)
def test_a_query_that_speaks_of_files_in_general_chooses_none_of_the_conversation(query: str) -> None:
    assert chosen(query) == []


def test_a_kind_that_was_not_sent_is_not_pointed_at() -> None:
    assert chosen("what is said in this video?") == []


def test_what_is_pointed_at_stands_before_what_shares_words() -> None:
    kept = choose_files("does this pdf say more than the meniscus report?", files_in(AT_HAND))
    assert [NAMES[each.item.id] for each in kept] == ["clause", "elsewhere"]
