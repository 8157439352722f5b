"""A rewrite may resolve what was said; it may not put another word in the place of one that was typed."""

from __future__ import annotations

import pytest

from memoryapp.engine.agents.enricher import guesses

TALK = ("Саша порвал мениск, оперировал его Саркисян", "Anna's brother Boris moved to Lisbon")


@pytest.mark.parametrize(
    ("query", "rewrite"),
    [
        ("мениск", "MinIO"),
        ("Что с моим мениском?", "Что с моим MinIO?"),
        ("Что врач сказал про мениск после пробежки?", "Что врач сказал про MinIO после пробежки?"),
        ("What did the doctor say about my meniscus?", "What did the doctor say about MinIO?"),
        ("Как настроить Qdrant на сервере", "Как настроить Postgres на сервере"),
        ("Which book did Dasha read?", "Which film did Dasha read?"),
        ("table", "cable"),
        ("H100 за пять дней", "H200 за пять дней"),
        ("что было в 2024 году", "что было в 2025 году"),
        ("мениск", "май 2026"),
        ("Когда он приедет?", "Когда приедет Николай?"),
        ("When did she call the bank?", "When did Veronica call the bank?"),
        ("kubectl упал", "kubernetes-dashboard недоступен, перезагрузка"),
        ("What is the wifi password?", "What is the wifi password sunflower7"),
        ("When does Anna arrive?", "When does Anna arrive on 14 June 2026"),
        ("Where is the red car?", "Where is the red Škoda car of Lena"),
        ("Is the operation needed?", "the operation is not needed"),
        ("Нужна ли операция на мениске?", "Операция на мениске не нужна"),
    ],
)
def test_a_word_that_nobody_said_in_the_place_of_a_typed_one_is_a_guess(query: str, rewrite: str) -> None:
    assert guesses(query, rewrite, TALK)


@pytest.mark.parametrize(
    ("query", "rewrite"),
    [
        ("мениск", "мениск"),
        ("Что с моим мениском?", "Состояние мениска Саши"),
        ("Когда он приедет?", "Когда приедет Саша?"),
        ("Кто его оперировал?", "Кто оперировал мениск Саши"),
        ("Where did he go?", "Where did Anna's brother go?"),
        ("Where does he live?", "Where does Boris live?"),
        ("Что врач сказал про мениск?", "рекомендации врача по мениску"),
        ("Что было вчера?", "Что было 2026-03-09"),
        ("Чем мы занимались прошлым летом?", "Чем мы занимались в июне-августе 2025"),
        ("What did we do last week in Lisbon?", "What did we do in Lisbon 2026-03-02 2026-03-08"),
        ("встреча 5 мая", "встреча 2026-05-05"),
        ("Did Dasha's child come?", "dasha children came"),
        ("пробежка утром", "как я пробежал утром"),
        ("Wi-Fi на даче", "wifi дача"),
        ("GPT-5 prices", "GPT 5 price"),
        ("И что дальше?", "Что было дальше с мениском Саши"),
    ],
)
def test_what_was_said_and_what_only_changes_its_form_is_none(query: str, rewrite: str) -> None:
    assert not guesses(query, rewrite, TALK)
