"""Verifies excerpts: a model's quotation is searched for in the real messages.

A model may shorten, reword or invent. Each piece of an excerpt is therefore located in the topic's
messages and gets a status and offsets; whoever shows or uses an excerpt takes the text from the message
at those offsets, never from the model.

exact        a whole message or whole lines of it, character for character
    normalised   the same words; case, spaces or typography differ
    altered      cut inside a line, under another head, out of order, or with words changed; the offsets
                 span the words that are in the message
    absent       no message holds it

What a sentence loses may turn its meaning round ("not" is lost first), so a part of a line is no quotation.
Where a large topic comes without a usable excerpt, ``best_exchanges`` picks whole exchanges by their words."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, islice
from typing import TypeVar

from memoryapp.engine.kinds.kind import Piece, PieceStatus
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.answers import ExcerptPart
from memoryapp.engine.text.lexical import idf, normal, stems
from memoryapp.engine.text.lines import message_head, moment_text, quoted
from memoryapp.engine.text.passages import exchanges
from memoryapp.engine.text.scripts import UNSPACED_RANGES

# A piece counts as "altered" if this share of its words is found in order; otherwise it is another text.
_ALTERED_SHARE = 0.6
# A model quotes a few exchanges; a longer answer is out of control.
_MAX_PIECES = 100
# Matching of words is quadratic, so a longer piece is compared by its beginning.
_MAX_WORDS = 600
# Of a longer message only this many words are compared, those where most words of the excerpt occur. The work grows
# with the product of both lengths and the number of matches, and in repeated words each one matches each other.
_STRETCH = 1_000
# "ok" may occur in one message many times.
_MAX_PLACES = 50

# An excerpt by the scorer: a few exchanges, as a model would choose.
_BEST_CHARS = 6_000

_Word = tuple[str, int, int]
_Span = tuple[int, int]
# A position in the talk: that of the message, and an offset in its text.
_Place = tuple[int, int]
# Without spaces between words every character counts as one.
_WORD = re.compile(rf"[{UNSPACED_RANGES}]|[^\W{UNSPACED_RANGES}]+")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
# Heads separate the messages of an excerpt wherever they are: stored text cannot contain one.
_HEAD = re.compile(r"\[(?:User|Assistant|Peer|System|Forwarded)\b[^\[\]\n]{0,400}+\]:[ \t]?", re.IGNORECASE)
# What may precede the first word of a line: indents, quote marks and bullets. All quantifiers are possessive: after
# each only one thing can follow, and a long row of marks must not be tried in parts.
_BEFORE = re.compile(r"[^\S\n]*+(?:[>*•#]++[^\S\n]*+|[-–—][^\S\n]++)*+")
_AFTER = re.compile(r"[^\S\n]*+(?:\n|\Z)")
_ID = re.compile(r"\s*+[0-9]{1,18}\s*+")
_TYPOGRAPHY = str.maketrans("“”„«»‘’‚–—−", '"""""\'\'\'---')


class _Source:
    """A message with the forms in which it is searched, each computed once."""

    def __init__(self, place: int, message: MessageContent) -> None:
        self.place = place
        self.id = message.id
        self.text = message.text
        self._message = message

    @cached_property
    def seen(self) -> str:
        """The text as the model saw it, with the same length as ``text``."""
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

    @cached_property
    def clock(self) -> str:
        return moment_text(self._message.sent_at)

    @cached_property
    def _head_words(self) -> set[str]:
        m = self._message
        return _vocabulary(" ".join((message_head(m), m.role, m.author, m.username, m.forwarded_from, self.clock)))

    def is_under(self, head: str) -> bool:
        """Whether ``head``, which models shorten, contains nothing wrong."""
        clock = _CLOCK.search(head)
        return (clock is None or clock[0] == self.clock) and _vocabulary(head) <= self._head_words

    def has_whole_lines(self, span: _Span) -> bool:
        start, end = span
        line = self.text.rfind("\n", 0, start) + 1
        return bool(_BEFORE.fullmatch(self.text, line, start) and _AFTER.match(self.text, end))

    def piece(self, text: str, status: PieceStatus, span: _Span) -> Piece:
        return Piece(text, status, self.id, *span)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A text that the model takes for part of a message; ``head`` is what it says about that message, if anything."""

    text: str
    head: str = ""


def verify(parts: Sequence[ExcerptPart], messages: Sequence[MessageContent]) -> tuple[Piece, ...]:
    """Each piece of an excerpt, located in ``messages``, in the model's order. ``parts`` are texts (of one or several
    messages, with or without their heads) or message ids."""
    sources = [_Source(place, message) for place, message in enumerate(messages)]
    pieces: list[Piece] = []
    for part in parts:
        pieces += _of_id(part, sources) or islice(_of_text(part, sources), _MAX_PIECES)
        if len(pieces) >= _MAX_PIECES:
            break
    return tuple(pieces[:_MAX_PIECES])


def is_usable(pieces: Sequence[Piece]) -> bool:
    """Whether at least one piece refers to a real message."""
    return any(piece.message is not None for piece in pieces)


def entering(pieces: Sequence[Piece], messages: Sequence[MessageContent]) -> list[MessageContent]:
    """The whole messages of an excerpt: those with its pieces; a request comes with its reply and vice versa."""
    quoted_ids = {piece.message for piece in pieces}
    kept = {place for place, message in enumerate(messages) if message.id in quoted_ids}
    for place in tuple(kept):
        if messages[place].role == "assistant" and place and messages[place - 1].role != "assistant":
            kept.add(place - 1)
        if messages[place].role != "assistant" and [m.role for m in messages[place + 1 : place + 2]] == ["assistant"]:
            kept.add(place + 1)
    return [messages[place] for place in sorted(kept)]


def best_exchanges(query: str, messages: Sequence[MessageContent], most_chars: int = _BEST_CHARS) -> tuple[Piece, ...]:
    """Whole exchanges with most of the query's rarer words, about ``most_chars`` together, in order of time."""
    runs = exchanges(messages)
    stem_sets = [set(stems(" ".join(message.text for message in run))) for run in runs]
    weights = {stem: idf(len(runs), sum(stem in stems_ for stems_ in stem_sets)) for stem in set(stems(query))}
    scores = [sum(weights[stem] for stem in weights.keys() & stems_) for stems_ in stem_sets]
    taken: set[int] = set()
    room = most_chars
    for number in sorted(range(len(runs)), key=lambda n: (-scores[n], n)):
        size = sum(len(message.text) for message in runs[number])
        if not taken or (scores[number] > 0 and size <= room):
            taken.add(number)
            room -= size
    return tuple(Piece(m.text, "exact", m.id, 0, len(m.text)) for number in sorted(taken) for m in runs[number])


def _of_id(part: ExcerptPart, sources: Sequence[_Source]) -> list[Piece]:
    if isinstance(part, str) and not _ID.fullmatch(part):
        return []
    # int() accepts fewer characters as white space than an expression does.
    number = int(part.strip() if isinstance(part, str) else part)
    return [Piece(s.text, "exact", s.id, 0, len(s.text)) for s in sources if s.id == number]


def _of_text(part: ExcerptPart, sources: Sequence[_Source]) -> Iterator[Piece]:
    """The pieces of one text. A piece that goes back in the talk, or skips words of a message, is not verbatim."""
    places = {source.id: source for source in sources}
    reached: _Place = (-1, 0)
    for claim in _claims(str(part)):
        for piece in _located(claim, sources, reached):
            source = places.get(piece.message) if piece.message is not None else None
            if source is None or piece.status == "altered":
                yield piece
                continue
            goes_on = (source.place, piece.start) >= reached
            skips = reached[0] == source.place and _WORD.search(source.text, reached[1], piece.start)
            yield piece if goes_on and not skips else replace(piece, status="altered")
            reached = max(reached, (source.place, piece.end))


def _claims(text: str) -> Iterator[_Claim]:
    """The text divided at the heads of messages."""
    last_head, start = "", 0
    for head in _HEAD.finditer(text):
        yield from _claim(text[start : head.start()], last_head)
        last_head, start = head[0], head.end()
    yield from _claim(text[start:], last_head)


def _claim(text: str, head: str) -> Iterator[_Claim]:
    if _WORD.search(text):
        yield _Claim(text.strip(), head)


def _located(claim: _Claim, sources: Sequence[_Source], reached: _Place) -> list[Piece]:
    """The claim as one piece, or line by line when only its lines can be found."""
    # First what comes later in the talk; then messages with exactly this text, because "ok" occurs in many.
    ordered = sorted(sources, key=lambda s: (s.text.strip() != claim.text, s.place < reached[0]))
    under = [source for source in ordered if not claim.head or source.is_under(claim.head)]
    lines = [line.strip() for line in claim.text.splitlines() if _WORD.search(line)][:_MAX_PIECES]
    whole = _verbatim(claim.text, under, reached)
    if whole is None and len(lines) > 1:
        if claim.head:
            # A head belongs to one message: the one with most of the lines.
            counts = [sum(_verbatim(line, [source], (-1, 0)) is not None for line in lines) for source in under]
            under = [under[counts.index(max(counts))]] if any(counts) else []
        found = _by_line(lines, under, reached)
        if any(found):
            return [piece or _altered(line, ordered) for piece, line in zip(found, lines, strict=True)]
    return [whole or _altered(claim.text, ordered)]


def _by_line(lines: Sequence[str], sources: Sequence[_Source], reached: _Place) -> list[Piece | None]:
    places = {source.id: source.place for source in sources}
    found: list[Piece | None] = []
    for line in lines:
        piece = _verbatim(line, sources, reached)
        found.append(piece)
        if piece and piece.message is not None:
            reached = max(reached, (places[piece.message], piece.end))
    return found


def _verbatim(text: str, sources: Sequence[_Source], reached: _Place) -> Piece | None:
    """The text as whole lines of one message; when it occurs more than once, at or after ``reached``."""
    for status, places in _SEARCHES:
        elsewhere = None
        for source in sources:
            spans = [span for span in islice(places(text, source), _MAX_PLACES) if source.has_whole_lines(span)]
            further = next((span for span in spans if (source.place, span[0]) >= reached), None)
            if further:
                return source.piece(text, status, further)
            if spans and elsewhere is None:
                elsewhere = source.piece(text, status, spans[0])
        if elsewhere:
            return elsewhere
    return None


def _exactly(text: str, source: _Source) -> Iterator[_Span]:
    for seen in dict.fromkeys((source.text, source.seen)):
        yield from ((start, start + len(text)) for start in _places(text, seen))


def _loosely(text: str, source: _Source) -> Iterator[_Span]:
    needle, _ = _normalised(text)
    haystack, offsets = source.normalised
    for start in _places(needle, haystack):
        yield offsets[start], offsets[start + len(needle) - 1] + 1


_SEARCHES: tuple[tuple[PieceStatus, Callable[[str, _Source], Iterator[_Span]]], ...] = (
    ("exact", _exactly),
    ("normalised", _loosely),
)


def _places(needle: str, haystack: str) -> Iterator[int]:
    """All places where ``needle`` occurs as whole words."""
    start = haystack.find(needle) if needle else -1
    while start >= 0:
        end = start + len(needle)
        cuts_word = (start > 0 and (haystack[start - 1] + needle[0]).isalnum()) or (
            end < len(haystack) and (needle[-1] + haystack[end]).isalnum()
        )
        if not cuts_word:
            yield start
        start = haystack.find(needle, start + 1)


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
    near = _stretch(best.words, wanted)
    matcher = SequenceMatcher(None, [w for w, _, _ in near], [w for w, _, _ in words])
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if sum(block.size for block in blocks) < _ALTERED_SHARE * len(words):
        return Piece(text, "absent")
    first, last = blocks[0].a, blocks[-1].a + blocks[-1].size - 1
    return Piece(text, "altered", best.id, near[first][1], near[last][2])


def _stretch(words: Sequence[_Word], wanted: set[str]) -> Sequence[_Word]:
    """Returns the consecutive words that contain most of the ``wanted`` ones; all words if there are not many."""
    if len(words) <= _STRETCH:
        return words
    before = [0, *accumulate(word in wanted for word, _, _ in words)]
    first = max(range(len(words) - _STRETCH + 1), key=lambda at: before[at + _STRETCH] - before[at])
    return words[first : first + _STRETCH]


def _vocabulary(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _words(text: str) -> list[_Word]:
    """Words in lower case with start and end."""
    return [(match[0].casefold(), match.start(), match.end()) for match in _WORD.finditer(text)]


# Copies: passages that say the same. A text that was forwarded, or posted in several chats, should be found once.
#
# Two passages are copies if they have the same letters and digits in the same words, whoever wrote the lines: case,
# punctuation, emoji, markup and the parameters of addresses do not matter. Short texts are never copies, because "see
# you tomorrow then" is said on many days. The original is the passage that was not forwarded; of several, the
# earliest.

LEAST_CHARS = 40
_KEY_BYTES = 8
_ADDRESS = re.compile(r"https?://\S+")
_TRACKING = ("utm_", "fbclid=", "gclid=", "yclid=")
_WORD_OF_A_COPY = re.compile(r"[^\W_]+")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Saying:
    """The content of a passage, as a ``key`` that its copies share; empty when it is too short to have copies.
    ``is_forwarded`` is true when each of its messages was forwarded; ``seconds`` since 1970 is the time of the first
    one."""

    key: bytes
    is_forwarded: bool
    seconds: float


def key_of(text: str, labels: Collection[str]) -> bytes:
    """The key of a passage whose lines begin with one of the ``labels`` of their authors; empty for a short passage."""
    lines = (
        next((line[len(label) + 2 :] for label in labels if line.startswith(f"{label}: ")), line)
        for line in text.split("\n")
    )
    plain = " ".join(_WORD_OF_A_COPY.findall(_ADDRESS.sub(_place, normal("\n".join(lines)))))
    return blake2b(plain.encode(), digest_size=_KEY_BYTES).digest() if len(plain) >= LEAST_CHARS else b""


def originals(ranked: Sequence[T], sayings: Mapping[T, Saying]) -> dict[T, T]:
    """The original of each passage among ``ranked`` that is a copy of another one."""
    groups: defaultdict[bytes, list[T]] = defaultdict(list)
    for each in ranked:
        if (saying := sayings.get(each)) and saying.key:
            groups[saying.key].append(each)
    found: dict[T, T] = {}
    for group in (each for each in groups.values() if len(each) > 1):
        original = min(group, key=lambda each: (sayings[each].is_forwarded, sayings[each].seconds))
        found |= {each: original for each in group if each != original}
    return found


def _place(address: re.Match[str]) -> str:
    """An address without its protocol, its fragment and the parameters that only count visitors."""
    place, _mark, query = address[0].partition("#")[0].partition("?")
    asked = [pair for pair in query.split("&") if not pair.startswith(_TRACKING)]
    return " ".join((place.partition("://")[2].removeprefix("www."), *asked))
