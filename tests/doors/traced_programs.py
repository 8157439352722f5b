"""Programs of others, instrumented by the real libraries: a chain, a graph, and clients of a chat model. Each sends its
spans with the exporter of OpenTelemetry. Only the models are scripted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import openai
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import END, START, MessagesState, StateGraph
from openinference.instrumentation import using_user
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import Compression, OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import InputMessage, OutputMessage, RetrievalDocument, TextPart

QUERY = "Who looks after the bees?"
ANSWER = "Vera looks after the bees."
MEMORIES = (
    ("bees", "Vera keeps nine hives of bees behind the barn.", 0.91),
    ("barn", "The barn was painted red last spring.", 0.42),
    ("honey", "Honey from the hives is sold in June.", 0.77),
)


class OtherMemory(BaseRetriever):
    """A memory that is not this one."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        assert query
        return [Document(page_content=text, metadata={"id": id, "score": score}) for id, text, score in MEMORIES]


@contextmanager
def exporting(url: str, token: str, name: str, **headers: str) -> Iterator[TracerProvider]:
    """A program's tracing: everything is sent when the body ends."""
    exporter = OTLPSpanExporter(
        f"{url}/v1/otlp/v1/traces",
        headers={"Authorization": f"Bearer {token}", **headers},
        compression=Compression.Gzip,
        timeout=60,
    )
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield provider
    finally:
        provider.shutdown()


def _texts(documents: Sequence[Document]) -> str:
    return "\n".join(each.page_content for each in documents if each.metadata["id"] != "barn")


def _model(*replies: AIMessage) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(replies))


def chain(provider: TracerProvider, user: str = "") -> str:
    """LangChain: a retriever, and a model that is sent two of the three documents."""
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        prompt = ChatPromptTemplate.from_messages([("system", "Known:\n{known}"), ("user", "{question}")])
        known = OtherMemory() | RunnableLambda(_texts)
        usage: Any = {"input_tokens": 40, "output_tokens": 7, "total_tokens": 47}
        model = _model(AIMessage(ANSWER, usage_metadata=usage))
        whole = {"known": known, "question": RunnablePassthrough()} | prompt | model
        with using_user(user):
            return str(whole.invoke(QUERY).content)
    finally:
        instrumentor.uninstrument()


def graph(provider: TracerProvider, user: str) -> str:
    """LangGraph: an agent whose model calls a search, reads what it found, and answers."""
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    call: Any = {"name": "search_notes", "args": {"query": "bees"}, "id": "call_1"}
    model = _model(AIMessage("", tool_calls=[call]), AIMessage(ANSWER))

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def search(state: MessagesState) -> dict[str, Any]:
        found = OtherMemory().invoke("bees")
        return {"messages": [("user", _texts(found))]}

    def onward(state: MessagesState) -> str:
        return "search" if getattr(state["messages"][-1], "tool_calls", None) else END

    try:
        built = StateGraph(MessagesState)
        built.add_node("think", think)
        built.add_node("search", search)
        built.add_edge(START, "think")
        built.add_conditional_edges("think", onward)
        built.add_edge("search", "think")
        with using_user(user):
            ended = built.compile().invoke({"messages": [("user", QUERY)]})
        return str(ended["messages"][-1].content)
    finally:
        instrumentor.uninstrument()


def client(provider: TracerProvider, base_url: str, model: str) -> str:
    """OpenAI's SDK."""
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUERY}]
        sdk = openai.OpenAI(base_url=base_url, api_key="sk-scripted", max_retries=0)
        return str(sdk.chat.completions.create(model=model, messages=messages).choices[0].message.content)
    finally:
        instrumentor.uninstrument()


def agent(provider: TracerProvider) -> None:
    """An agent that reports by OpenTelemetry's own conventions: a search, a tool, and a model, in no span of its own.
    The library that instrumentations of OpenTelemetry write their spans with is used directly: the release of the one
    for OpenAI's SDK calls functions that this library does not have any more."""
    handler = TelemetryHandler(tracer_provider=provider)
    with provider.get_tracer("agent 1").start_as_current_span("answer"):
        with handler.retrieval(data_source_id="notes", provider="acme") as search:
            search.query_text = QUERY
            search.documents = [RetrievalDocument(id=id, score=score) for id, _text, score in MEMORIES]
        with handler.tool("get_weather") as tool:
            tool.arguments = {"city": "Oslo"}
            tool.tool_result = "rain"
        with handler.inference("acme", request_model="acme-small") as call:
            call.system_instruction = [TextPart(content="Be brief.")]
            call.input_messages = [InputMessage(role="user", parts=[TextPart(content=QUERY)])]
            call.output_messages = [OutputMessage(role="assistant", parts=[TextPart(content=ANSWER)])]
            call.response_model_name, call.input_tokens, call.output_tokens = "acme-small-2", 31, 6
            call.finish_reasons = ["stop"]
