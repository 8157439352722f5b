"""A typo of one letter, case and punctuation do not change what the embedded models choose.

``-s`` prints how many of the golden questions get the same topics. A typo in a word that neither the memory nor the
encoder's vocabulary holds cannot be put right, which is so for every tenth of these questions: they were written in
other words than the messages. The aim of .95 is not reached for typos (.90 in English, .84 in Russian; .51 and .53
before they were put right)."""

import random
import re
from collections.abc import Sequence

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.engine.events import RunFinished
from memoryapp.insight.evaluation.questions import LabelledQuestion, read_questions
from memoryapp.models import ChatUser
from memoryapp.platform.llm.clients import embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.spelling import LONG
from memoryapp.search.vectors import embed_pending
from memoryapp.upkeep import demo
from tests.support.executing import events_of

LETTERS = {"en": "abcdefghijklmnopqrstuvwxyz", "ru": "абвгдежзийклмнопрстуфхцчшщыьэюя"}


def mistyped(question: str, letters: str, chance: random.Random) -> str:
    """The question with one letter of one long word too many, missing, wrong or swapped with the next."""
    words = [found for found in re.finditer(r"[^\W\d_]+", question) if len(found[0]) >= LONG]
    if not words:
        return question
    found = chance.choice(words)
    word, at = found[0], chance.randrange(1, len(found[0]) - 1)
    wrong = chance.choice(letters.replace(word[at].lower(), ""))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    forms = [word[:at] + word[at + 1 :], word[:at] + wrong + word[at:], word[:at] + wrong + word[at + 1 :], swapped]
    return question[: found.start()] + chance.choice(forms) + question[found.end() :]


def careless(question: str, chance: random.Random) -> str:
    """The question in other letters and with other marks."""
    plain = question.rstrip("?.! ")
    return chance.choice([plain.lower(), plain.upper(), f"{plain.lower()}???", f"  {plain}!", plain.replace(",", "")])


async def chosen(questions: Sequence[LabelledQuestion], written: Sequence[str]) -> list[list[str]]:
    owners = {each.name: each async for each in ChatUser.objects.all()}
    selected = []
    async with open_clients() as clients:
        for question, text in zip(questions, written, strict=True):
            run = await sync_to_async(lifecycle.start)(
                owners[question.user], text, strategy="flash", parameters={"seconds": 300, "turn_seconds": 300}
            )
            await lifecycle.execute(run.pk, clients)
            [finished] = [event for event in await events_of(run) if isinstance(event, RunFinished)]
            selected.append([each.id for each in finished.selected])
    return selected


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_same_topics_are_chosen_for_most_questions_with_a_typo_or_in_other_letters() -> None:
    assert demo.load()
    async_to_sync(embed_pending)(embedder())
    shares = {}
    for language, letters in LETTERS.items():
        questions = read_questions(demo.CONTENT / f"golden_{language}.jsonl").asked
        chance = random.Random(f"typos {language}")
        plain = [each.question for each in questions]
        ways = {
            "typo": [mistyped(each, letters, chance) for each in plain],
            "letters": [careless(each, chance) for each in plain],
        }
        usual = async_to_sync(chosen)(questions, plain)
        for way, written in ways.items():
            got = async_to_sync(chosen)(questions, written)
            same = [one == other for one, other in zip(usual, got, strict=True)]
            shares[language, way] = sum(same) / len(same)
            print(f"\n{language} {way}: {sum(same)} of {len(same)}")
            print("\n".join(text for text, is_same in zip(written, same, strict=True) if not is_same))
    least = {"typo": 0.8, "letters": 0.95}
    assert {kind: share for kind, share in shares.items() if share < least[kind[1]]} == {}
