"""Files of labelled questions: JSON Lines, or one JSON list. Entries that cannot be read are reported; the others are
used.

A question has ``user``, ``question`` and ``evidence``, the ids of the messages that answer it. If the memory contains
no answer, and a good strategy should select nothing, it has ``unanswerable`` instead. Optional are ``qid``, unique in
the file, ``category``, and ``citations``: ids that an answer should cite, if they differ from the evidence. Unknown
fields are ignored."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.utils.translation import gettext as _

from memoryapp.engine.json_values import has_more_values, storable

LONGEST_FILE = 200 * 1024 * 1024
# Values of a list of questions, or of a line.
MOST_FIELDS = 3_000_000


class QuestionsError(Exception):
    """The file of questions cannot be used; the text is for people."""


class _Unreadable(Exception):
    """One question cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """``evidence`` and ``citations`` are external ids of messages, each once; an unanswerable question has none."""

    user: str
    qid: str
    question: str
    category: str
    evidence: tuple[str, ...]
    citations: tuple[str, ...] = ()

    @property
    def is_answerable(self) -> bool:
        return bool(self.evidence)

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.evidence, *self.citations)))


@dataclass(frozen=True, slots=True)
class Questions:
    """The content of a file: the questions that can be used, and a sentence about each that cannot."""

    asked: tuple[LabelledQuestion, ...]
    faults: tuple[str, ...] = ()


def read_questions(path: Path, user: str = "") -> Questions:
    """The questions of a file; those without a chat user are about ``user``. Raises QuestionsError when the file cannot
    be read, or contains no usable question."""
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise QuestionsError(_("%(path)s is larger than 200 MB.") % {"path": path})
        with path.open(encoding="utf-8-sig") as text:
            questions = _gathered(_entries(text), user)
    except OSError as error:
        raise QuestionsError(
            _("%(path)s cannot be read: %(error)s.") % {"path": path, "error": error.strerror}
        ) from error
    except UnicodeDecodeError as error:
        raise QuestionsError(_("%(path)s is not UTF-8 text: save it as UTF-8.") % {"path": path}) from error
    if not questions.asked:
        first = questions.faults[0] if questions.faults else ""
        raise QuestionsError(f"{_('%(path)s holds no questions.') % {'path': path}} {first}".strip())
    return questions


def _entries(text: IO[str]) -> Iterator[tuple[str, Any]]:
    """The place and value of each entry; for a line that is no JSON, the value is the exception with the reason."""
    first = text.read(1)
    while first.isspace():
        first = text.read(1)
    text.seek(0)
    if first == "[":
        yield from _list_entries(text.read())
        return
    for number, line in enumerate(text, start=1):
        if line.strip():
            yield _("Line %(number)s") % {"number": number}, _parsed(line)


def _list_entries(text: str) -> Iterator[tuple[str, Any]]:
    entries = _parsed(text)
    if isinstance(entries, Exception):
        raise QuestionsError(_("The list of questions is no JSON: %(why)s") % {"why": entries})
    for number, entry in enumerate(entries, start=1):
        yield _("Question %(number)s") % {"number": number}, entry


def _parsed(text: str) -> Any:
    try:
        if has_more_values(text.encode(), MOST_FIELDS):
            raise ValueError(_("it holds more than %(most)s values") % {"most": f"{MOST_FIELDS:,}"})
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return error


def _gathered(entries: Iterable[tuple[str, Any]], user: str) -> Questions:
    asked: dict[str, LabelledQuestion] = {}
    faults = []
    for place, (name, raw) in enumerate(entries, start=1):
        try:
            question = _question(raw, user, place)
            if question.qid in asked:
                raise _Unreadable(_("another question has the same id, “%(qid)s”.") % {"qid": question.qid})
            asked[question.qid] = question
        except _Unreadable as why:
            faults.append(_("%(place)s cannot be asked: %(why)s") % {"place": name, "why": why})
    return Questions(tuple(asked.values()), tuple(faults))


def _question(raw: Any, user: str, place: int) -> LabelledQuestion:
    """Raises _Unreadable about the first wrong field."""
    if isinstance(raw, Exception):
        raise _Unreadable(str(raw))
    if not isinstance(raw, dict):
        raise _Unreadable(_("it must be an object."))
    raw = {"user": user, **raw}
    evidence = _evidence(raw)
    return LabelledQuestion(
        user=_words(raw, "user"),
        qid=_id(raw, place),
        question=_words(raw, "question"),
        category=_words(raw, "category") if raw.get("category") else "",
        evidence=evidence,
        citations=_ids(raw, "citations") if raw.get("citations") else evidence,
    )


def _evidence(raw: dict[str, Any]) -> tuple[str, ...]:
    flag = raw.get("unanswerable", False)
    if not isinstance(flag, bool):
        raise _Unreadable(_("“%(field)s” must be true or false.") % {"field": "unanswerable"})
    if not flag:
        return _ids(raw, "evidence")
    if raw.get("evidence") or raw.get("citations"):
        raise _Unreadable(_("it is unanswerable and yet names messages."))
    return ()


def _ids(raw: dict[str, Any], field: str) -> tuple[str, ...]:
    ids = raw.get(field)
    if not isinstance(ids, list) or not ids or not all(map(_is_words, ids)):
        raise _Unreadable(_("“%(field)s” must be a list of message ids, each a text, at least one.") % {"field": field})
    return tuple(dict.fromkeys(ids))


def _id(raw: dict[str, Any], place: int) -> str:
    """The question's own id, a text or a number, otherwise its place in the file."""
    given = raw.get("qid", raw.get("id", place))
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if not _is_words(given):
        raise _Unreadable(_("“%(field)s” must be a text that is not empty.") % {"field": "qid"})
    return str(given)


def _words(raw: dict[str, Any], field: str) -> str:
    words = raw.get(field)
    if not _is_words(words):
        raise _Unreadable(_("“%(field)s” must be a text that is not empty.") % {"field": field})
    return str(words)


def _is_words(value: object) -> bool:
    """Whether it is a text that is not empty, of characters that the database can store."""
    return isinstance(value, str) and bool(value.strip()) and storable(value) == value
