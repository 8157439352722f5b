"""How a sentence of talk begins, and how it reads after the name of its speaker.

"Wow, Mel, I ran a race!" becomes "ran a race!" after "Melanie: ". A sentence that begins with a reference to something
else ("that was great", "они уехали") says little without the previous sentence, so it is left out. Between people
questions are left out as well: they are about the other person.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from memoryapp.engine.text.sentences import ASKING_MARKS

# Sentences are shown with far fewer characters.
_LOOKED_AT = 400
_FIRST = re.compile(r"[^\w]*([^\W_]+(?:['’-][^\W_]+)*)([^\w]*)")

_FILLERS_WORDS = """
absolutely actually ah alright also amazing and anyway aw awesome aww because besides btw but congrats congratulations
cool definitely exactly glad gosh great guess haha hello hey hi honestly indeed lol man nah nice no nope oh ok okay
omg oops overall plus really right seriously so sounds sure sweet thanks then totally true well whoa wow ya yay yeah
yep yes yup а ага алло ах блин в-общем вау вечер вообще вот да день доброе добрый здорово здравствуй здравствуйте и
итак класс конечно короче круто кстати ладно нет но ну ого ой ок окей отлично очень пожалуйста понял поняла понятно
привет приветик просто слушай слушайте смотри спасибо супер так точно угу утро хм хорошо эх ясно
"""
_FILLERS = frozenset(_FILLERS_WORDS.split())
_OWN_WORDS = """
i i'm im i've ive i'd i'll we we're we've we'd we'll my our me я мы мне меня мной нам нас мой моя моё мое мои моего
моей моих наш наша наше наши
"""
_OWN = frozenset(_OWN_WORDS.split())
# "У меня болит колено" is about the speaker, like "I".
_AT_ME = re.compile(r"у (?:меня|нас)\s+", re.IGNORECASE)
_BY_THE_WAY = re.compile(r"(?:by the way|to be honest|guess what|как дела|между прочим)\W+", re.IGNORECASE)
_POINTING_WORDS = """
he he's her here here's his how how's it it'd it'll it's its let let's she she's that that's that'll the-one their
them there there's these they they're they've this those what what's where who why which you you'd you'll you're
you've your y'all same maybe hope hopefully thank его ее её ему ей если их им как какая какие какое какой когда
который которая которые он она они оно ваш ваша ваше ваши вы вам вас где там твой твоя твоё твое твои тебе тебя то
тогда тот та те тут ты такая такие такое такой такой-же здесь зачем почему что чтобы чего это эта эти этого этой этом
этот эту
"""
_POINTING = frozenset(_POINTING_WORDS.split())
_ASKING_WORDS = """
how what where who why which when can could do does is are как какая какие какое какой когда где что почему зачем чего
"""
_ASKING = frozenset(_ASKING_WORDS.split())
# Requests to the other person, between people.
_URGING_WORDS = """
believe check cherish do don't enjoy go keep make push remember stay stick take to trust let берегите береги давай
давайте держись не посмотри
"""
_URGING = frozenset(_URGING_WORDS.split())
# An opinion does not change what a sentence refers to: "I think it's great".
_VAGUE = re.compile(
    r"(?:\S+\s+){0,2}(?:it|it's|that|that's|this|they|them|you|you're|your|это|он|она|они|ты|вы)\b", re.I
)


class LeadSentence(NamedTuple):
    """A sentence after its speaker's name; ``is_own`` is true when it began with the speaker."""

    text: str
    is_own: bool


def statement_of(sentence: str, names: Collection[str], *, questions: bool) -> LeadSentence | None:
    """The sentence without greetings, names of address and its "I"; None if it says little without what came before.

    ``names`` are the speakers' names in lower case; people are also addressed by their beginnings. ``questions`` are
    kept when a user asks an assistant.
    """
    is_question = sentence.rstrip().endswith(tuple(ASKING_MARKS))
    if is_question and not questions:
        return None
    rest = _without_fillers(sentence, names)
    at_me = _AT_ME.match(rest)
    if at_me:
        return LeadSentence(rest[at_me.end() :], is_own=True)
    first = _FIRST.match(rest)
    if not first:
        return None
    word = _lower(first[1])
    if word in _OWN:
        rest = rest[first.end() :]
        return None if _VAGUE.match(rest) and not questions else LeadSentence(rest, is_own=True)
    if questions:
        return None if word in _POINTING - _ASKING else LeadSentence(rest, is_own=False)
    if word in _POINTING or word in _URGING:
        return None
    return LeadSentence(rest, is_own=False)


def _without_fillers(sentence: str, names: Collection[str]) -> str:
    rest = sentence.strip()[:_LOOKED_AT]
    opening = _BY_THE_WAY.match(rest)
    rest = rest[opening.end() :] if opening else rest
    while (first := _FIRST.match(rest)) and _is_filler(_lower(first[1]), first[2], names):
        rest = rest[first.end() :]
    return rest.strip()


def _is_filler(word: str, after: str, names: Collection[str]) -> bool:
    if word in _FILLERS:
        return True
    # A name of address is followed by a comma or an exclamation mark; before a verb it is the subject of the sentence.
    return is_of(word, names) and bool(set(after) & set(",!.–—-…"))


def is_of(word: str, names: Collection[str]) -> bool:
    """Whether a word in lower case is one of the names or a short form of it."""
    return any(name == word or (len(word) > 2 and name.startswith(word)) for name in names)


def _lower(word: str) -> str:
    return word.lower().replace("’", "'")
