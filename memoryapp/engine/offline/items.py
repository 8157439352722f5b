"""How the embedded scorer selects people and files: by the words of their lines, always with the same result.

A person is selected when the query names them, in any grammatical case of a Russian name, or when their line contains
most of the query. A file is selected when its name, keywords or entities share a word with the query and its whole line
contains half of it, or when the query refers to it and it was sent in this conversation."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from memoryapp.engine.text.lexical import normal, stems, words
from memoryapp.engine.text.lines import NOT_ANALYSED
from memoryapp.engine.text.names import forms

# Which file of the running conversation a query refers to, for the embedded scorer.
#
# Most queries with the word "file" mean files in general ("which file format does it use"). A query refers to a file
# when it names the file, or when the word for a file comes with a demonstrative ("this photo", "в том документе"),
# with a statement that it was sent here ("the pdf I attached"), or where only one file can be meant ("what is in the
# document?"). A question about how to do something with files refers to none. The rules are for English and Russian
# text in lower case; those for indirect references prefer missing a file to finding one that nobody meant.

Kind = Literal["any", "document", "pdf", "image", "sound", "video", "table", "slides"]

_NOUNS: Mapping[Kind, str] = {
    "any": r"files?|attachments?|файл(?:а|у|ом|е|ы|ов|ам|ами|ах|ик\w{0,2})?|вложени\w{1,2}",
    "document": r"documents?|docs?|документ(?:а|у|ом|е|ы|ов|ам|ами|ах)?",
    "pdf": r"pdfs?|пдф\w{0,2}",
    "image": (
        r"photos?|pictures?|pics?|images?|screenshots?|фото|фотографи\w{1,2}|фотк\w{1,2}|картин(?:ок|к\w{1,3})"
        r"|изображени\w{1,2}|сним(?:ок|к\w{1,3})|скрин(?:шот)?(?:а|у|ом|е|ы|ов|ам|ах)?|рисун(?:ок|к\w{1,3})"
    ),
    "sound": r"recordings?|voice (?:messages?|notes?)|audio|(?:аудио)?запис(?:ь|и|ью|ей|ях)|аудио|голосов\w{2,5}",
    "video": r"videos?|clips?|видео|видеозапис(?:ь|и|ью)|ролик\w{0,2}",
    "table": r"spreadsheets?|таблиц\w{0,2}",
    "slides": r"slides|presentations?|презентаци\w{1,2}|слайд\w{0,2}",
}
# The kind of a file is the first one that matches its type or the end of its name, otherwise a document.
_TYPES: Mapping[Kind, str] = {
    "pdf": "pdf",
    "image": "image photo picture screenshot png jpg jpeg gif webp heic bmp svg tiff",
    "sound": "voice audio recording mp3 ogg oga opus wav m4a flac",
    "video": "video mp4 mov webm mkv avi",
    "table": "spreadsheet table csv xls xlsx ods",
    "slides": "presentation slides ppt pptx odp key",
}
_DOCUMENTS: frozenset[Kind] = frozenset({"document", "pdf", "table", "slides"})

_NOUN = "(?:" + "|".join(f"(?P<{kind}>{called})" for kind, called in _NOUNS.items()) + r")\b"
# "File format" is a format, and "the file system" is a system.
_NO_HEAD = (
    r"(?![ -](?:formats?|systems?|types?|extensions?|sizes?|names?|servers?|managers?|descriptors?|sharing|transfers?"
    r"|paths?|handles?|uploads?|libraries|library|editors?|viewers?|compression|hosting|recognition)\b)"
)
_END = r"(?=\s*(?:$|[?!.,;:…)\n]))"
_SENT = r"(?:sent|attached|uploaded|shared|forwarded|posted)"
_SENT_RU = r"(?:прислал|скинул|переслал|отправил|послал|приложил|прикрепил|загрузил|выложил|кинул)[аи]?"
# "В файл" says where to put something.
_WHERE_RU = r"(?:на|в|во|из|с|со) (?!(?:файл|документ|скрин|скриншот|снимок|рисунок|ролик|слайд)\b|\w+[ую]\b)"
_STANDS_RU = r"(?:(?:написан|сказан|изображен|указан|нарисован|показан|видн|говор)\w*|стоит|есть)"
_QUALITY = r"(?:(?!(?:is|are|was|the|an?|of|to|in|on|for|as|or|and)\b)[a-z]+ )?"
_QUALITY_RU = r"(?:\w+(?:ый|ий|ой|ая|яя|ое|ее|ую|юю|ые|ие|ого|его|ом|ем|ым|им|ых|их) )?"

# The file is identified: this one, the attached one, the one that was sent.
_CERTAIN = (
    rf"\b(?:this|these) {_QUALITY}{_NOUN}{_NO_HEAD}",
    # Otherwise "that" begins a clause: "is it true that pdf is older".
    r"(?:^|[,.:;?!\n] ?|\b(?:in|on|from|of|about|at|with|for|to|into|is|was|do|does|did|see|open|read|describe"
    rf"|translate|check|and|are) )(?:that|those) {_QUALITY}{_NOUN}{_NO_HEAD}",
    rf"\b(?<!\ban )(?:attached|enclosed) (?!\w+s\b){_NOUN}{_NO_HEAD}",
    rf"\bthe (?:attached|enclosed|uploaded|forwarded) {_NOUN}{_NO_HEAD}",
    rf"\b{_NOUN} (?:that |which )?(?!should|must|can|could|would|will|is|are|was|were|to|be|get)\w+ "
    rf"(?:(?:have|has|had|just) )*{_SENT}\b(?! to (?!you\b|me\b|us\b))",
    rf"\b{_NOUN} did \w+ (?:just )?(?:send|attach|upload|share|forward)\b(?! to )",
    rf"\b(?:here(?:'s| is)|i(?:'ve| have)? (?:just )?(?:attached|uploaded|sent you)) (?:an?|the|my) "
    rf"{_NOUN}{_NO_HEAD}(?! to )",
    r"\b(?:эт(?:от|а|о|у|ой|ого|ому|ом|им|и|их|ими)|т(?:от|а|у|ой|ого|ом|ех)) (?:за )?"
    rf"{_QUALITY_RU}{_NOUN}",
    rf"\b(?:прикрепленн|приложенн|присланн|вложенн)(?:ый|ая|ое|ую|ого|ой|ом|ым) {_NOUN}",
    rf"\b{_NOUN},? (?:котор\w+|что) (?:\w+ ){{0,3}}?{_SENT_RU}\b(?! (?:в|на|к) )",
    rf"\b(?:вот|(?:прислал|скинул|прикрепил|приложил)[аи]?)(?: тебе| сюда| мо[йяе])? {_NOUN}{_END}",
    rf"\b{_NOUN} (?:мне |нам )?(?:только что )?(?:прислал|скинул|переслал|кинул)[аи]?\b(?! (?:в|на|к) )",
)
# Nothing identifies the file, so the query must ask what is in it, or ask to read it.
_OPEN = (
    r"\b(?:what|who|whose|where|when|how many|how much|is|are|does|summary|text|translation)\b.{0,200}"
    rf"\b(?:in|on|from|of|about|inside) the {_NOUN}{_END}",
    rf"(?:^|\n)(?:in|on|from) the {_NOUN},",
    rf"\bthe {_NOUN} (?:says?|shows?|tells?|means?|contains?|above)\b",
    r"\b(?:describe|summari[sz]e|translate|transcribe|read|open|check|look at|view|explain) (?:me )?the "
    rf"{_NOUN}(?:{_END}| (?:and|please|for me|to me|again|above|(?:in)?to (?:english|russian))\b)",
    r"\b(?:что|чем|кто|кого|чей|чья|чье|где|когда|как\w{0,3}|сколько|ли|найди|выпиши|переведи|выжимк\w|текст|суть)\b"
    rf".{{0,200}}\b{_WHERE_RU}{_NOUN}(?:{_END}| (?:{_STANDS_RU}|про|об?|и)\b)",
    rf"(?:^|\n){_WHERE_RU}{_NOUN} {_STANDS_RU}\b",
    r"\b(?:прочитай|прочти|посмотри|глянь|опиши|переведи|перескажи|расшифруй|распознай|открой|проверь)(?:те)? "
    rf"(?:мне |на )?{_NOUN}(?:{_END}| (?:и|на (?:русский|английский)|пожалуйста)\b)",
)
_CERTAINLY = tuple(map(re.compile, _CERTAIN))
_OPENLY = tuple(map(re.compile, _OPEN))
# "What is this?" can refer to any file that was sent.
_WHAT_IS_IT = re.compile(
    r"^(?:and |so |а |и |ну )?(?:(?:what|who)(?:'s| is) (?:this|that)|(?:что|кто) (?:это|тут|здесь)"
    r"(?: так(?:ое|ой|ая)| написано| изображено| нарисовано)?)\W*$",
    re.MULTILINE,
)
# A question about how to do something with files means files in general.
_HOW_TO = re.compile(
    r"\bhow (?:to|do|does|can|could|would|should)\b"
    r"|\bкак (?:(?:\w+ ){0,2}?\w+(?:ть|ти|чь|ться)|лучше|можно|правильно)\b"
)


def refers_to(query: str, file_type: str, name: str) -> bool:
    """Whether the query refers to a file of this type and name, which is part of the conversation."""
    text = normal(query)
    if _names(text, name) or _WHAT_IS_IT.search(text):
        return True
    kind = _kind_of(file_type, name)
    return any(
        called in ("any", kind) or (called == "document" and kind in _DOCUMENTS) for called in _called_in_talk(text)
    )


def _names(text: str, name: str) -> bool:
    """Whether the query contains the name: with its ending, or without it if the name has several words."""
    *stem, _ending = called = words(normal(name)) or [""]
    asked = f" {' '.join(words(text))} "
    return any(f" {' '.join(each)} " in asked for each in (called, stem) if len(each) > 1)


def _kind_of(file_type: str, name: str) -> Kind:
    hints = {*words(normal(file_type)), *words(normal(name))[-1:]}
    return next((kind for kind, types in _TYPES.items() if hints.intersection(types.split())), "document")


def _called_in_talk(text: str) -> Iterator[Kind]:
    """The words for files in the query."""
    for pointer in _CERTAINLY if _HOW_TO.search(text) else _CERTAINLY + _OPENLY:
        for found in pointer.finditer(text):
            yield cast(Kind, found.lastgroup)


_MOST = 3
_PERSON_SHARE = 0.6
_FILE_SHARE = 0.5
# One shared word may be a coincidence; the score must then be high as well.
_LEAST_SCORE = 0.5

_LINE = re.compile(
    r"^\[(?P<id>(?P<kind>Person|Artifact):\d+)\] \((?:(?P<score>\d\.\d\d)|in this conversation)\) (?P<text>.*)$",
    re.MULTILINE,
)
# "Петров (@petrov) (aka Петя, Pete) [Work_Inner]": everything before the circle is a name.
_CIRCLE = re.compile(r"(?<!\s)\s*+\[[^\[\]]*+\]$")
_TYPE = re.compile(r'^(?P<type>[^:]*): "(?P<name>.*)"$')

Why = Literal["named", "known", "described", "here"]


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A person or a file as its line describes it: ``names`` are what it is called, ``known`` is the whole description.
    ``file_type`` and ``file_name`` belong to a file, as they are written."""

    id: str
    score: float
    names: tuple[str, ...]
    known: str
    in_session: bool = False
    file_type: str = ""
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class ItemChoice:
    """A selected item: the reason, and the words of the query that led to it."""

    item: KnownItem
    why: Why
    words: tuple[str, ...] = ()


def people_in(lines: str) -> list[KnownItem]:
    return [_person(found) for found in _LINE.finditer(lines) if found["kind"] == "Person"]


def files_in(lines: str) -> list[KnownItem]:
    return [_file(found) for found in _LINE.finditer(lines) if found["kind"] == "Artifact"]


def choose_people(query: str, people: Sequence[KnownItem]) -> list[ItemChoice]:
    """The people that the query is about, those it names first; equal ones keep their order."""
    terms = _terms(query)
    named = [ItemChoice(each, "named", called) for each in people if (called := _called(query, each.names))]
    known = [
        ItemChoice(each, "known", shared)
        for each in people
        if not _called(query, each.names) and len(shared := _shared(terms, each.known)) >= 2
        if len(shared) >= _PERSON_SHARE * len(terms)
    ]
    return [*named, *_by_words(known)][:_MOST]


def choose_files(query: str, files: Sequence[KnownItem]) -> list[ItemChoice]:
    """The files that may contain the answer: those the query refers to first, then by shared words."""
    terms = _terms(query)
    here = [each for each in files if each.in_session and refers_to(query, each.file_type, each.file_name)]
    described = [
        ItemChoice(each, "described", shared)
        for each in files
        if each not in here and _shared(terms, " ".join(each.names))
        if len(shared := _shared(terms, each.known)) >= _FILE_SHARE * len(terms)
        if len(shared) > 1 or each.score >= _LEAST_SCORE
    ]
    return [*(ItemChoice(each, "here") for each in here), *_by_words(described)][:_MOST]


def _person(found: re.Match[str]) -> KnownItem:
    head, *parts = found["text"].split(" | ")
    return KnownItem(found["id"], float(found["score"] or 0), tuple(words(_CIRCLE.sub("", head))), _joined(parts[1:]))


def _file(found: re.Match[str]) -> KnownItem:
    head, *parts = found["text"].split(" | ")
    named = _TYPE.match(head)
    file_type, file_name = (named["type"], named["name"]) if named else ("", head)
    name = " ".join(words(file_name)) if named else head
    # Keywords and entities precede the summary; a file is named only by them and its file name.
    called = [part for part in parts[:2] if part != NOT_ANALYSED][: max(len(parts) - 1, 0)]
    return KnownItem(
        id=found["id"],
        score=float(found["score"] or 0),
        names=(name, *called),
        known=_joined([name, *parts]),
        in_session=found["score"] is None,
        file_type=file_type,
        file_name=file_name,
    )


def _joined(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part != NOT_ANALYSED)


def _terms(query: str) -> dict[str, str]:
    """The stems of the query with the words as they were written, in order."""
    return {stem: word for word in reversed(words(query)) for stem in stems(word)}


def _shared(terms: dict[str, str], text: str) -> tuple[str, ...]:
    present = set(stems(text))
    return tuple(dict.fromkeys(word for stem, word in reversed(terms.items()) if stem in present))


def _called(query: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(word for word in words(query) if any(is_name(normal(word), normal(name)) for name in names))
    )


def is_name(word: str, name: str) -> bool:
    """Whether ``word`` is ``name`` in one of its cases: "Петрове" and "Петров", "Маше" and "Маша"."""
    return len(name) > 1 and word in forms(name)


def _by_words(kept: Iterable[ItemChoice]) -> list[ItemChoice]:
    return sorted(kept, key=lambda each: (-len(each.words), -each.item.score))
