"""A memory as a retriever of LangChain; needs the extra ``langchain``."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import Field

from mnemoscope_client.aio import AsyncMnemoscope
from mnemoscope_client.client import Mnemoscope
from mnemoscope_client.errors import MnemoscopeError
from mnemoscope_client.shapes import Recalled, RecalledTopic, StoredMessage


class MnemoscopeRetriever(BaseRetriever):
    """Documents of what a recall chooses, best first: one for each topic, with the passages that answer.

    A document's ``id`` is that of the topic. Its metadata has ``topic``, ``messages`` (their ids), ``rank``, ``score``,
    ``reason``, ``excerpt``, ``summary``, ``first_at``, ``last_at``, and of the run its id ``run`` and its page
    ``url``. ``client`` is used by ``invoke``, ``async_client`` by ``ainvoke``; without the latter, ``ainvoke`` uses
    ``client`` in a thread. ``user=`` in a call names another chat user than that of the client.

    Raises MnemoscopeError.
    """

    client: Mnemoscope | None = None
    async_client: AsyncMnemoscope | None = None
    user: str | None = None
    strategy: str | None = None
    parameters: Mapping[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, user: str | None = None
    ) -> list[Document]:
        if self.client is None:
            raise MnemoscopeError("This retriever has no client for calls without an event loop.")
        return _documents(self.client.recall(query, **self._options(user)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, user: str | None = None
    ) -> list[Document]:
        if self.async_client is None:
            waits = run_manager.get_sync()
            return await run_in_executor(None, self._get_relevant_documents, query, run_manager=waits, user=user)
        return _documents(await self.async_client.recall(query, **self._options(user)))

    def _options(self, user: str | None) -> dict[str, Any]:
        return {
            "user": user or self.user,
            "strategy": self.strategy,
            "parameters": self.parameters,
            "include": ["passages"],
        }


def _documents(found: Recalled) -> list[Document]:
    return [_document(found, topic) for topic in found.topics if topic.passages]


def _document(found: Recalled, topic: RecalledTopic) -> Document:
    passages = topic.passages or ()
    kept = topic.model_dump(
        mode="json", include={"rank", "score", "reason", "excerpt", "summary", "first_at", "last_at"}
    )
    of_run = {"run": str(found.run), "url": found.url}
    named = {"topic": topic.id, "messages": [message.id for message in passages]}
    return Document(id=topic.id, page_content=_text(passages), metadata={**named, **kept, **of_run})


def _text(messages: Sequence[StoredMessage]) -> str:
    return "\n".join(
        f"{message.author or message.role} ({message.ts:%Y-%m-%d %H:%M}): {message.text}" for message in messages
    )
