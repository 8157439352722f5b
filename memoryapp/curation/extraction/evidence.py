"""Whether a finding rests on what was said: each telling word stands in its messages, said by a person, about the one
it is said of. What does not waits for a person, and so does what nobody wants to learn afterwards: health, identity,
what is always known, the end of a fact, another name of a known person."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memoryapp.curation.extraction.statements import is_about_health, statement
from memoryapp.engine.agents.summary_checks import form_fault
from memoryapp.engine.memory import MessageContent
from memoryapp.engine.text.lexical import normal, words
from memoryapp.engine.text.names import forms
from memoryapp.engine.text.standing import Standing, stands_in
from memoryapp.memory.content import content
from memoryapp.models import Finding, KnowledgeEdit, Message, Person

Doubt = Literal[
    "", "form", "assistant", "unsaid", "contradicted", "other", "health", "identity", "important", "end", "name"
]

# Messages with these roles are written by people.
PEOPLES_ROLES = ("user", "peer")
# A fact of this importance stands in every prompt.
ALWAYS_KNOWN = 90
# Whom a model calls a person although nobody of this name was spoken of.
_NOBODY = frozenset(
    ("user", "assistant", "bot", "ai", "model", "i", "me", "you", "he", "she", "system", "human", "пользователь")
    + ("ассистент", "бот", "я", "ты", "он", "она")
)


@dataclass(frozen=True, slots=True)
class TopicEvidence:
    """The messages of a topic by number."""

    messages: Mapping[int, MessageContent]

    def doubt_about_fact(self, values: Mapping[str, Any], numbers: Iterable[int]) -> tuple[Doubt, Standing]:
        """Why a person must decide about a fact with these values, empty if its messages say it; and how it stands in
        them."""
        claim = str(values.get("content", ""))
        said = self._said(numbers)
        # "I" of another person is not the chat user, but the one whom the fact names.
        by_user = [message for message in said if message.role == "user"]
        by_named = [message for message in said if message.role == "peer" and _names(claim, message.author)]
        whole, *parts = (_compared(claim, each, about_speaker=True) for each in (said, by_user, by_named))
        standing = next((part for part in parts if part.grade == "in_words"), whole)
        if form_fault(claim, list(self.messages.values())):
            return "form", standing
        if not said:
            return "assistant", standing
        if standing.grade != "in_words":
            return ("contradicted" if standing.grade == "contradicted" else "unsaid"), standing
        if standing not in parts:
            return "other", standing
        return _weight_of(values, claim), standing

    def doubt_about_person(
        self, values: Mapping[str, Any], numbers: Iterable[int], known_as: Sequence[str] = ()
    ) -> tuple[Doubt, Standing]:
        """The same of a person; of one who is ``known_as`` these names the values are those that would be added."""
        said = self._said(numbers)
        names = [
            str(name)
            for name in (values.get("display_name"), *values.get("aliases", ()), values.get("username"))
            if name
        ]
        bio = str(values.get("bio") or "")
        everything = list(self.messages.values())
        standing = _compared(". ".join((*names, bio)), said)
        if any(form_fault(text, everything) for text in (*names, bio) if text):
            return "form", standing
        if not said:
            return "assistant", standing
        if any(normal(name).strip() in _NOBODY for name in names):
            return "name", standing
        lacking = [name for name in names if not _is_said(name, said)]
        # A biography is told of somebody: beside one of the names.
        tried = [_compared(f"{name} {bio}", said) for name in (*known_as, *names) if bio]
        told = next((each for each in tried if each.grade == "in_words"), tried[0] if tried else Standing("in_words"))
        if lacking or told.grade != "in_words":
            grade = told.grade if told.grade == "contradicted" else "differs"
            return "unsaid", Standing(grade, told.found, (*lacking, *told.missing), told.turned)
        return ("name" if known_as and names else ""), standing

    def _said(self, numbers: Iterable[int]) -> list[MessageContent]:
        """The messages that people wrote, in order."""
        cited = [self.messages[number] for number in numbers if number in self.messages]
        return [message for message in cited if message.role in PEOPLES_ROLES]


def doubt_of(finding: Finding, rows: Iterable[Message], target: Any = None) -> tuple[Doubt, Standing]:
    """Why a person must decide about this finding with these messages, which would change ``target``, and how it stands
    in them; empty if only because of what is known already, or because a person reviews all."""
    evidence = TopicEvidence({row.pk: content(row) for row in rows})
    if finding.noun == KnowledgeEdit.Noun.FACT:
        return evidence.doubt_about_fact(finding.values, evidence.messages)
    names = [target.display_name, *target.aliases] if isinstance(target, Person) else ()
    return evidence.doubt_about_person(finding.values, evidence.messages, names)


def _weight_of(values: Mapping[str, Any], claim: str) -> Doubt:
    texts = [str(values.get(name, "")) for name in ("relation", "category")]
    if is_about_health(*texts, claim):
        return "health"
    if values.get("type") == "identity":
        return "identity"
    if int(values.get("importance") or 0) >= ALWAYS_KNOWN:
        return "important"
    return "end" if statement(claim).is_denied else ""


def _compared(text: str, said: Sequence[MessageContent], *, about_speaker: bool = False) -> Standing:
    return stands_in(
        text,
        [message.text for message in said],
        known=[name for each in said for name in (each.author, each.username, each.forwarded_from)],
        times=[message.sent_at for message in said],
        about_speaker=about_speaker,
    )


def _is_said(name: str, said: Sequence[MessageContent]) -> bool:
    """Whether every word of a name stands in the messages, or in the names of their authors."""
    texts = [text for each in said for text in (each.text, each.author, each.username, each.forwarded_from)]
    spoken = {normal(word) for text in texts for word in words(text)}
    return all(
        not forms(word).isdisjoint(spoken) or any(normal(word) in forms(each) for each in spoken)
        for word in words(name)
    )


def _names(claim: str, author: str) -> bool:
    asked = {normal(word) for word in words(claim)}
    return any(asked & forms(word) for word in words(author))
