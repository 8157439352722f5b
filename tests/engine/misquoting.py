"""Excerpts as models write them: faithful in another form, or changed in one of the ways in which models change text.
Every excerpt consists of some messages of one topic of the demo memory, with changes of form (heads, case, spaces,
quotation marks). A misquoted one also differs from the messages in one thing that no change of form explains."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.lines import message_head, quoted

DEMO = Path(__file__).parents[2] / "memoryapp/upkeep/demo"
ROLES = {"u": "user", "a": "assistant"}
NEGATIONS = re.compile(r"\b(?:не|нет|ни|без|not|no|never|don't|doesn't|isn't|can't)\b\s*", re.IGNORECASE)
PEOPLE = {
    "ada": ("Leo", "Finn", "June", "Theo", "Priti", "Hana"),
    "anna": ("Лена", "Костя", "Миша", "Петров", "Гела", "Марина"),
    "boris": ("Nikos", "Maria", "Tom", "Elena", "Petrov"),
}
NAME = re.compile(r"(?<=[а-яa-z,] )[А-ЯA-Z][а-яa-z]{2,}")


def talks() -> list[tuple[MessageContent, ...]]:
    """Returns every topic of the demo with at least three messages, and all topics of a file in a row."""
    files = [(path.parent.name, json.loads(path.read_text("utf-8"))) for path in sorted(DEMO.glob("*/2026*.json"))]
    apart = [
        [_messages(number * 100 + place, user, talk) for place, talk in enumerate(exchanges)]
        for number, (user, exchanges) in enumerate(files)
    ]
    short = [talk for file in apart for talk in file if len(talk) >= 3]
    return [*short, *(tuple(message for talk in file for message in talk) for file in apart)]


def _messages(number: int, user: str, talk: dict[str, Any]) -> tuple[MessageContent, ...]:
    began = datetime(2026, 1, 1, 10) + timedelta(days=number)
    return tuple(
        MessageContent(
            id=number * 1000 + place,
            role=ROLES[line[1]],
            author=user if line[1] == "u" else "",
            sent_at=began + timedelta(minutes=place),
            text=line[2],
            username=user if line[1] == "u" else "",
        )
        for place, line in enumerate(talk["messages"])
    )


# Changes of form: what a model may do to a faithful copy


def _plain_quotes(text: str) -> str:
    return text.translate(str.maketrans("«»“”—–", '""""--'))


def _loose(text: str, random: Random) -> str:
    return "".join(random.choice((" ", "  ", "\n", "\t ")) if c.isspace() else c for c in text)


CLOTHES: Sequence[Callable[[str, Random], str]] = (
    lambda text, random: text,
    lambda text, random: text,
    lambda text, random: text.upper(),
    lambda text, random: text.lower(),
    lambda text, random: quoted(text),
    lambda text, random: f"  {text} \n",
    lambda text, random: _plain_quotes(text),
    _loose,
)


def _full(message: MessageContent) -> str:
    return message_head(message) + " "


def _without_clock(message: MessageContent) -> str:
    return re.sub(r" \(\d{4}[^)]*\)", "", _full(message))


def _role_alone(message: MessageContent) -> str:
    return f"[{message.role.capitalize()}]: "


def _none(message: MessageContent) -> str:
    return ""


HEADS = (_full, _without_clock, _role_alone, _none)
Excerpt = list[tuple[str, str]]
"""Heads and texts, in order."""


def written(excerpt: Excerpt) -> str:
    return "\n".join(head + text for head, text in excerpt)


def faithful(talk: Sequence[MessageContent], random: Random) -> Excerpt:
    """Some whole messages in order, in any form."""
    count = random.randint(1, min(6, len(talk)))
    chosen = sorted(random.sample(range(len(talk)), count))
    head, dress = random.choice(HEADS), random.choice(CLOTHES)
    # Without heads only line breaks separate messages, so spaces must stay as they are.
    if head is _none and dress is _loose:
        dress = CLOTHES[0]
    return [(head(talk[place]), dress(talk[place].text, random)) for place in chosen]


# Changes of content: what no change of form explains


def misquoted(talk: Sequence[MessageContent], user: str, random: Random) -> tuple[str, Excerpt]:
    """The kind of a change, and an excerpt with it."""
    while True:
        excerpt = faithful(talk, random)
        kind = random.choice(list(CHANGES))
        changed = CHANGES[kind](list(excerpt), talk, user, random)
        if changed is not None and _bare(changed) != _bare(excerpt):
            return kind, changed


def _bare(excerpt: Excerpt) -> list[str]:
    return [" ".join((head + text).casefold().split()) for head, text in excerpt]


def _in_text(change: Callable[[str, str, Random], str | None]) -> Callable[..., Excerpt | None]:
    """Changes one text of several words."""

    def changed(excerpt: Excerpt, talk: object, user: str, random: Random) -> Excerpt | None:
        place = random.randrange(len(excerpt))
        head, text = excerpt[place]
        new = change(text, user, random) if len(text.split()) >= 4 else None
        if new is None or not new.strip():
            return None
        excerpt[place] = (head, new)
        return excerpt

    return changed


def _split(text: str) -> list[str]:
    """Returns words and the spaces between them."""
    return re.split(r"(\s+)", text.strip())


def _word_swapped(text: str, user: str, random: Random) -> str | None:
    parts = _split(text)
    parts[random.randrange(0, len(parts), 2)] = random.choice(("зелёный", "Tuesday", "обычно", "cheap", "завтра"))
    return "".join(parts)


def _word_dropped(text: str, user: str, random: Random) -> str | None:
    parts = _split(text)
    place = random.randrange(0, len(parts), 2)
    if not re.search(r"\w", parts[place]):
        return None
    del parts[place : place + 2]
    return "".join(parts)


def _words_turned(text: str, user: str, random: Random) -> str | None:
    parts = _split(text)
    place = random.randrange(0, len(parts) - 2, 2)
    parts[place], parts[place + 2] = parts[place + 2], parts[place]
    return "".join(parts)


def _number_changed(text: str, user: str, random: Random) -> str | None:
    numbers = list(re.finditer(r"\d", text))
    if not numbers:
        return None
    at = random.choice(numbers).start()
    return text[:at] + str((int(text[at]) + random.randint(1, 9)) % 10) + text[at + 1 :]


def _negation_added(text: str, user: str, random: Random) -> str | None:
    parts = _split(text)
    place = random.randrange(0, len(parts), 2)
    parts[place] = f"{'не' if user == 'anna' else 'not'} {parts[place]}"
    return "".join(parts)


def _negation_removed(text: str, user: str, random: Random) -> str | None:
    found = list(NEGATIONS.finditer(text))
    if not found:
        return None
    gone = random.choice(found)
    return text[: gone.start()] + text[gone.end() :]


def _name_swapped(text: str, user: str, random: Random) -> str | None:
    names = list(NAME.finditer(text))
    if not names:
        return None
    old = random.choice(names)
    return text[: old.start()] + random.choice(PEOPLE[user]) + text[old.end() :]


def _sentence_dropped(text: str, user: str, random: Random) -> str | None:
    sentences = re.findall(r"[^.!?\n]+[.!?]+", text)
    if len(sentences) < 3 or "\n" in text:
        return None
    return text.replace(random.choice(sentences), "", 1)


def _shortened(text: str, user: str, random: Random) -> str | None:
    parts = _split(text)
    keep = random.randrange(1, len(parts) - 1, 2)
    return "".join(parts[:keep]) + random.choice(("...", " …", ""))


def _sentences_turned(text: str, user: str, random: Random) -> str | None:
    first, dot, rest = text.partition(". ")
    return f"{rest} {first}." if dot and rest else None


def _merged(excerpt: Excerpt, talk: object, user: str, random: Random) -> Excerpt | None:
    if len(excerpt) < 2:
        return None
    place = random.randrange(len(excerpt) - 1)
    (head, first), (_, second) = excerpt[place : place + 2]
    glue = random.choice((" ", "\n")) if head else " "
    excerpt[place : place + 2] = [(head, first.rstrip() + glue + second.lstrip())]
    return excerpt


def _reordered(excerpt: Excerpt, talk: object, user: str, random: Random) -> Excerpt | None:
    return excerpt[::-1] if len(excerpt) > 1 else None


def _heads_swapped(excerpt: Excerpt, talk: object, user: str, random: Random) -> Excerpt | None:
    heads = {head for head, _ in excerpt}
    if len(heads) < 2:
        return None
    return [(random.choice(sorted(heads - {head})), text) for head, text in excerpt]


def _invented(excerpt: Excerpt, talk: object, user: str, random: Random) -> Excerpt | None:
    excerpt.insert(
        random.randint(0, len(excerpt)), (excerpt[0][0], "Договорились, в пятницу всё отменяем. The deal is off.")
    )
    return excerpt


def _foreign(excerpt: Excerpt, talk: Sequence[MessageContent], user: str, random: Random) -> Excerpt | None:
    """Returns a message of another topic."""
    other = random.choice(talk)
    head = {"user": "[Assistant]: "}.get(other.role, "[User]: ")
    excerpt[0] = (head, other.text)
    return excerpt[:1]


CHANGES: dict[str, Callable[..., Excerpt | None]] = {
    "word swapped": _in_text(_word_swapped),
    "word dropped": _in_text(_word_dropped),
    "words turned": _in_text(_words_turned),
    "number changed": _in_text(_number_changed),
    "negation added": _in_text(_negation_added),
    "negation removed": _in_text(_negation_removed),
    "name swapped": _in_text(_name_swapped),
    "sentence dropped": _in_text(_sentence_dropped),
    "shortened": _in_text(_shortened),
    "sentences turned": _in_text(_sentences_turned),
    "messages merged": _merged,
    "messages reordered": _reordered,
    "heads swapped": _heads_swapped,
    "invented": _invented,
    "another speaker": _foreign,
}


def user_of(talk: Sequence[MessageContent]) -> str:
    return next((message.author for message in talk if message.author), "anna")
