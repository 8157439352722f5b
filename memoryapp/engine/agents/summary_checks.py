"""Checks of a summary that a model wrote: whether it says what its messages say, in their script, and only words. Each
of its names and numbers stands in them, and most of its other words too. Whether it is good is not judged."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from memoryapp.engine.beside import table_beside
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.prompts.prompt import Language
from memoryapp.engine.text.languages import UNSPACED, script_of, shares
from memoryapp.engine.text.lexical import normal, stems, words
from memoryapp.engine.text.sentences import ASKING_MARKS
from memoryapp.engine.text.standing import stands_in
from memoryapp.engine.text.terms import common

SummaryFault = Literal["markup", "instruction", "script", "unrelated", "repeated"]

# A script in which less of the talk is written is that of names and code.
_LEAST_SHARE = 0.2
# Forms and derivations of a word ("bake", "baking"; "поездка", "поездкой") begin alike.
_BEGINNING = 5
_MOST_CHARS = 200_000

_MARKUP = re.compile(
    r"</?[a-z!][^<>]{0,200}>|<\||\|>|```|\[\s*(?:topic|person|artifact)\s*:|\[/?(?:INST|SYS)\]"
    r"|&(?:lt|gt|amp|#\d{1,7});|\]\(\s*(?:https?|javascript|data):|^\s*[{\[].*[}\]]\s*$",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules|above|previous)\b"
    r"|\byou are now\b|\b(?:system|developer) prompt\b|^\s*(?:system|assistant|user)\s*:"
    r"|\b(?:(?:про)?игнорируй|забудь|отмени|не выполняй)(?:те)?\b.{0,40}\b(?:инструкци|указани|правил|предыдущ|выше)"
    r"|\bтеперь ты\b|\bсистемн(?:ый|ого|ому) промпт",
    re.IGNORECASE,
)
# What happened: words in the past, except those of talking and planning, which sum up what nobody said so.
_TOLD = re.compile(
    r"(?!(?:ask|discuss|mention|talk|shar|explain|plann|want|decid|need|recommend|suggest|describ|compar|learn|relat|bas)ed)"
    r"[a-z]{2,}ed|(?!(?:об|рас)суд|с?про?с|рассказ|узна|попрос|реш|хот|план|сравн|объясн|совет)[а-яё]{2,}[аеия]л(?:а|и|ся|ась|ись)?",
    re.IGNORECASE,
)
_WORDS = table_beside(__file__)
_ASKED: Mapping[Language, Mapping[SummaryFault, str]] = _WORDS["asked"]
_AGAIN: Mapping[Language, str] = _WORDS["again"]
_SHOWN_CHARS = 80
_STATED = str.maketrans(dict.fromkeys(ASKING_MARKS, "."))


def fault_of(
    summary: str, messages: Sequence[MessageContent], *, others: Collection[str] = (), known: Iterable[str] = ()
) -> SummaryFault | None:
    """What is wrong with a model's ``summary`` of the ``messages``, whose neighbours have the summaries ``others``.
    ``known`` are earlier summaries of the same messages, whose words the new one may repeat."""
    if fault := form_fault(summary, messages):
        return fault
    if not _is_about(summary, messages, known):
        return "unrelated"
    return "repeated" if _plain(summary) in set(map(_plain, others)) else None


def form_fault(text: str, messages: Sequence[MessageContent]) -> SummaryFault | None:
    """Whether a model's text is no plain words: markup, an instruction, or another script than that of the talk."""
    if _MARKUP.search(text):
        return "markup"
    if _INSTRUCTION.search(text):
        return "instruction"
    return None if _is_in_their_script(text, messages) else "script"


def asked_again(summary: str, fault: SummaryFault, language: Language) -> str:
    """What a model is told about a summary that cannot be used."""
    return _AGAIN[language] % (summary[:_SHOWN_CHARS], _ASKED[language][fault])


def _plain(summary: str) -> str:
    return " ".join(words(normal(summary)))


def _is_in_their_script(summary: str, messages: Sequence[MessageContent]) -> bool:
    """Whether the script of most of the summary is one of the talk's, or of what people say in it."""
    script = script_of(summary)
    of_people = _text(message for message in messages if message.role != "assistant")
    shared = [shares(text) for text in (of_people, _text(messages))]
    return not script or not any(shared) or any(share.get(script, 0) >= _LEAST_SHARE for share in shared)


def _is_about(summary: str, messages: Sequence[MessageContent], known: Iterable[str]) -> bool:
    """Whether the names and numbers of the summary stand in the messages or in what is ``known`` of them, and most of
    its words; in another language than theirs, one that says something."""
    talk = _beginnings(_text(messages))
    names = {name for m in messages for name in (m.author, m.username, m.forwarded_from)}
    earlier = list(known)
    if not talk:
        return True
    words_of_it = _beginnings(summary)
    # Without the words of any talk, if others are left.
    telling = words_of_it - {stem[:_BEGINNING] for stem in common()} or words_of_it
    if not telling & (talk | _beginnings("\n".join((*names, *earlier)))):
        return False
    # What was asked is what a talk is about, too.
    said = [*_text(messages).translate(_STATED).split("\n"), *earlier]
    standing = stands_in(summary, said, known=names, times=[message.sent_at for message in messages])
    return (
        standing.grade == "unchecked"
        or not (standing.firm or standing.turned or any(map(_TOLD.fullmatch, standing.missing)))
        and standing.found > standing.absent
    )


def _beginnings(text: str) -> set[str]:
    """The beginnings of the words' stems; pairs of characters in a script without spaces between words."""
    found: set[str] = set()
    for stem in set(stems(text)):
        if script_of(stem) in UNSPACED:
            found.update(stem[at : at + 2] for at in range(max(len(stem) - 1, 1)))
        else:
            found.add(stem[:_BEGINNING])
    return found


def _text(messages: Iterable[MessageContent]) -> str:
    return "\n".join(message.text for message in messages)[:_MOST_CHARS]
