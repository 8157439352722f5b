"""The tool ``verify``: whether the sources that a statement cites say what it states. One question to a model, the one
that wrote the answer or another, judges all its statements. Beside it, and alone where no model judged, words are
compared: no answer of a model makes a statement verified that the messages contradict."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memoryapp.engine.agents.verifier import judge_statements
from memoryapp.engine.budget import Deadline
from memoryapp.engine.chat.protocol import Chat
from memoryapp.engine.emit import Emit
from memoryapp.engine.prompts.prompt import Language, PromptBook
from memoryapp.engine.strategies.react.composing import Composing
from memoryapp.engine.strategies.react.searching import Document
from memoryapp.engine.strategies.react.statements import Statement
from memoryapp.engine.strategies.react.toolbox import ToolFailed, VerifyInput, VerifyOutput
from memoryapp.engine.text.lines import one_line
from memoryapp.engine.text.standing import Standing, stands_in

# What words alone say for certain.
_CONFIDENCE = {"in_words": 1.0, "contradicted": 0.0}
LONGEST_CLAIM = 1_000
_SNIPPET_CHARS = 200


@dataclass(slots=True)
class Verifying:
    """The tool over the sources of one run, and what the ``judge_chat`` has judged, by statement."""

    composing: Composing
    prompts: PromptBook
    language: Language
    deadline: Deadline
    most_seconds: float
    judge_chat: Chat | None = None
    judged: dict[str, tuple[int, ...]] = field(default_factory=dict)

    async def judge(self, statements: Sequence[Statement], emit: Emit) -> None:
        """Asks the model once; when it fails, nothing is judged."""
        seconds = min(self.most_seconds, self.deadline.left)
        if self.judge_chat is None or not statements or seconds <= 0:
            return
        claims = [each.text[:LONGEST_CLAIM] for each in statements]
        ask = judge_statements(
            claims,
            self.composing.texts,
            chat=self.judge_chat,
            seconds=seconds,
            prompts=self.prompts,
            language=self.language,
        )
        await ask.complete(emit)
        self.judged = {claims[place]: numbers for place, numbers in (ask.answer or {}).items()}

    def question(self, statement: Statement, top_k: int) -> VerifyInput:
        return VerifyInput(claim=statement.text[:LONGEST_CLAIM], cited=statement.numbers, top_k=top_k)

    async def verify(self, asked: VerifyInput, emit: Emit) -> VerifyOutput:
        """How far the cited sources, or where none is cited all of them, say what the claim states."""
        sources = self.composing.sources
        if not sources:
            raise ToolFailed("no_documents")
        cited = [number for number in asked.cited if number in sources] or list(sources)
        standing = _standing(asked.claim, [sources[number] for number in cited])
        judged = self.judged.get(asked.claim)
        says = list(cited) if standing.grade == "in_words" else []
        if judged is not None:
            says = [number for number in judged if number in cited] or list(judged)
        others = {n: _standing(asked.claim, [sources[n]]) for n in sources if n not in cited}
        if judged is None and not says:
            says = [n for n, other in others.items() if other.grade == "in_words"][:1]
        if standing.grade == "differs" and all(other.grade != "in_words" for other in others.values()):
            # A source that speaks more of the same, cited or not, may say the opposite.
            opposed = (each for each in others.values() if each.grade == "contradicted" and each.found > standing.found)
            standing = next(opposed, standing)
        is_misquoted = bool(says) and not set(says) & set(cited)
        if is_misquoted:
            standing = _standing(asked.claim, [sources[number] for number in says])
        is_so = bool(says) and standing.grade != "contradicted"
        return VerifyOutput(
            verified=is_so and not is_misquoted,
            confidence=_CONFIDENCE.get(standing.grade) if judged is None else float(is_so),
            evidence=tuple(one_line(sources[n].text[:_SNIPPET_CHARS]) for n in (says or cited)[: asked.top_k]),
            documents_found=len(says),
            sources=tuple(says),
            misquoted=is_misquoted and is_so,
            by="words" if judged is None else "model",
            found=standing.found,
            support=standing.grade,
            missing=standing.missing,
            turned=standing.turned,
        )


def _standing(claim: str, documents: Sequence[Document]) -> Standing:
    messages = [message for document in documents for message in document.messages]
    return stands_in(
        claim,
        [message.text for message in messages],
        known=[name for each in messages for name in (each.author, each.username, each.forwarded_from)],
        times=[message.sent_at for message in messages],
    )
