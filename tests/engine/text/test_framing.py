"""What frames a question changes nothing: not what is searched, and not the vector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryapp.engine.text.framing import bare
from memoryapp.engine.text.terms import matter_of

DEMO = Path(__file__).parents[3] / "memoryapp" / "upkeep" / "demo"
FRAMES = {
    "en": (
        "hey, can you remind me: {}",
        "{} again pls",
        "do you know {}",
        "REMIND ME {}",
        "ok so could you please tell me {}",
    ),
    "ru": ("Напомни, пожалуйста, {}", "слушай, не помнишь, {}", "{} напомни", "СКАЖИ {}", "привет! подскажи, {}"),
}


@pytest.mark.parametrize("language", FRAMES)
def test_a_framed_question_is_searched_as_the_question_itself(language: str) -> None:
    lines = (DEMO / f"golden_{language}.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    framed = [(asked, frame.format(asked)) for asked in questions for frame in FRAMES[language]]
    same = [matter_of(bare(asked), ()) == matter_of(with_frame, ()) for asked, with_frame in framed]
    assert sum(same) >= 0.95 * len(same), [pair for pair, is_same in zip(framed, same, strict=True) if not is_same]
    hasty = [matter_of(asked[:1].lower() + asked[1:].rstrip("?"), ()).texts[0] for asked in questions]
    assert hasty == [matter_of(asked, ()).texts[0] for asked in questions]


@pytest.mark.parametrize(
    ("framed", "question"),
    [
        ("what was the dentist called again", "what was the dentist"),
        ("Kannst du mir bitte sagen, wo wir wohnen?", "wo wir wohnen?"),
        ("Peux-tu me rappeler quand part le train, stp ?", "quand part le train?"),
        ("¿Me puedes recordar cuándo sale el tren?", "cuándo sale el tren?"),
        ("Mi puoi ricordare quando parte il treno?", "quando parte il treno?"),
        ("Você pode me lembrar quando sai o trem?", "quando sai o trem?"),
        ("Kun je me nog even vertellen wanneer de trein gaat?", "wanneer de trein gaat?"),
        ("Możesz mi przypomnieć, co jada kot?", "co jada kot?"),
        ("Kedi ne yiyor, hatırlıyor musun?", "Kedi ne yiyor?"),
        ("Нагадай мені, що їсть кіт?", "що їсть кіт?"),
        ("Můžeš mi prosím říct, co žere kočka?", "co žere kočka?"),
        ("ذكرني متى يغادر القطار؟", "متى يغادر القطار؟"),
        ("क्या आपको याद है कि बिल्ली क्या खाती है?", "बिल्ली क्या खाती है?"),
        ("请问猫吃什么来着", "猫吃什么"),
        ("猫は何を食べるか教えてください", "猫は何を食べるか"),
        ("remind me", "remind me"),
        ("Who am I?", "Who am I?"),
        ("Did Anna forget the keys?", "Did Anna forget the keys?"),
    ],
)
def test_only_what_frames_a_question_is_taken_off(framed: str, question: str) -> None:
    assert bare(framed) == question
