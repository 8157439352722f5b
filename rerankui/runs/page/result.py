"""What a run selected, compared with the real messages and the plain vector order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.events import RunFinished, Selected
from memoryapp.engine.kinds.values import Piece
from memoryapp.models import Message, Run
from rerankui.runs.page.rank_lines import RankLines, rank_lines


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a message's text; ``status`` is empty outside the excerpt."""

    text: str
    status: str


@dataclass(frozen=True, slots=True)
class ExcerptMessage:
    message: Message
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chosen topic as it was found, with its excerpt in the real messages; ``absent`` pieces are in none of them."""

    selected: Selected
    candidate: Candidate | None
    messages: tuple[ExcerptMessage, ...]
    absent: tuple[Piece, ...]
    statuses: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ChosenItem:
    """A chosen person or artifact."""

    selected: Selected
    candidate: ItemCandidate | None


@dataclass(frozen=True, slots=True)
class Result:
    """``new`` topics were not among the first of the vector order; ``lost`` ones were, but are not selected."""

    chosen: tuple[Chosen, ...]
    people: tuple[ChosenItem, ...]
    artifacts: tuple[ChosenItem, ...]
    new: tuple[str, ...]
    lost: tuple[str, ...]
    lines: RankLines | None


def result_of(
    run: Run,
    finished: RunFinished | None,
    candidates: Mapping[str, Candidate],
    items: Mapping[str, ItemCandidate],
    talk: Mapping[int, Message] | None = None,
) -> Result | None:
    """The selection with its excerpts in the real messages: those of ``talk``, else one query for all of them."""
    if finished is None:
        return None
    messages = _quoted(run, finished) if talk is None else talk
    chosen = tuple(_chosen(selected, candidates, messages) for selected in finished.selected)
    names = [selected.id for selected in finished.selected]
    nearest = finished.baseline[: len(names)]
    return Result(
        chosen=chosen,
        people=tuple(ChosenItem(selected, items.get(selected.id)) for selected in finished.people),
        artifacts=tuple(ChosenItem(selected, items.get(selected.id)) for selected in finished.artifacts),
        new=tuple(name for name in names if name not in nearest),
        lost=tuple(name for name in nearest if name not in names),
        lines=rank_lines([(each.selected, each.candidate) for each in chosen]),
    )


def _quoted(run: Run, finished: RunFinished) -> Mapping[int, Message]:
    ids = {piece.message for chosen in finished.selected for piece in chosen.excerpt if piece.message}
    return {message.pk: message for message in Message.objects.of(run.owner_id).filter(pk__in=ids).in_order()}


def _chosen(selected: Selected, candidates: Mapping[str, Candidate], messages: Mapping[int, Message]) -> Chosen:
    by_message: dict[int, list[Piece]] = {}
    for piece in selected.excerpt:
        if piece.message is not None and piece.message in messages:
            by_message.setdefault(piece.message, []).append(piece)
    counts: dict[str, int] = {}
    for piece in selected.excerpt:
        counts[piece.status] = counts.get(piece.status, 0) + 1
    return Chosen(
        selected=selected,
        candidate=candidates.get(selected.id),
        messages=tuple(
            ExcerptMessage(messages[number], segments(messages[number].text, by_message[number]))
            for number in messages
            if number in by_message
        ),
        absent=tuple(piece for piece in selected.excerpt if piece.message is None),
        statuses=tuple(counts.items()),
    )


def segments(text: str, pieces: Sequence[Piece]) -> tuple[Segment, ...]:
    """The text cut at the pieces' offsets; where pieces overlap the earlier one holds."""
    cut: list[Segment] = []
    at = 0
    for piece in sorted(pieces, key=lambda piece: (piece.start, piece.end)):
        start, end = max(piece.start, at), min(piece.end, len(text))
        if end <= start:
            continue
        cut += [Segment(text[at:start], ""), Segment(text[start:end], piece.status)]
        at = end
    cut.append(Segment(text[at:], ""))
    return tuple(segment for segment in cut if segment.text)
