"""Excerpts, verified: what a model quotes is looked for in the real messages.

A model may shorten, reword or invent. Each piece of an excerpt is therefore located in the topic's
messages and gets a status and offsets; whoever shows or uses an excerpt takes the text from the message
at those offsets, never from the model.

    exact        the piece stands there, character for character
    normalised   the same words; case, spaces or typography differ
    altered      most of its words stand there in that order (offsets span them)
    absent       no message holds it

Where a large topic comes without a usable excerpt, ``best_exchanges`` picks whole exchanges by their words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from memoryapp.engine.answers import ExcerptPart
from memoryapp.engine.events import Piece
from memoryapp.engine.lexical import idf, stems
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.passages import exchanges
from memoryapp.engine.prompts import MESSAGE_HEAD, quoted

# Share of a piece's words that must be found in order for "altered"; below it, it is another text.
_ALTERED_SHARE = 0.6
# A model quotes a few exchanges; more is a runaway answer.
_MAX_PIECES = 100
# Word matching is quadratic: beyond this a piece is compared by its beginning.
_MAX_WORDS = 600

# An excerpt by the scorer: a few exchanges, as a model would give.
_BEST_CHARS = 6_000

_Word = tuple[str, int, int]
_WORD = re.compile(r"\w+")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_TYPOGRAPHY = str.maketrans("“”„«»‘’‚–—−", '"""""\'\'\'---')


class _Source:
    """A message with the forms it is searched in, each made once."""

    def __init__(self, message: MessageContent) -> None:
        self.id = message.id
        self.text = message.text
        self.clock = f"{message.sent_at:%Y-%m-%d %H:%M:%S}"

    @cached_property
    def seen(self) -> str:
        """The text as the model saw it, as long as ``text``."""
        return quoted(self.text)

    @cached_property
    def normalised(self) -> tuple[str, list[int]]:
        return _normalised(self.text)

    @cached_property
    def words(self) -> list[_Word]:
        return _words(self.text)

    @cached_property
    def vocabulary(self) -> set[str]:
        return {word for word, _, _ in self.words}


@dataclass(frozen=True, slots=True)
class _Claim:
    """A text the model says stands in a message; ``clock`` is the time in its head, if any."""

    text: str
    clock: str = ""


def verify(parts: Sequence[ExcerptPart], messages: Sequence[MessageContent]) -> tuple[Piece, ...]:
    """Each piece of an excerpt, located in ``messages``, in the model's order.

    ``parts`` are texts (of one or several messages, with or without their heads) or message ids.
    """
    sources = [_Source(message) for message in messages]
    pieces: list[Piece] = []
    for part in parts:
        pieces += _of_id(part, sources) or _of_text(part, sources)
        if len(pieces) >= _MAX_PIECES:
            break
    return tuple(pieces[:_MAX_PIECES])


def is_usable(pieces: Sequence[Piece]) -> bool:
    """Whether at least one piece points into a real message."""
    return any(piece.message is not None for piece in pieces)


def best_exchanges(query: str, messages: Sequence[MessageContent]) -> tuple[Piece, ...]:
    """Whole exchanges holding most of the query's rarer words, about 6,000 characters, in order of time."""
    runs = exchanges(messages)
    held = [set(stems(" ".join(message.text for message in run))) for run in runs]
    weights = {stem: idf(len(runs), sum(stem in stems_ for stems_ in held)) for stem in set(stems(query))}
    scores = [sum(weights[stem] for stem in weights.keys() & stems_) for stems_ in held]
    taken: set[int] = set()
    room = _BEST_CHARS
    for number in sorted(range(len(runs)), key=lambda n: (-scores[n], n)):
        size = sum(len(message.text) for message in runs[number])
        if not taken or (scores[number] > 0 and size <= room):
            taken.add(number)
            room -= size
    return tuple(Piece(m.text, "exact", m.id, 0, len(m.text)) for number in sorted(taken) for m in runs[number])


def _of_id(part: ExcerptPart, sources: Sequence[_Source]) -> list[Piece]:
    if isinstance(part, str) and not re.fullmatch(r"\s*[0-9]{1,18}\s*", part):
        return []
    return [Piece(s.text, "exact", s.id, 0, len(s.text)) for s in sources if s.id == int(part)]


def _of_text(part: ExcerptPart, sources: Sequence[_Source]) -> list[Piece]:
    if isinstance(part, int):
        return [Piece(str(part), "absent")]
    return [piece for claim in _claims(part) for piece in _located(claim, sources)]


def _claims(text: str) -> Iterator[_Claim]:
    """The text cut at message heads."""
    clock, start = "", 0
    for head in MESSAGE_HEAD.finditer(text):
        yield from _claim(text[start : head.start()], clock)
        found = _CLOCK.search(head[0])
        clock, start = found[0] if found else "", head.end()
    yield from _claim(text[start:], clock)


def _claim(text: str, clock: str) -> Iterator[_Claim]:
    if _WORD.search(text):
        yield _Claim(text.strip(), clock)


def _located(claim: _Claim, sources: Sequence[_Source]) -> list[Piece]:
    """The claim as one piece, or line by line when only its lines can be found."""
    # Messages of the claimed time first, then those that are the very text: "ok" stands in many.
    ordered = sorted(sources, key=lambda s: (s.clock != claim.clock, s.text.strip() != claim.text))
    whole = _verbatim(claim.text, ordered)
    if whole:
        return [whole]
    lines = [line.strip() for line in claim.text.splitlines() if _WORD.search(line)][:_MAX_PIECES]
    found = [_verbatim(line, ordered) for line in lines]
    if len(lines) > 1 and any(found):
        return [piece or _altered(line, ordered) for piece, line in zip(found, lines, strict=True)]
    return [_altered(claim.text, ordered)]


def _verbatim(text: str, sources: Sequence[_Source]) -> Piece | None:
    for source in sources:
        start = _find(text, source.text)
        if start is None and source.seen != source.text:
            start = _find(text, source.seen)
        if start is not None:
            return Piece(text, "exact", source.id, start, start + len(text))
    needle, _ = _normalised(text)
    for source in sources:
        haystack, offsets = source.normalised
        start = _find(needle, haystack)
        if start is not None:
            return Piece(text, "normalised", source.id, offsets[start], offsets[start + len(needle) - 1] + 1)
    return None


def _find(needle: str, haystack: str) -> int | None:
    """Where ``needle`` stands as whole words."""
    start = haystack.find(needle) if needle else -1
    while start >= 0:
        end = start + len(needle)
        cuts_word = (start > 0 and (haystack[start - 1] + needle[0]).isalnum()) or (
            end < len(haystack) and (needle[-1] + haystack[end]).isalnum()
        )
        if not cuts_word:
            return start
        start = haystack.find(needle, start + 1)
    return None


def _normalised(text: str) -> tuple[str, list[int]]:
    """Lower case, one kind of quote and dash, single spaces; with each character's offset in ``text``."""
    characters: list[str] = []
    offsets: list[int] = []
    for offset, character in enumerate(text.translate(_TYPOGRAPHY)):
        for plain in unicodedata.normalize("NFKC", character).casefold():
            if not plain.isspace():
                characters.append(plain)
                offsets.append(offset)
            elif characters and characters[-1] != " ":
                characters.append(" ")
                offsets.append(offset)
    if characters and characters[-1] == " ":
        characters.pop()
        offsets.pop()
    return "".join(characters), offsets


def _altered(text: str, sources: Sequence[_Source]) -> Piece:
    words = _words(text)[:_MAX_WORDS]
    wanted = {word for word, _, _ in words}
    best = max(sources, key=lambda s: len(wanted & s.vocabulary), default=None)
    if best is None or len(wanted & best.vocabulary) < _ALTERED_SHARE * len(wanted):
        return Piece(text, "absent")
    matcher = SequenceMatcher(None, [w for w, _, _ in best.words], [w for w, _, _ in words], autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if sum(block.size for block in blocks) < _ALTERED_SHARE * len(words):
        return Piece(text, "absent")
    first, last = blocks[0].a, blocks[-1].a + blocks[-1].size - 1
    return Piece(text, "altered", best.id, best.words[first][1], best.words[last][2])


def _words(text: str) -> list[_Word]:
    """Words in lower case with start and end."""
    return [(match[0].casefold(), match.start(), match.end()) for match in _WORD.finditer(text)]
