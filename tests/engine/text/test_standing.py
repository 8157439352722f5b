"""Whether a statement stands in its messages: true ones are never contradicted, false ones never called supported.

The messages and statements are our own, made after kinds of false answers: a number, an order, a negation, a word or a
name is another one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memoryapp.engine.text.standing import stands_in

# A message, and below it statements of it that are true, or false.
_TRUE = """
I bought a white Toyota in May 2024 for 12,500 euros.
> You bought a white Toyota for 12500 euros.
Lena lives in Riga. Viktor moved to Berlin last year.
> Lena lives in Riga.
I have two cats, Tom and Kitty.
> You have 2 cats.
У меня две собаки, Рекс и Альма.
> У тебя 2 собаки, Рекс и Альма.
The rent is 1.2K a month, paid before the 5th.
> The rent is 1200 a month.
Doctor said take the pills after breakfast, twice a day.
> The pills are taken 2 times a day.
My flight to Oslo leaves on Monday at 7:40.
> The flight to Oslo leaves on Monday at 7:40.
Маша подарила Оле книгу.
> Книгу Оле подарила Маша.
Кот не ест рыбу, только курицу.
> Кот не ест рыбу.
Dasha baked a honey cake with walnuts for Anna's birthday.
> Dasha baked a honey cake with walnuts for Anna's birthday.
> A honey cake was baked by Dasha for Anna's birthday.
Ich habe den Vertrag mit Vodafone gekündigt, ab 1. Mai bin ich bei Telekom.
> Der Vertrag mit Vodafone ist gekündigt.
The meeting is at 3 pm in room 12.
> The meeting is at 15:00 in room 12.
I took between 20 and 25 photos.
> You took 20-25 photos.
Paid $45 for the ticket.
> The ticket cost 45 dollars.
Марина заплатила 15 тысяч рублей за курс испанского.
> Курс испанского стоил 15000 рублей.
Ольга живёт в Казани двадцать пять лет.
> Ольга живет в Казани 25 лет.
I'm allergic to penicillin and strawberries.
> You are allergic to strawberries and penicillin.
The train from Riga to Vilnius was cancelled.
> The train from Riga to Vilnius was cancelled.
Doctor Sarkisyan said the operation on my knee is not needed, only eight weeks without running.
> The operation on the knee is not needed.
> 8 weeks without running.
I refused the job offer from Nordbank, the salary was 4200 euros.
> You turned Nordbank down.
Anton will arrive on 14 June by train number 118, he never flies.
> Anton will arrive on 14 June by train number 118.
Аня переехала из Минска в Гданьск, собака осталась у мамы.
> Аня переехала из Минска в Гданьск, собака осталась у мамы.
Врач отменил антибиотики, теперь только ибупрофен 400 мг два раза в день.
> Врач отменил антибиотики, остался ибупрофен 400 мг два раза в день.
"""
_FALSE = """
I bought a white Toyota in May 2024 for 12,500 euros.
> You bought a white Toyota in June 2024.
> You sold a white Toyota in May 2024.
I wanted to buy a bike but it was too expensive.
> You bought a bike.
Lena lives in Riga. Viktor moved to Berlin last year.
> Viktor lives in Riga.
I have two cats, Tom and Kitty.
> You have three cats.
У меня две собаки, Рекс и Альма.
> У тебя три собаки.
The rent is 1.2K a month, paid before the 5th.
> The rent is paid after the 5th.
Doctor said take the pills after breakfast, twice a day.
> The pills are taken before breakfast.
Should I quit my job at Lidl?
> You quit your job at Lidl.
My flight to Oslo leaves on Monday at 7:40.
> The flight to Oslo leaves on Tuesday at 7:40.
> The flight from Oslo leaves on Monday.
I gave Marta the book that Igor wrote.
> Marta gave Igor the book.
Маша подарила Оле книгу.
> Оля подарила Маше книгу.
Кот не ест рыбу, только курицу.
> Кот ест рыбу.
Я больше не работаю в Яндексе, с марта я в Озоне.
> Ты работаешь в Яндексе.
I no longer work at Google, since March I'm with Shopify.
> You work at Google.
Dasha baked a honey cake with walnuts for Anna's birthday.
> Anna baked a honey cake with walnuts for Dasha's birthday.
Ich habe den Vertrag mit Vodafone gekündigt, ab 1. Mai bin ich bei Telekom.
> Du hast den Vertrag mit Telekom gekündigt.
The meeting is at 3 pm in room 12.
> The meeting is at 3 pm in room 21.
My brother is married, he has twins.
> Your brother is divorced and has twins.
Paid $45 for the ticket.
> The ticket cost $54.
Марина заплатила 15 тысяч рублей за курс испанского.
> Марина заплатила 50 тысяч рублей за курс испанского.
We never go to the sea in summer.
> You always go to the sea in summer.
The password is kiwi-42.
> The password is kiwi-24.
Sam agreed to help with the move on Saturday.
> Sam refused to help with the move on Saturday.
Sam didn't agree to help with the move.
> Sam agreed to help with the move.
Ольга живёт в Казани двадцать пять лет.
> Ольга живет в Казани 35 лет.
I'm not allergic to penicillin.
> You are allergic to penicillin.
Perhaps we will go to Spain in July.
> You will go to Spain in July.
Igor is taller than Pavel.
> Pavel is taller than Igor.
Nina teaches Karl German.
> Karl teaches Nina German.
Anton's mother is a nurse.
> Anton is a nurse.
My neighbour works at Lidl.
> You work at Lidl.
The train to Gdansk leaves at nine.
> The train to Gdansk leaves at ten.
Doctor Sarkisyan said the operation on my knee is not needed, only eight weeks without running.
> The operation on the knee is needed.
> Eighteen weeks without running.
I refused the job offer from Nordbank, the salary was 4200 euros.
> You accepted the job offer from Nordbank, the salary was 4200 euros.
> You refused the job offer from Nordbank, the salary was 2400 euros.
Marta moved from Riga to Porto in March, she hates the rain there.
> Marta moved from Riga to Porto in March, she loves the rain there.
My sister Lena sold the red Skoda to her neighbour Viktor for 3100 euros.
> Viktor sold the red Skoda to Lena for 3100 euros.
> Lena sold the red Skoda to her brother Viktor for 3100 euros.
> Lena sold the blue Skoda to her neighbour Viktor for 3100 euros.
The wifi password of the dacha is sunflower7 and the router is in the attic.
> The wifi password of the dacha is sunflower9.
Anton will arrive on 14 June by train number 118, he never flies.
> Anton will arrive on 14 June by plane.
> Anton always flies and arrives on 14 June.
Аня переехала из Минска в Гданьск, собака осталась у мамы.
> Аня переехала из Гданьска в Минск.
Врач отменил антибиотики, теперь только ибупрофен 400 мг два раза в день.
> Врач отменил антибиотики, теперь только ибупрофен 400 мг три раза в день.
Договор аренды заканчивается 31 октября, хозяйка Ирина поднимет цену до 900 евро.
> Договор аренды заканчивается 31 октября, хозяйка Ирина снизит цену до 900 евро.
The cat Barsik is allergic to chicken, so we buy only fish food.
> Barsik is allergic to fish, so you buy only chicken food.
"""


def pairs(lines: str) -> Iterator[tuple[str, str]]:
    message = ""
    for line in lines.strip().split("\n"):
        if line.startswith("> "):
            yield message, line.removeprefix("> ")
        else:
            message = line


@pytest.mark.parametrize(("message", "statement"), list(pairs(_TRUE)))
def test_what_is_true_is_never_contradicted(message: str, statement: str) -> None:
    assert stands_in(statement, [message]).grade in ("in_words", "differs")


@pytest.mark.parametrize(("message", "statement"), list(pairs(_FALSE)))
def test_what_is_false_is_never_said_to_stand_there(message: str, statement: str) -> None:
    found = stands_in(statement, [message])
    assert found.grade in ("differs", "contradicted")
    assert found.missing or found.turned


def test_most_true_statements_stand_in_their_messages() -> None:
    grades = [stands_in(statement, [message]).grade for message, statement in pairs(_TRUE)]
    assert grades.count("in_words") >= 0.8 * len(grades)


@pytest.mark.parametrize(
    ("statement", "missing", "turned"),
    [
        ("You accepted the job offer from Nordbank.", (), ("accepted",)),
        ("You refused the job offer from Nordbank in Oslo.", ("Oslo",), ()),
        ("You refused the job offer, the salary was 2400 euros.", (), ("2400",)),
    ],
)
def test_the_words_that_differ_are_named(statement: str, missing: tuple[str, ...], turned: tuple[str, ...]) -> None:
    found = stands_in(statement, ["I refused the job offer from Nordbank, the salary was 4200 euros."])
    assert (found.missing, found.turned) == (missing, turned)


@pytest.mark.parametrize(
    "text", ["Антон приедет 14 июня поездом.", "Anton kommt und er ist nicht mit der Bahn da.", "…"]
)
def test_another_language_is_not_compared(text: str) -> None:
    source = "Anton will arrive on the 14th of June and that is the plan, is it not for you and my wife."
    assert stands_in(text, [source]).grade == "unchecked"


def test_days_are_resolved_by_the_time_of_a_message() -> None:
    said, at = ["I saw the dentist yesterday."], datetime(2026, 3, 13, 10, tzinfo=UTC)
    assert stands_in("You saw the dentist on 12 March 2026.", said, times=[at]).grade == "in_words"
    assert stands_in("You saw the dentist on 30 March 2026.", said, times=[at]).grade != "in_words"
    assert stands_in("You saw the dentist on 12 March 2026.", ["I saw the dentist."], times=[at]).grade != "in_words"


def test_an_author_is_known_without_being_named() -> None:
    assert stands_in("Dasha baked a cake.", ["I baked a cake."]).missing == ("Dasha",)
    assert stands_in("Dasha baked a cake.", ["I baked a cake."], known=["Dasha Petrova"]).grade == "in_words"


def test_characters_without_spaces_are_compared() -> None:
    assert stands_in("合同十月三十一日到期", ["租房合同十月三十一日到期，房东要涨价"]).grade == "in_words"
    assert stands_in("合同九月二十日到期", ["租房合同十月三十一日到期，房东要涨价"]).grade != "in_words"


def test_a_long_talk_takes_no_long_time() -> None:
    began = time.process_time()
    stands_in("Anton arrives with 12 cats. " * 40, ["We talk of cats, dogs and 118 trains to Riga. " * 2_000])
    assert time.process_time() - began < 5
