"""Selects the sentence that answers a question best, without a model.

The value of a sentence is the share of the question's words that it contains, by their rarity in the memory, plus a
part of that share of its source. It is higher if the sentence contains the kind of thing that is asked for, or replies
to a message that asks the same question, and lower if it asks itself, because a question answers nothing. The shares of
answerable questions of which a quoted sentence is in a message of the evidence, on the demo memory (44 Russian
questions, 45 English, 40 older ones) and of 231 of the development set:

    words counted, as before              .14  .24  .33  .50
    words by their rarity                 .25  .22  .33  .51
    and the kind of answer                .27  .29  .30  .51
    and replies to what asks the same     .27  .29  .30  .56
    and some of what the source holds     .25  .29  .30  .57

Read one by one, 9 of the Russian sets of quotations and 9 of the English ones contain the complete answer, 4 and 8
before. The last row serves the coverage, which counts the quoted sources: without it 18, 36 and 5 % of the answerable
questions were refused on the demo memory, with it 16, 31 and 3 % (before 16, 29 and 3 %). The constants were chosen
with all these questions in view, among some forty sets.

Tried, and not better: the score of the passage (Russian .18), the words of the whole message or of those around it,
less weight for short sentences, the best sentences of all topics instead of one of each. Sentences were not compared
with the question in meaning: at 7.5 ms each this takes longer than the rest of the run.

Quotations without the kind of thing that is asked for do not indicate a question without an answer: the area under the
curve is .56 in Russian, .55 in English, .56 for questions of other conversations and .59 for those about something
else; added to the coverage, it changes the area of that from .588 to .606, .589 to .614, .924 to .924 and .967 to .966.
Of the runs that answered, it would have softened 20 of 206 answers to answerable questions, and 8 of 52 to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memoryapp.engine.offline.answer_kinds import holds, kind_asked_for
from memoryapp.engine.strategies.react.coverage import covered_share, terms_of
from memoryapp.engine.strategies.react.pool import Document
from memoryapp.engine.strategies.react.statements import Place, quotable

# What is added for the kind, a reply and the source; the last is the part of its share that a question keeps.
_KIND, _REPLY, _SOURCE, _ASKING_SHARE = 0.25, 0.4, 0.4, 0.25


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """A question, the rarity of each of its terms, and the kind of thing that it asks for, empty if unknown."""

    question: str
    weights: Mapping[str, float]
    kind: str

    @classmethod
    def of(cls, question: str, weights: Mapping[str, float]) -> QuestionTerms:
        return cls(question, weights, kind_asked_for(question))

    def share(self, text: str) -> float:
        """Returns the share of the question's terms, by their rarity, that a text contains."""
        return covered_share(self.weights, terms_of(text))

    def best(self, document: Document) -> Place:
        """Returns the place of the best sentence of a document; of equal ones the first."""
        worth = dict(self._worth(document))
        return max(worth, key=lambda found: worth[found])

    def _worth(self, document: Document) -> Iterator[tuple[Place, float]]:
        texts = {message.id: message.text for message in document.messages}
        of_source = _SOURCE * self.share(document.text)
        replying = dict(zip(list(texts)[1:], texts.values(), strict=False))
        for number, start, end in quotable(document):
            before, sentence = replying.get(number, ""), texts[number][start:end]
            value = of_source + self.share(sentence) * (_ASKING_SHARE if _asks(sentence) else 1.0)
            value += _REPLY * self.share(before) if _asks(before) else 0.0
            value += _KIND if self.kind and holds(self.kind, sentence, self.question) else 0.0
            yield (number, start, end), value


def _asks(text: str) -> bool:
    return text.rstrip().endswith("?")
