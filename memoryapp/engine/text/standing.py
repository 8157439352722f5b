"""Whether a text stands in messages: each of its telling words, its numbers and dates, and who did what to whom.

No share of words proves a statement: "the operation is needed" shares every word with "the operation is not needed".
So words are compared one by one, and the result names those that differ:

    in_words      every telling word of the text stands in the messages, and nothing is turned
    differs       words are missing, stand apart, or the messages only ask or suppose what the text states
    contradicted  a number, date, negation or order is another one, or a word is replaced by its opposite
    unchecked     the text shares no script or no language with the messages, or has no telling word

Numbers count in any form: "eight", 8 and "восемь"; 4.2K and "4 200"; "twice" and "два раза". No model decides anything
here. Another word for the same thing is a difference, never a contradiction."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import combinations, pairwise
from typing import Literal

from memoryapp.engine.beside import table_beside
from memoryapp.engine.text.dates import MONTH_NAMES
from memoryapp.engine.text.languages import language, latin_language, script_of, shares
from memoryapp.engine.text.lexical import bases, normal, stems
from memoryapp.engine.text.names import forms, is_same_name
from memoryapp.engine.text.negation import Signed, signed_sentences
from memoryapp.engine.text.scripts import WORD, is_spaced
from memoryapp.engine.text.sentences import ASKING_MARKS, sentences
from memoryapp.engine.text.terms import common

Grade = Literal["in_words", "differs", "contradicted", "unchecked"]

_MOST_CHARS = 100_000
_MOST_WORDS = 120
_MOST_NEAREST = 20
# Forms of a word ("allergic", "allergy") share this part of the longer one, from its beginning.
_AKIN = 0.75
_LEAST_BEGINNING = 4
# A script in which less of the source is written is that of names and code.
_LEAST_SCRIPT = 0.1
# How far before a word its preposition stands: "to her old neighbour Viktor".
_PHRASE = 4
# A name stands apart unless one sentence, with the one before it, has it beside this share of the other words.
_TOGETHER = 0.5
# Days around a message within which a word of time ("yesterday", "next Friday") may be resolved.
_AROUND = timedelta(days=8)


_WORDS = table_beside(__file__)
_SCALES = {word: int(scale) for scale, words in _WORDS["scales"].items() for word in words.split()}
_WEAK, _MULTIPLES = frozenset(_WORDS["weak"].split()), frozenset(_WORDS["multiples"].split())
_HEDGES, _POSSESSIVES = frozenset(_WORDS["hedges"].split()), frozenset(_WORDS["possessives"].split())
_ROLES = frozenset(_WORDS["roles"].split())
_OPPOSITE_ROLES = frozenset(frozenset(pair.split("/")) for pair in _WORDS["opposite_roles"].split())
_GRAMMAR = {language: frozenset(words.split()) for language, words in _WORDS["grammar"].items()}
_UNITS = {word: unit for unit, words in _WORDS["units"].items() for word in words.split()}
_MUTUAL = frozenset(stems(_WORDS["mutual"]))
_RELATIVE = re.compile(
    r"\b(?:today|yesterday|tomorrow|tonight|ago|last|next|this|morning|evening|week|month|year|(?:mon|tues|wednes|thurs|"
    r"fri|satur|sun)day|сегодня|вчера|завтра|позавчера|послезавтра|назад|через|прошл\w*|следующ\w*|недел\w*|heute|"
    r"gestern|morgen|hier|demain|ayer|manana|ieri|domani|wczoraj|jutro|dzis|dun|bugun|yarin)\b"
)
_NUMBER = r"\d+(?:[  ]\d{3}(?!\d))*(?:[.,:]\d+)*"
_TOKEN = re.compile(
    rf"(?P<number>(?<![^\W_]){_NUMBER})(?P<scale>(?i:[kк])\b)?|(?P<word>{WORD.pattern})|(?P<unit>[$€£₽%])|(?P<stop>[.,;:!?…()\n—–])"
)
_OWNED = re.compile(rf"\W*(?:(?P<my>{WORD.pattern})|{WORD.pattern}['’]s)\s+(?P<noun>{WORD.pattern})")
_GROUPS = re.compile(r"(?<=[1-9])[.,](?=\d{3}(?:\D|$))|(?<=\d\d)[.,](?=\d{3}(?:\D|$))")
_POINTS = re.compile(r"[.,:]")
_YOU = re.compile(
    r"\W*(?:you|your|ты|тебя|тебе|твой|твоя|твое|твои|вы|вас|вам|ваш|ваша)\b|\W*у (?:тебя|вас)\b", re.IGNORECASE
)
_THIRD = re.compile(r"\b(?:he|she|they|он|она|они)\b")
_SPEAKER = re.compile(
    r"\b(?:i|me|my|mine|we|us|our|я|меня|мне|мной|мы|нас|нам|наш|наша|наши|мой|моя|мои)\b", re.IGNORECASE
)
_CITED = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])['’](?:s|re|ve|ll|d|m)\b|(?<=n)['’]t\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a text stands in its messages. ``missing`` are its words that they lack, ``turned`` those of which they say
    another number or date, the opposite, or another order; both as written, in order. Neither has duplicates. ``found``
    counts the words that stand there, ``absent`` those that do not, ``firm`` the names, numbers and dates of these."""

    grade: Grade
    found: int = 0
    missing: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()
    absent: int = 0
    firm: int = 0


@dataclass(frozen=True, slots=True)
class _Token:
    """A telling word: its ``keys`` are the stems by which it is found; of a number, its possible ``values``; of a date
    word, the ``calendar`` it belongs to. ``role`` is the preposition of its phrase, or empty. With a capital letter it
    ``is_name`` within a sentence, and ``may_be_name`` at its beginning."""

    written: str
    keys: frozenset[str]
    values: frozenset[float] = frozenset()
    calendar: str = ""
    role: str = ""
    is_name: bool = False
    may_be_name: bool = False


@dataclass(frozen=True, slots=True)
class _SaidSentence:
    tokens: tuple[_Token, ...]
    plain: str
    asks: bool
    subject: _Token | None = None
    somebody: _Token | None = None
    signed: frozenset[Signed] = field(default_factory=frozenset)

    @property
    def hedges(self) -> frozenset[str]:
        return _HEDGES & set(self.plain.split())


def stands_in(
    text: str,
    messages: Iterable[str],
    *,
    known: Iterable[str] = (),
    times: Iterable[datetime] = (),
    about_speaker: bool = False,
) -> Standing:
    """Compares a text with the texts of the messages that it rests on. ``known`` are names that need not stand in them,
    such as those of their authors; ``times`` are when they were sent, for dates to which their words of time were
    resolved. A text ``about_speaker`` does not stand in what a message says of somebody else."""
    source = [each[:_MOST_CHARS] for each in messages]
    bare = _CITED.sub(" ", text[:_MOST_CHARS])
    if not _is_comparable(bare, source):
        return Standing("unchecked")
    said = [sentence for each in source for sentence in _read(each)]
    comparison = _Comparison(said, _known(known), _resolved(source, times), about_speaker or bool(_YOU.match(bare)))
    missing, turned = dict[str, None](), dict[str, None]()
    has_tokens = False
    for sentence in _read(bare):
        has_tokens = has_tokens or bool(sentence.tokens)
        comparison.compare(sentence, missing, turned)
    if not has_tokens:
        return Standing("unchecked")
    for written in turned:
        missing.pop(written, None)
    grade: Grade = "contradicted" if turned else "differs" if missing or comparison.apart else "in_words"
    shown = tuple(missing) or tuple(dict.fromkeys(comparison.apart))
    return Standing(grade, comparison.found, shown, tuple(turned), comparison.absent, comparison.firm)


def is_akin(one: str, other: str) -> bool:
    """Whether two stems begin so much alike that they are forms of one word: "пробежка" and "пробежал"."""
    shared = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    length = min(len(one), len(other)) if shared is None else shared
    return length >= _LEAST_BEGINNING and length >= _AKIN * max(len(one), len(other))


class _Comparison:
    """The sentences of the messages, with what each sentence of a text is compared with."""

    def __init__(
        self, said: Sequence[_SaidSentence], known: Collection[str], resolved: Collection[float], about_speaker: bool
    ) -> None:
        self._about_speaker = about_speaker
        self._said = said
        self._known = frozenset(known)
        self._stating = [sentence for sentence in said if not sentence.asks]
        self._tokens = [token for sentence in self._stating for token in sentence.tokens]
        self._values = {value for token in self._tokens for value in token.values} | set(resolved)
        self._keys = {key for token in self._tokens for key in token.keys} | set(known)
        self._beginnings = defaultdict[str, list[str]](list)
        for key in self._keys:
            self._beginnings[key[:_LEAST_BEGINNING]].append(key)
        self._names = {normal(token.written) for token in self._tokens if token.is_name}
        # Words that stand in the messages, but only in a question, under "if", or beside other names.
        self.found = self.absent = self.firm = 0
        self.apart: list[str] = []

    def compare(self, sentence: _SaidSentence, missing: dict[str, None], turned: dict[str, None]) -> None:
        tokens = sentence.tokens[:_MOST_WORDS]
        lacking = [token for token in tokens if not self._stands(token)]
        nearest = self._nearest(tokens)
        for token in lacking:
            if self._is_turned(token, tokens, nearest):
                turned[token.written] = None
            else:
                missing[token.written] = None
        # Where every word has a capital letter, as in a title or in German, it marks no names.
        are_marked = not all(token.may_be_name or token.values for token in tokens[1:])
        self.firm += sum(bool(t.values or t.calendar or (t.is_name and are_marked)) for t in lacking)
        self.absent += len(lacking)
        self.found += sum(token not in lacking and normal(token.written) not in _WEAK for token in tokens)
        if _is_denied(sentence.signed, [near.signed for near in nearest]):
            turned.update(dict.fromkeys(_opposed(tokens, sentence.signed, nearest)))
        for near in nearest:
            turned.update(dict.fromkeys(_reordered(tokens, near.tokens, is_whole=not lacking)))
        if not lacking and nearest:
            own = {key for token in tokens for key in token.keys}
            self.apart += sorted(frozenset.intersection(*(near.hedges for near in nearest)) - sentence.hedges)
            self.apart += _backwards(tokens, nearest)
            self.apart += self._strangers(tokens)
            subjects = [
                near.subject or (self._somebody(near, own) if self._about_speaker else None) for near in nearest
            ]
            if all(subject is not None and not subject.keys & own for subject in subjects):
                self.apart += [subject.written for subject in subjects if subject]

    def _somebody(self, near: _SaidSentence, own: Collection[str]) -> _Token | None:
        """Whom a sentence names before it says these words, if not its speaker: "I think that Vadim works there"."""
        if near.somebody:
            return near.somebody
        at = next((place for place, token in enumerate(near.tokens) if not token.keys.isdisjoint(own)), 0)
        before = near.plain.partition(normal(near.tokens[at].written))[0]
        if found := _THIRD.search(before):
            return _Token(found[0], frozenset({found[0]}))
        names = (each for each in near.tokens[:at] if each.is_name and not each.role)
        return next((name for name in names if not name.keys & self._known), None)

    def _stands(self, token: _Token) -> bool:
        if token.values:
            return bool(token.values & self._values) or (normal(token.written) in _WEAK)
        if token.keys & self._keys:
            return True
        if token.calendar:
            return False
        if token.is_name or normal(token.written) in self._names or any(map(str.isdigit, token.written)):
            return any(self._is_same_name(token.written, other.written) for other in self._tokens)
        alike = (other for key in token.keys for other in self._beginnings.get(key[:_LEAST_BEGINNING], ()))
        return any(is_akin(key, other) for key in token.keys for other in alike)

    def _is_same_name(self, name: str, other: str) -> bool:
        return not other.isdigit() and (
            normal(name) in forms(other) or normal(other) in forms(name) or is_same_name(name, other)
        )

    def _nearest(self, tokens: Sequence[_Token]) -> list[_SaidSentence]:
        keys = {key for token in tokens for key in token.keys}
        shared = [len(keys & {key for token in each.tokens for key in token.keys}) for each in self._stating]
        most = max(shared, default=0)
        return [each for each, count in zip(self._stating, shared, strict=True) if count == most > 0][:_MOST_NEAREST]

    def _is_turned(self, token: _Token, tokens: Sequence[_Token], nearest: Sequence[_SaidSentence]) -> bool:
        """Whether the nearest sentences have another value or the opposite in the place of a word that they lack."""
        there = [other for near in nearest for other in near.tokens]
        if token.calendar:
            return any(other.calendar == token.calendar for other in there)
        if token.values:
            units = _beside(token, tokens)
            return any(
                other.values and _beside(other, near.tokens) & units for near in nearest for other in near.tokens
            )
        own = {key for each in tokens for key in each.keys}
        opposites = {opposite for key in token.keys for opposite in _opposites().get(key, ())} - own
        return any(opposites & other.keys for other in there)

    def _strangers(self, tokens: Sequence[_Token]) -> Iterator[str]:
        """Names that no sentence, with the next one if that names nobody, has beside half of the other words."""
        for name in (token for token in tokens if token.may_be_name and not token.keys & self._known):
            others = {key for token in tokens if token is not name and not token.values for key in token.keys}
            if others and not any(len(others & window) >= _TOGETHER * len(others) for window in self._around(name)):
                yield name.written

    def _around(self, name: _Token) -> Iterator[set[str]]:
        for at, sentence in enumerate(self._stating):
            keys = {key for token in sentence.tokens for key in token.keys}
            if name.keys & keys:
                following = self._stating[at + 1].tokens if at + 1 < len(self._stating) else ()
                if any(token.may_be_name for token in following):
                    following = ()
                yield keys | {key for token in following for key in token.keys}


def _is_comparable(text: str, source: Sequence[str]) -> bool:
    script, whole = script_of(text), "\n".join(source)
    if script and shares(whole).get(script, 0.0) < _LEAST_SCRIPT:
        return False
    languages = {latin_language(text), latin_language(whole)} if script == "LATIN" else set()
    return len(languages - {""}) < 2


def _known(names: Iterable[str]) -> set[str]:
    return {key for name in names for word in WORD.findall(normal(name)) for key in {*bases(stems(word)), *forms(word)}}


def _resolved(source: Sequence[str], times: Iterable[datetime]) -> set[float]:
    """The days, months and years to which the messages' words of time may have been resolved."""
    each = list(times)
    years = {float(at.year) for at in each}
    if not any(_RELATIVE.search(normal(text)) for text in source):
        return years
    days = {at + timedelta(days=n) for at in each for n in range(-_AROUND.days, _AROUND.days + 1)}
    return years | {float(value) for day in days for value in (day.day, day.year, -day.month)}


def _read(text: str) -> Iterator[_SaidSentence]:
    grammar = _GRAMMAR.get(language(text), frozenset())
    for sentence in sentences(text):
        signed = frozenset[Signed]().union(*signed_sentences(sentence))
        asks = sentence.rstrip("\"'»”’)")[-1:] in ASKING_MARKS
        tokens = tuple(_tokens(sentence, grammar))
        subject, somebody = _owned_subject(sentence, tokens), _somebody(sentence, tokens)
        yield _SaidSentence(tokens, normal(sentence), asks, subject, somebody, signed)


def _somebody(sentence: str, tokens: Sequence[_Token]) -> _Token | None:
    """Whom a sentence without its speaker is about: the name at its beginning; or the one that follows whose it is."""
    if (found := _OWNED.match(sentence)) and (not found["my"] or normal(found["my"]) in _POSSESSIVES):
        pairs = pairwise(tokens)
        return next((name for noun, name in pairs if noun.written == found["noun"] and name.is_name), None)
    if _SPEAKER.search(sentence) or not tokens:
        return None
    return tokens[0] if tokens[0].may_be_name and sentence.lstrip().startswith(tokens[0].written) else None


def _owned_subject(sentence: str, tokens: Sequence[_Token]) -> _Token | None:
    """The thing or person at the beginning of a sentence that belongs to somebody ("My neighbour works", "Anton's
    mother is"), unless its own name follows."""
    found = _OWNED.match(sentence)
    if not found or (found["my"] and normal(found["my"]) not in _POSSESSIVES):
        return None
    at = next((place for place, token in enumerate(tokens) if token.written == found["noun"]), None)
    is_named = at is None or at + 1 < len(tokens) and tokens[at + 1].is_name
    return None if at is None or is_named else tokens[at]


def _tokens(sentence: str, grammar: frozenset[str]) -> Iterator[_Token]:
    """The telling words of a sentence, numbers of several words as one."""
    found = list(_TOKEN.finditer(_APOSTROPHE.sub("", sentence)))
    role, since, at = "", 0, 0
    while at < len(found):
        match = found[at]
        word = normal(match[0])
        role, since = ("", 0) if match["stop"] else (role, since + 1)
        count, values = _number(found, at)
        if count:
            written = " ".join(each[0] for each in found[at : at + count])
            yield _Token(written, frozenset(f"#{value:g}" for value in values), frozenset(values), role=role)
            if word in _MULTIPLES:
                yield _Token(written, frozenset({"unit time"}))
        elif word in _UNITS and (match["unit"] or len(word) > 1):
            yield _Token(match[0], frozenset({f"unit {_UNITS[word]}", *bases(stems(word))}))
        elif word in _ROLES:
            role, since = word, 0
        elif match["word"]:
            yield from _telling(match[0], word, role if since <= _PHRASE else "", grammar, is_first=at == 0)
        at += count or 1


def _telling(written: str, word: str, role: str, grammar: frozenset[str], *, is_first: bool) -> Iterator[_Token]:
    month = MONTH_NAMES.get(word)
    is_capital = written[:1].isupper()
    if month and (is_capital or word not in ("may", "march", "mars", "mart", "marco", "mai", "maj", "ocak", "ekim")):
        yield _Token(written, frozenset({f"month {month}"}), frozenset({float(-month)}), "month", role)
    elif day := _weekdays().get(word) or _weekdays().get(next(iter(stems(word)), "")):
        yield _Token(written, frozenset({f"weekday {day}"}), calendar="weekday", role=role)
    elif not is_spaced(word):
        yield from (_Token(stem, frozenset({stem}), role=role) for stem in stems(word))
    elif word not in grammar and (keys := frozenset(bases(stems(word))) - _reporting()):
        named = is_capital and not (is_first and keys & common())
        yield _Token(written, keys, role=role, is_name=is_capital and not is_first, may_be_name=named)


def _number(found: Sequence[re.Match[str]], at: int) -> tuple[int, set[float]]:
    """How many words from this one on are one number, and the values it may have; 0 for none."""
    match = found[at]
    if match["number"]:
        value = _value(match["number"])
        scale = 1_000 if match["scale"] else 1
        following = normal(found[at + 1][0]) if at + 1 < len(found) else ""
        if scale == 1 and following in _SCALES and len(following) > 1:
            return 2, {value * _SCALES[following]}
        return 1, {value * scale} | ({value % 12 + 12} if following == "pm" and value <= 12 else set())
    total, part, count = 0.0, 0.0, 0
    for each in found[at:]:
        word = normal(each[0])
        if word in _cardinals():
            part += _cardinals()[word]
        elif word in _SCALES and len(word) > 1 and (count or _SCALES[word] < 1_000):
            part = max(part, 1) * _SCALES[word]
            total, part = (total + part, 0.0) if _SCALES[word] >= 1_000 else (total, part)
        elif (
            not count
            and word in _ordinals()
            and any(normal(other[0]) in MONTH_NAMES for other in found[max(at - 1, 0) : at + 3])
        ):
            return 1, {float(_ordinals()[word])}
        else:
            break
        count += 1
        if word in _cardinals() and _cardinals()[word] < 20:
            following = normal(found[at + count][0]) if at + count < len(found) else ""
            if following not in _SCALES:
                break
    return (count, {total + part}) if count else (0, set())


def _value(figure: str) -> float:
    """A figure as a number; a time of day or a version as its parts in hundreds."""
    plain = _GROUPS.sub("", figure.replace(" ", "").replace("\u00a0", ""))
    parts = [part[:15] for part in _POINTS.split(plain)]
    if ":" not in plain and len(parts) <= 2:
        return float(".".join(parts))
    is_whole = not "".join(parts[1:]).strip("0")
    return float(parts[0]) if is_whole else sum(float(part[:9]) / 100**place for place, part in enumerate(parts))


def _beside(token: _Token, tokens: Sequence[_Token]) -> frozenset[str]:
    """The keys of the words around a number, which say what it counts."""
    at = next(place for place, other in enumerate(tokens) if other is token)
    around = (*tokens[max(at - 1, 0) : at], *tokens[at + 1 : at + 2])
    return frozenset(key for other in around if not other.values or other.calendar for key in other.keys)


def _is_denied(wanted: frozenset[Signed], stated: Sequence[frozenset[Signed]]) -> bool:
    return bool(stated) and all(_opposes(sentence, wanted) for sentence in stated)


def _opposes(sentence: frozenset[Signed], wanted: frozenset[Signed]) -> bool:
    return any((term, not negated) in sentence and (term, negated) not in sentence for term, negated in wanted)


def _opposed(tokens: Sequence[_Token], wanted: frozenset[Signed], nearest: Sequence[_SaidSentence]) -> list[str]:
    turned = {
        term
        for near in nearest
        for term, negated in wanted
        if (term, not negated) in near.signed and (term, negated) not in near.signed
    }
    return [token.written for token in tokens if token.keys & turned] or [token.written for token in tokens[:1]]


def _backwards(tokens: Sequence[_Token], nearest: Sequence[_SaidSentence]) -> Iterator[str]:
    """Names that follow the word that they stand before in every one of the nearest sentences, or the other way."""
    for one, other in pairwise(tokens):
        name = one if one.may_be_name else other
        is_bare = name.may_be_name and name.written.isascii() and not (one.role or other.role)
        if is_bare and all(
            _adjoin(other, one, near.tokens) and not _adjoin(one, other, near.tokens) for near in nearest
        ):
            yield name.written


def _adjoin(one: _Token, other: _Token, tokens: Sequence[_Token]) -> bool:
    return any(
        first.keys & one.keys and second.keys & other.keys and not (first.role or second.role)
        for first, second in pairwise(tokens)
    )


def _reordered(tokens: Sequence[_Token], near: Sequence[_Token], *, is_whole: bool) -> Iterator[str]:
    """Words whose roles are exchanged: "from Riga to Porto", "from Porto to Riga"; "Lena loves Viktor"."""
    placed = [(token, other) for token in tokens if (other := _only(token, near)) is not None]
    yield from (one.written for one, its in placed if frozenset((one.role, its.role)) in _OPPOSITE_ROLES)
    words = [(one, its) for one, its in placed if not one.values]
    for (one, its), (other, others) in combinations(words, 2):
        roles, were = (one.role, other.role), (its.role, others.role)
        is_exchanged = were[0] != were[1] and roles == (were[1], were[0])
        is_of_names = is_whole and all(each.may_be_name for each in (one, other))
        if is_exchanged or (
            is_of_names and not any((*roles, *were)) and _is_swapped(one, other, its, others, tokens, near)
        ):
            yield from (one.written, other.written)


def _only(token: _Token, near: Sequence[_Token]) -> _Token | None:
    """The token of the sentence with the same word, if there is one alone."""
    same = [other for other in near if other.keys & token.keys]
    return same[0] if len(same) == 1 else None


def _is_swapped(
    one: _Token, other: _Token, its: _Token, others: _Token, tokens: Sequence[_Token], near: Sequence[_Token]
) -> bool:
    """Whether two names stand on the other sides of the same word; in Cyrillic, whether both changed their case."""
    if not one.written.isascii():
        return one.written != its.written and other.written != others.written
    if (one.written, other.written) != (its.written, others.written) or near.index(its) < near.index(others):
        return False
    between = {key for token in tokens[tokens.index(one) + 1 : tokens.index(other)] for key in token.keys}
    were = {key for token in near[near.index(others) + 1 : near.index(its)] for key in token.keys}
    return bool((between & were) - _MUTUAL)


@cache
def _cardinals() -> Mapping[str, int]:
    lines = [line.split() for line in _WORDS["cardinals"].splitlines()]
    tens = [line.split() for line in _WORDS["tens"].splitlines()]
    values = [*enumerate(lines), *((ten, line) for ten, line in zip(range(20, 100, 10), tens, strict=True))]
    return {normal(word): value for value, line in values for word in line if word != "on"}


@cache
def _ordinals() -> Mapping[str, int]:
    lines = _WORDS["ordinals"].splitlines()
    return {word: value for value, line in enumerate(lines, start=1) for word in line.split()}


@cache
def _weekdays() -> Mapping[str, int]:
    days = enumerate(_WORDS["weekdays"].splitlines(), start=1)
    return {key: day for day, line in days for word in line.split() for key in (normal(word), *stems(word))}


@cache
def _opposites() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in _WORDS["opposites"].strip().replace("\n", "|").split("|"):
        one, other = (bases(stems(word) or [word])[0] for word in pair.split())
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {key: frozenset(others) for key, others in found.items()}


@cache
def _reporting() -> frozenset[str]:
    return frozenset(bases(stems(_WORDS["reporting"])))
