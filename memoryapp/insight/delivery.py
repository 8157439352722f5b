"""What the assistant made of a run: which of the chosen memories its answer quotes, says in other words, or ignores.

No model is asked. Five words in a row are a quotation; otherwise the embedded scorer compares each sentence of the
answer with the messages of each chosen topic, as it checks statements of answers. A person or a file is used if it is
named."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from django.utils import timezone
from django.utils.translation import gettext as _

from memoryapp.engine.candidates import ItemCandidate
from memoryapp.engine.events import CandidatesFound, RunFinished
from memoryapp.engine.json_values import storable
from memoryapp.engine.memory import parse_document_id
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies.react.statements import borne_out, terms_of
from memoryapp.engine.text.lexical import fold, words
from memoryapp.engine.text.sentences import sentences
from memoryapp.models import Run
from memoryapp.runs import followers
from memoryapp.runs.recall_document import messages_of

LONGEST = 100_000
MOST_SENTENCES = 200
QUOTED_WORDS = 5
# A sentence is compared with so many consecutive messages.
_AROUND = 3
# A sentence that says less than this beyond the question is of nobody.
_LEAST_TERMS = 2
# A topic that bears a sentence out less than another one by more than this is not its source.
_BEHIND = 0.1
# The least share of its words for which a sentence is credited to a topic.
_LEAST_SHARE = 0.6
_LONGEST_SENTENCE = 300
# Outcomes in which no model failed.
_MEANT = ("", "disabled", "no_candidates")

How = Literal["quoted", "reworded", "named"]


class DeliveryError(ValueError):
    """An answer that cannot be compared; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Use:
    """A chosen item that the answer uses: ``how``, and in which ``sentence`` of it."""

    id: str
    how: How
    sentence: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The chosen items that an answer uses, in the order in which they were chosen, and those it does not."""

    uses: tuple[Use, ...]
    unused: tuple[str, ...]

    @property
    def used(self) -> tuple[str, ...]:
        return tuple(use.id for use in self.uses)


def recall_outcome(finished: RunFinished) -> Literal["found", "unsure", "nothing", "failed"]:
    """Whether the recall found something, only what may be related, nothing, or failed, whatever was used instead."""
    if finished.fallback not in _MEANT:
        return "failed"
    if finished.selected or finished.people or finished.artifacts:
        return "found"
    return "unsure" if finished.unsure else "nothing"


def deliver(run: Run, text: str) -> Delivered:
    """Compares the assistant's answer with what the run chose, and stores both; a later answer takes its place. Raises
    DeliveryError for a run that has not ended and for an empty answer."""
    answer = storable(text).strip()[:LONGEST]
    outline = Outline.of([item.event for item in followers.stored(run.pk)])
    if outline.finished is None:
        raise DeliveryError(_("This run has not ended; send what the assistant said when it has."))
    if not answer:
        raise DeliveryError(_("The answer is empty."))
    written = sentences(answer)[:MOST_SENTENCES]
    topics = _texts_of(run, outline.finished, outline.found)
    uses = {use.id: use for use in (*_reworded(written, topics, run.query), *_quoted(written, topics))}
    items = (*outline.found.people, *outline.found.artifacts) if outline.found else ()
    chosen_items = {each.id for each in (*outline.finished.people, *outline.finished.artifacts)}
    uses |= {use.id: use for use in _named(written, [item for item in items if item.id in chosen_items])}
    chosen = [each.id for each in (*outline.finished.selected, *outline.finished.people, *outline.finished.artifacts)]
    found = Delivered(tuple(uses[id] for id in chosen if id in uses), tuple(id for id in chosen if id not in uses))
    run.delivered = {"text": answer, "at": timezone.now().isoformat(), **asdict(found)}
    run.save(update_fields=["delivered"])
    return found


def _texts_of(run: Run, finished: RunFinished, found: CandidatesFound | None) -> Mapping[str, list[str]]:
    """What the context says of each chosen topic or active session: its summary, then its messages, oldest first."""
    ranked = found.candidates if found else ()
    summaries = {each.id: each.summary for each in ranked}
    texts_of_documents = {each.id: each.line for each in ranked if parse_document_id(each.id)}
    ids = [each.id for each in finished.selected]
    texts = {id: [summaries[id]] if id in summaries else [] for id in ids}
    for id in texts_of_documents.keys() & texts.keys():
        texts[id].append(texts_of_documents[id])
    for id, messages in messages_of(run, finished, found).items():
        texts[id] += [message.text for message in messages]
    return texts


def _quoted(written: Sequence[str], topics: Mapping[str, Sequence[str]]) -> Iterator[Use]:
    """The first sentence that repeats five words in a row of a message of each topic."""
    for id, texts in topics.items():
        known = {run for text in texts for run in _runs(text)}
        for sentence in written:
            if not known.isdisjoint(_runs(sentence)):
                yield Use(id, "quoted", sentence[:_LONGEST_SENTENCE])
                break


def _runs(text: str) -> set[tuple[str, ...]]:
    found = words(fold(text))
    return {tuple(found[at : at + QUOTED_WORDS]) for at in range(len(found) - QUOTED_WORDS + 1)}


def _reworded(written: Sequence[str], topics: Mapping[str, Sequence[str]], query: str) -> Iterator[Use]:
    """For each topic a sentence that it bears out at least as well as the other topics do."""
    asked = terms_of(query)
    windows = {id: list(_windows(texts)) for id, texts in topics.items()}
    for sentence in reversed(written):
        telling = terms_of(sentence) - asked
        if len(telling) < _LEAST_TERMS:
            continue
        scores = {id: _best(sentence, telling, each) for id, each in windows.items()}
        best = max(scores.values(), default=0.0)
        for id, score in scores.items():
            if score >= max(_LEAST_SHARE, best - _BEHIND):
                yield Use(id, "reworded", sentence[:_LONGEST_SENTENCE])


def _windows(texts: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for at in range(max(len(texts) - _AROUND + 1, 1)):
        window = "\n".join(texts[at : at + _AROUND])
        yield window, terms_of(window)


def _best(sentence: str, telling: frozenset[str], windows: Iterable[tuple[str, frozenset[str]]]) -> float:
    """How far the best of the windows bears the sentence out; those with too few of its words are not read."""
    near = (text for text, terms in windows if len(telling & terms) >= _LEAST_SHARE * len(telling))
    return max((borne_out(sentence, text) for text in near), default=0.0)


def _named(written: Sequence[str], items: Sequence[ItemCandidate]) -> Iterator[Use]:
    for item in items:
        name = words(fold(item.name))
        for sentence in written:
            spoken = words(fold(sentence))
            if name and any(spoken[at : at + len(name)] == name for at in range(len(spoken))):
                yield Use(item.id, "named", sentence[:_LONGEST_SENTENCE])
                break
