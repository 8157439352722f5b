"""Which words of a sentence are negated, in English and Russian.

"The operation is not needed" and "the operation is needed" share every stem, and say the opposite. A negation applies
to the next telling word, and over "and", "or" to the words listed with it ("без бега и прыжков"); where no word follows
in its clause, to the one before it ("операции нет"). "Not only", a "no," that begins a reply, and the tag of a question
("isn't it?") negate nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence

from memoryapp.engine.text.lexical import bases, normal, stems
from memoryapp.engine.text.sentences import sentences

_WORDS: Mapping[str, str] = {
    "negations": "not no never without neither nor cannot nobody nothing none "
    "не нет без ни нельзя никогда никто ничего",
    "listing": "and or nor и или ни а также",
    "only": "only just merely только лишь просто",
    # Between a negation and the word that it denies.
    "adverbs": "really quite yet necessarily actually even absolutely always ever longer "
    "обязательно совсем вполне особо пока сильно действительно всегда больше",
}
_NEGATIONS, _LISTING, _ONLY, _ADVERBS = (frozenset(line.split()) for line in _WORDS.values())
# "isn't", "don’t" and, as people type them, "isnt", "dont".
_CONTRACTED = re.compile(
    r"\b(?:(?:do|does|did|is|are|was|were|has|have|had|would|could|should|must|need)n['’]?t|(?:ca|wo|sha|ai)n['’]t|"
    r"cant|wont)\b"
)
_TAG = re.compile(r"[,—–-]\s*(?:(?:is|are|was|do|does|did|has|have|ca|wo)n['’]?t\s+\w+|не так ли|правда)\s*\?")
_CLAUSE = re.compile(r"[,;:.!?…—–()\n«»\"“”]+|\s[-]\s|\b(?:but|because|although|но|однако|потому|хотя)\b")
_WORD = re.compile(r"[^\W_]+")

# A stem, and whether it is negated.
Signed = tuple[str, bool]


def signed_sentences(text: str) -> list[frozenset[Signed]]:
    """The stems of each sentence of a text, with whether they are negated there."""
    return [signed for sentence in sentences(text) if (signed := frozenset(_signed(sentence)))]


def is_negated(text: str) -> bool:
    return not _NEGATIONS.isdisjoint(_WORD.findall(_CONTRACTED.sub(" not ", normal(text))))


def _signed(sentence: str) -> Iterator[Signed]:
    plain = _CONTRACTED.sub(" not ", _TAG.sub("?", normal(sentence)))
    for clause in _CLAUSE.split(plain):
        yield from _of_clause(_WORD.findall(clause))


def _of_clause(words: Sequence[str]) -> Iterator[Signed]:
    """A clause of a negation alone, such as the "No," of a reply, has no word to negate."""
    telling = [(place, word) for place, word in enumerate(words) if word not in _NEGATIONS and stems(word)]
    negated: set[int] = set()
    for place, word in enumerate(words):
        if word in _NEGATIONS and not _ONLY.intersection(words[place + 1 : place + 2]):
            negated.update(_scope(place, words, [at for at, _word in telling]))
    for place, word in telling:
        for stem in bases(stems(word)):
            yield stem, place in negated


def _scope(place: int, words: Sequence[str], telling: Sequence[int]) -> list[int]:
    """The places of the words that the negation at ``place`` applies to."""
    after = [at for at in telling if at > place]
    if not after:
        return list(telling[-1:])
    scope = [after[0]]
    for at in after[1:]:
        if words[scope[-1]] not in _ADVERBS and not _LISTING.intersection(words[scope[-1] + 1 : at]):
            break
        scope.append(at)
    return scope
