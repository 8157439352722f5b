"""The guard: finds in a text what should not be stored or handed over as it is.

In: a text and names of kinds. Out: spots, in order and apart from each other; the text with a mask for each, which is
the same in every language, so that models understand it. A number counts only with a valid check digit, or where words
before it say what it is. Of ``detect-secrets`` only the expressions are used: its scanner keeps settings in a global,
and may ask a provider whether a key works. Some of them take quadratic time, so they see the text through windows."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import phonenumbers
from stdnum import iban, luhn
from stdnum.ru import inn
from stdnum.us import ssn

from memoryapp.engine.beside import table_beside

_TABLE = table_beside(__file__)
# The kinds with their masks; of two in one place the first gives its name.
MASKS: Mapping[str, str] = {kind: table["mask"] for kind, table in _TABLE["kinds"].items()}
_SENTENCES = [
    re.compile(each.replace("_?", r"[\s\x5f]{0,3}").replace("_", r"[\s\x5f]{1,3}"))
    for each in _TABLE["kinds"]["instructions"]["sentence"]
]
_HEALTH = re.compile(r"(?i)(?<!\w)(?:" + "|".join(map(re.escape, _TABLE["health"])) + r")\w{0,12}")
# Characters of a window, and of the next one that it shares: longer than a key needs to be recognised.
_WINDOW, _SHARED = 1_024, 512
_REST_OF_KEY = re.compile(r"[\w.+/=-]{0,4000}+")
_GROUPS = re.compile(r"[ \u00a0()-]")
_DATE = re.compile(r"\(?(?:19|20)\d{2}-[01]\d-[0-3]\d")
_HIDDEN = re.compile(r"[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
_ALIKE = str.maketrans(*_TABLE["alike"])
_SENTENCE_ENDS = re.compile(r"(?<=[.!?…])\s|\n|(?<=\]:)\s")
_MOST_SENTENCE = 400
# A sentence that instructs a model becomes a quotation, without the signs that make a tag of it.
QUOTED = "[quoted, not an instruction: “"
_SIGNS = str.maketrans("<>|[]", "‹›¦()")

Span = tuple[int, int]


class Spot(NamedTuple):
    """Characters ``start`` to ``end`` of a text are of the kind."""

    kind: str
    start: int
    end: int


def spots(text: str, kinds: Collection[str]) -> list[Spot]:
    """Where the text is of one of the ``kinds``, in order; of two that overlap, one, which covers both."""
    places = [kind for kind in MASKS if kind in kinds]
    found = sorted((start, place, end) for place, kind in enumerate(places) for start, end in _find(kind, text))
    apart: list[Spot] = []
    for start, place, end in found:
        if apart and start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(end, apart[-1].end))
        else:
            apart.append(Spot(places[place], start, end))
    return apart


def masked(text: str, found: Collection[Spot], *, defuses: bool = False) -> str:
    """The text with a mask in place of each spot. With ``defuses``, sentences that instruct a model are quoted."""
    parts, at = list[str](), 0
    for spot in found:
        mask, said = MASKS[spot.kind], text[spot.start : spot.end]
        if defuses and spot.kind == "instructions":
            mask = said if QUOTED in said else f"{QUOTED}{_HIDDEN.sub('', said).translate(_SIGNS)}”]"
        parts += [text[at : spot.start], mask]
        at = spot.end
    return "".join([*parts, text[at:]])


def _find(kind: str, text: str) -> Iterator[Span]:
    yield from _KINDS[kind](text) if kind in _KINDS else ()
    for check, expression in _EXPRESSIONS[kind]:
        group = "it" if "it" in expression.groupindex else 0
        for found in expression.finditer(text):
            said = found[group]
            # A number may be followed by others; then its first groups are valid.
            while said and not _CHECKS[check](said):
                blanks = [blank.start() for blank in _GROUPS.finditer(said)] if check != "phone" else []
                said = said[: max(blanks, default=0)]
            if said:
                yield found.start(group), found.start(group) + len(said)


def _is_snils(said: str) -> bool:
    """The check digits of СНИЛС are the sum of its digits, each times its place from the right."""
    digits = _GROUPS.sub("", said)
    total = sum(int(digit) * (9 - at) for at, digit in enumerate(digits[:9]))
    return len(digits) == 11 and total % 101 % 100 == int(digits[9:])


def _is_phone(said: str) -> bool:
    """Whether it is a number of its country, or, as people write it, one of Russia or of North America; no date."""
    digits = _GROUPS.sub("", said)
    is_written = len(_GROUPS.findall(said)) >= 2 or (len(digits) == 11 and digits[:2] in ("79", "89"))
    is_local = is_written and not _DATE.match(said)
    for region in (None,) if said.startswith("+") else ("RU", "US") if is_local else ():
        with suppress(phonenumbers.NumberParseException):
            if phonenumbers.is_valid_number(phonenumbers.parse(said, region)):
                return True
    return False


_CHECKS: Mapping[str, Callable[[str], Any]] = {
    **{"plain": bool, "card": lambda said: luhn.is_valid(_GROUPS.sub("", said)), "phone": _is_phone},
    **{"iban": iban.is_valid, "inn": inn.is_valid, "snils": _is_snils, "ssn": ssn.is_valid},
}
_EXPRESSIONS = {
    kind: [(name, re.compile(each)) for name in table.keys() & _CHECKS for each in table[name]]
    for kind, table in _TABLE["kinds"].items()
}


@cache
def _forms_of_keys() -> list[tuple[re.Pattern[str], Callable[[str], bool]]]:
    """The expressions of the plugins, each with what else a match must be."""
    detectors = [
        getattr(import_module(f"detect_secrets.plugins.{module}"), plugin)
        for module, plugin in (name.split(".") for name in _TABLE["plugins"])
    ]
    return [(form, getattr(each, "is_formally_valid", bool)) for each in detectors for form in each.denylist]


def _keys(text: str) -> Iterator[Span]:
    for begin in range(0, max(1, len(text) - _SHARED), _WINDOW - _SHARED):
        window = text[begin : begin + _WINDOW]
        for expression, is_valid in _forms_of_keys():
            for found in expression.finditer(window):
                group = 1 if found.lastindex and len(found[1] or "") >= 8 else 0
                start, end = begin + found.start(group), begin + found.end(group)
                if found.end(group) == len(window) and (rest := _REST_OF_KEY.match(text, end)):
                    yield start, rest.end()
                elif is_valid(found[group]):
                    yield start, end


def _instructions(text: str) -> Iterator[Span]:
    """Whole sentences, as somebody sees them: without invisible characters, with letters for those that look alike."""
    places = [at for at, letter in enumerate(text) if not _HIDDEN.match(letter)] if _HIDDEN.search(text) else None
    visible = "".join([text[at] for at in places]) if places else text
    for seen in {text, text.translate(_ALIKE), visible, visible.translate(_ALIKE)}:
        for found in (found for sentence in _SENTENCES for found in sentence.finditer(seen)):
            start, end = found.span()
            if places and len(seen) < len(text):
                start, end = places[start], places[end - 1] + 1
            before = [each.end() for each in _SENTENCE_ENDS.finditer(text, max(0, start - _MOST_SENTENCE), start)]
            after = _SENTENCE_ENDS.search(text, end, end + _MOST_SENTENCE)
            far = min(len(text), end + _MOST_SENTENCE)
            yield max([start - _MOST_SENTENCE, 0, *before]), after.start() if after else far


_KINDS: Mapping[str, Callable[[str], Iterator[Span]]] = {
    "keys": _keys,
    "health": lambda text: (found.span() for found in _HEALTH.finditer(text)),
    "instructions": _instructions,
}
