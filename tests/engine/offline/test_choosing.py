"""How many topics are kept, and when none is."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryapp.engine.offline.choosing import choose, expected_f1, latest_beside
from memoryapp.engine.offline.items import choose_files, files_in
from memoryapp.engine.offline.judging import JudgedTopic, judge, wants_judgement, wants_present, wants_several
from memoryapp.engine.text.lexical import normal, words
from memoryapp.engine.text.names import is_same_name, kin_asked, names_in
from tests.engine.scripted import artifact
from tests.examples import table

CHANCES = st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6)


@given(CHANCES, st.integers(1, 6))
def test_the_expected_f1_is_that_of_all_that_may_be_true(chances: list[float], k: int) -> None:
    k = min(k, len(chances))
    total = 0.0
    for truth in product((0, 1), repeat=len(chances)):
        likely = np.prod([p if holds else 1 - p for p, holds in zip(chances, truth, strict=True)])
        total += float(likely) * 2 * sum(truth[:k]) / (k + sum(truth))
    assert expected_f1(np.array(chances), k) == pytest.approx(total)


def test_one_sure_topic_is_kept_alone_and_two_sure_ones_together() -> None:
    topics = [JudgedTopic(f"Topic:{n}", 0.8, ("Anna",), ("my knee meniscus is torn",)) for n in range(3)]
    judged = judge("knee meniscus torn", topics)
    for sure in (1, 2, 3):
        known = [replace(each, chance=0.95 if n < sure else 0.02) for n, each in enumerate(judged)]
        assert len(choose(known)) == sure


def test_never_more_than_five_are_kept() -> None:
    topics = [JudgedTopic(f"Topic:{n}", 0.9, ("Anna",), ("my knee meniscus is torn",)) for n in range(9)]
    assert len(choose([replace(each, chance=0.99) for each in judge("knee meniscus torn", topics)])) == 5


def test_a_common_word_of_a_question_about_something_else_is_no_answer() -> None:
    topics = [
        JudgedTopic(f"Topic:{n}", 0.5, ("Anna",), (f"we spoke of the weather {n}", "and of work")) for n in range(12)
    ]
    assert choose(judge("Which paint did we choose for the railing at work?", topics)) == []


def of_small_memory(best: float, next_best: float) -> list[JudgedTopic]:
    """The one talk about a dog, and eleven about nothing that is asked."""
    rest = [JudgedTopic(f"Topic:{n}", next_best, ("Anna",), (f"nice weather {n}", "yes")) for n in range(2, 13)]
    return [JudgedTopic("Topic:1", best, ("Anna",), ("My dog is terrified of fireworks.", "Poor thing.")), *rest]


@pytest.mark.parametrize(("next_best", "chosen"), [(0.25, ["Topic:1"]), (0.55, [])])
def test_a_topic_far_before_the_next_answers_a_question_of_two_words(next_best: float, chosen: list[str]) -> None:
    """Among twenty passages no score can be as high as among hundreds: ten of twenty such questions found nothing,
    though the right topic was the first."""
    judged = judge("What is the dog afraid of?", of_small_memory(0.6, next_best))
    assert [found.topic.id for found in choose(judged)] == chosen


@pytest.mark.parametrize(("best", "next_best", "count"), [(0.5, 0.3, 1), (0.5, 0.4, 0), (0.32, 0.1, 0)])
@pytest.mark.parametrize("question", ["Чего боится собака?", "Wovor fürchtet sich mein Hund?", "狗害怕什么？"])
def test_a_question_in_another_language_is_answered_by_meaning_far_before_the_next(
    question: str, best: float, next_best: float, count: int
) -> None:
    """Of 200 such questions about small memories 174 found nothing, though the right topic was the first of 185."""
    assert len(choose(judge(question, of_small_memory(best, next_best)))) == count


@pytest.mark.parametrize(("question", "count"), [("What is the dog afraid of?", 1), ("Where is my red scooter?", 0)])
def test_in_a_memory_of_a_few_messages_half_of_the_words_is_an_answer(question: str, count: int) -> None:
    """The first recall of a new memory: one talk has no deviation from others, so its score says nothing."""
    assert len(choose(judge(question, of_small_memory(0.2, 0.2)[:1]))) == count
    assert choose(judge(question, of_small_memory(0.2, 0.2))) == []


@pytest.mark.parametrize(
    "question", ["What books did she read?", "How many cats are there?", "Какие книги она читала?"]
)
def test_several_things_are_asked_for(question: str) -> None:
    assert wants_several(question)


@pytest.mark.parametrize("question", ["What is her name?", "Where does he live?", "Где он живёт?"])
def test_one_thing_is_asked_for(question: str) -> None:
    assert not wants_several(question)


def test_a_judgement_is_asked_for() -> None:
    assert wants_judgement("Would she likely move?")
    assert wants_judgement("Стала бы она переезжать?")
    assert not wants_judgement("Where did she move?")


def of_two(*messages: tuple[str, str]) -> list[JudgedTopic]:
    authors, texts = zip(*messages, strict=True)
    rest = [JudgedTopic(f"Topic:{n}", 0.3, ("Anna", "Boris"), ("nice weather", "yes, very")) for n in range(2, 9)]
    return [JudgedTopic("Topic:1", 0.9, authors, texts), *rest]


@pytest.mark.parametrize(
    ("messages", "is_answered"),
    [
        ([("Boris", "I painted a sunrise over the lake"), ("Anna", "Lovely!")], False),
        ([("Boris", "Hey Anna, I painted a sunrise over the lake"), ("Anna", "Lovely!")], False),
        ([("Anna", "I painted a sunrise over the lake"), ("Boris", "Lovely!")], True),
        ([("Boris", "Guess what: Anna painted a sunrise over the lake"), ("Anna", "Lovely!")], True),
    ],
)
def test_what_one_did_is_no_answer_to_what_the_other_did(messages: list[tuple[str, str]], *, is_answered: bool) -> None:
    topics = of_two(*messages)
    assert bool(choose(judge("When did Anna paint the sunrise over the lake?", topics))) == is_answered
    assert choose(judge("When did somebody paint the sunrise over the lake?", topics))


def test_talk_in_another_language_is_judged_by_its_meaning_beside_a_shared_word() -> None:
    """The visits to the doctor were told in Russian; one English topic holds the word doctor."""
    visits = [JudgedTopic(f"Topic:{n}", 0.85, ("Анна",), (f"Врач посмотрел колено, визит {n}",)) for n in range(3)]
    english = JudgedTopic("Topic:7", 0.7, ("Anna",), ("The doctor of philosophy moved to Berlin",))
    others = [JudgedTopic(f"Topic:{n}", 0.3, ("Anna",), ("We spoke of the weather",)) for n in range(8, 14)]
    judged = judge("What did the doctor say about my knee?", [*visits, english, *others])
    chosen = {each.topic.id for each in choose(judged)}
    assert {"Topic:0", "Topic:1", "Topic:2"} <= chosen


def others_in_english() -> list[JudgedTopic]:
    return [JudgedTopic(f"Topic:{n}", 0.3, ("Anna",), ("We spoke of the weather",)) for n in range(8, 14)]


def test_talk_in_another_script_that_lacks_the_name_asked_for_is_not_chosen_by_meaning() -> None:
    cake = JudgedTopic("Topic:1", 0.55, ("Анна",), ("Даша печёт торт с лимоном",))
    other = JudgedTopic("Session:2", 0.63, ("Анна",), ("Тимур подписал договор, выходит в декабре",))
    judged = judge("Which cake did Dasha bake?", [other, cake, *others_in_english()])
    assert [each.topic.id for each in choose(judged)] == ["Topic:1"]
    assert next(each for each in judged if each.topic.id == "Topic:1").shared == ("dasha",)
    assert choose(judge("Which cake did Dasha bake?", [other, *others_in_english()])) != []


def test_one_frequent_word_does_not_come_before_meaning_in_another_language() -> None:
    price = JudgedTopic("Topic:3", 0.76, ("Anna",), ("The GPU cost eight dollars an hour",))
    dentist = JudgedTopic("Topic:4", 0.59, ("Анна",), ("Стоматолог выставил счёт за пломбу",))
    chosen = choose(judge("What did the dentist cost?", [price, dentist, *others_in_english()]))
    assert [each.topic.id for each in chosen] == ["Topic:4", "Topic:3"]
    alone = choose(judge("What did the dentist cost?", [price, *others_in_english()]))
    assert [each.topic.id for each in alone] == ["Topic:3"]


@pytest.mark.parametrize(("name", "word", "is_same"), table("names_in_two_scripts"))
def test_a_name_is_the_same_in_both_scripts(name: str, word: str, *, is_same: bool) -> None:
    assert is_same_name(name, word) == is_same


def test_names_begin_with_a_capital_letter_within_a_sentence() -> None:
    assert names_in("Which cake did Dasha bake? Where was Misha?") == {"Dasha", "Misha"}


@pytest.mark.parametrize(("question", "present"), table("present_and_past"))
def test_what_is_true_now_is_told_from_what_was(question: str, present: bool) -> None:
    assert wants_present(question) == present


def test_the_newest_topic_on_the_same_subject_is_beside_the_best_and_no_other() -> None:
    old = JudgedTopic("Topic:1", 0.9, ("Tom",), ("I signed the lease in Porto, the rent is 780",), "2026-06-04")
    new = JudgedTopic("Topic:2", 0.1, ("Tom",), ("The lease in Porto fell through, Braga for 690",), "2026-07-06")
    before = JudgedTopic("Topic:3", 0.3, ("Tom",), ("I may sign a lease in Porto",), "2026-05-01")
    other = JudgedTopic("Topic:4", 0.3, ("Tom",), ("Emil lost his violin on the tram",), "2026-07-15")
    judged = judge("how much is the rent now?", [old, new, before, other])
    best = [found for found in judged if found.topic is old]
    latest = latest_beside(judged, best)
    assert latest is not None
    assert (latest[0].topic, set(latest[1])) == (new, {"leas", "porto"})
    assert latest_beside([found for found in judged if found.topic is not new], best) is None
    assert latest_beside(judged, []) is None


@pytest.mark.parametrize(
    ("question", "said", "is_asked"),
    [
        ("When does my brother's visa end?", "My bro got his visa until May.", True),
        ("When does my brother's visa end?", "I got my visa until May.", False),
        ("Когда кончается виза моего брата?", "Виза у брата до мая.", True),
        ("Когда кончается виза моего брата?", "У меня виза до мая, говорит собрат.", False),
    ],
)
def test_talk_of_somebody_else_than_my_brother_lacks_him(question: str, said: str, is_asked: bool) -> None:
    assert (not kin_asked(question).isdisjoint(words(normal(said)))) == is_asked


@pytest.mark.parametrize(
    "question", ["When does the visa end?", "Did my brother meet my sister?", "Who is my dentist?"]
)
def test_a_question_about_nobody_or_several_asks_for_no_kin(question: str) -> None:
    assert kin_asked(question) == frozenset()


# Which queries refer to a file of the running conversation, and which only mention files.


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
