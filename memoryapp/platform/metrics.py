"""The metrics for Prometheus, each counted in one place.

A run is counted once, from its events, when the last one is stored. The values of labels come from short lists in this
program, never from names, texts or a provider's words; chat users appear only as numbers, and only if METRICS_BY_OWNER
is set. Processes that ``up`` starts write their counts into files in one folder, which the web process adds up; without
the folder a process reports only its own counts."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from django.conf import settings
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import InfoMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from memoryapp.engine.budget import Usage
from memoryapp.engine.events import (
    CandidatesFound,
    Event,
    ModelReplied,
    QueryEnriched,
    Retried,
    RunFinished,
    SteppedDown,
)
from memoryapp.engine.outline import Outline
from memoryapp.engine.strategies import needs_model
from memoryapp.platform.environment import release

FOLDER = "PROMETHEUS_MULTIPROC_DIR"

SHORT = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
LONG = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120)
FEW = (0, 1, 2, 3, 5, 10, 15, 20, 30, 50)
MANY = (0, 1, 5, 10, 20, 50, 100, 200)
CHARS = (500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000)

Kind = TypeVar("Kind", bound=MetricWrapperBase)

_OWNER = ("owner",) if settings.METRICS_BY_OWNER else ()


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, (*labels, *_OWNER), namespace="mnemoscope")


def _histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
    return Histogram(name, text, (*labels, *_OWNER), namespace="mnemoscope", buckets=buckets)


runs = _counter("runs", "Runs that ended.", "strategy")
reranker_duration = _histogram(
    "reranker_duration_seconds", "The reranker alone, from its first turn to its choice.", LONG
)
reranker_tool_calls = _counter("reranker_tool_calls", "Calls of the tool that reads topics.")
reranker_candidates_input = _histogram("reranker_candidates_input", "Candidate topics the model was shown.", MANY)
reranker_candidates_output = _histogram("reranker_candidates_output", "Topics that were chosen.", FEW)
reranker_cost = _counter("reranker_cost_usd", "What reranking cost, in US dollars.")
reranker_fallback = _counter("reranker_fallback", "Runs in which the model did not choose, by reason.", "reason")
hallucinated_ids = _counter("reranker_hallucinated_ids", "Ids the model gave that were no candidates.")

topics_extracted = _counter("topics_extracted", "Topics cut from sessions.")
topics_size = _histogram("topics_size_chars", "Characters of a topic when it was cut.", CHARS)
topics_coverage_gaps = _counter("topics_coverage_gaps", "Messages the splitter left out, put into topics of their own.")
topics_merged = _counter("topics_merged", "Topics that a merge took the place of.")
topics_consolidation_candidates = _histogram("topics_consolidation_candidates", "Topics like one looked at.", FEW)
topics_search_duration = _histogram("topics_search_duration_seconds", "From the enriched query to candidates.", SHORT)
topics_search_results = _histogram("topics_search_results", "Topics that search ranked.", MANY)
topics_reranker_selected = _histogram("topics_reranker_selected", "Topics that the model chose, where it did.", FEW)
splitter_duration = _histogram("splitter_duration_seconds", "Cutting one session into topics.", LONG)
merger_duration = _histogram("merger_duration_seconds", "Asking what merged topics should be.", LONG)
archivist_duration = _histogram("archivist_duration_seconds", "Reading one topic for facts and people.", LONG)
findings = _counter("findings", "Facts and people found, by what became of them at once.", "noun", "outcome")

llm_requests = _counter("llm_requests", "Model calls, retries of one call not counted.", "agent", "outcome")
llm_tokens = _counter("llm_tokens", "Tokens as billed.", "agent", "direction")
llm_cost = _counter("llm_cost_usd", "What model calls cost, in US dollars, failed ones too.", "agent")
llm_retries = _counter("llm_retries", "Tries after a passing failure.")
llm_stepped_down = _counter("llm_stepped_down", "Capabilities given up, by which.", "capability")

embedding_texts = Counter("embedding_texts", "Texts made into vectors.", ("purpose",), namespace="mnemoscope")
embedding_failures = Counter("embedding_failures", "Requests without vectors.", ("purpose",), namespace="mnemoscope")
embedding_duration = Histogram(
    "embedding_duration_seconds", "One batch of texts.", namespace="mnemoscope", buckets=LONG
)
search_cache = Counter("search_cache", "Searches that asked the cache.", ("outcome",), namespace="mnemoscope")
webhook_attempts = Counter("webhook_attempts", "Attempts to deliver.", ("outcome",), namespace="mnemoscope")
http_requests = Counter("http_requests", "Requests answered.", ("route", "method", "status"), namespace="mnemoscope")
http_duration = Histogram(
    "http_request_duration_seconds", "Until an answer begins.", ("route",), namespace="mnemoscope", buckets=SHORT
)
viewers = Gauge("websocket_viewers", "Run pages that are open.", namespace="mnemoscope", multiprocess_mode="livesum")


def run_finished(events: Sequence[Event], owner: int) -> None:
    """Counts a run that has just ended, whatever its outcome; ``events`` are all of its events."""
    outline = Outline.of(events)
    strategy = outline.started.strategy if outline.started else "unknown"
    _of(runs, owner, strategy=strategy).inc()
    for event in events:
        _count(event, owner)
    if outline.finished and needs_model(strategy):
        _count_rerank(outline, outline.finished, owner)


def _count(event: Event, owner: int) -> None:
    match event:
        case CandidatesFound():
            _of(topics_search_duration, owner).observe(event.seconds)
            _of(topics_search_results, owner).observe(len(event.candidates))
            (embedding_failures if event.by_words_alone else embedding_texts).labels(purpose="query").inc()
        case QueryEnriched() if event.model:
            _count_call(event, "enricher", _enriched(event), owner)
        case ModelReplied():
            _count_call(event, "reranker", "failed" if event.error else "answered", owner)
        case Retried():
            _of(llm_retries, owner).inc()
        case SteppedDown():
            _of(llm_stepped_down, owner, capability=event.capability).inc()


def _enriched(event: QueryEnriched) -> str:
    """Returns the outcome of the call; a model whose line was not used, because it is unrelated, has answered."""
    return "answered" if event.note.partition(":")[0] in {"", "unrelated", "guessed"} else "failed"


def _count_call(event: QueryEnriched | ModelReplied, agent: str, outcome: str, owner: int) -> None:
    model_called(agent, outcome, Usage(event.input_tokens, event.output_tokens, event.cost_usd), owner)


def _count_rerank(outline: Outline, finished: RunFinished, owner: int) -> None:
    replies, found = outline.replies, outline.found
    if replies:
        # Of a run that was cut short only the durations of its turns are known.
        _of(reranker_duration, owner).observe(finished.rerank_seconds or sum(reply.seconds for reply in replies))
    _of(reranker_tool_calls, owner).inc(sum(len(reply.tool_calls) for reply in replies))
    _of(reranker_cost, owner).inc(max(sum(reply.cost_usd for reply in replies), 0.0))
    _of(reranker_candidates_input, owner).observe(len(found.shown) if found else 0)
    _of(reranker_candidates_output, owner).observe(len(finished.selected))
    _of(hallucinated_ids, owner).inc(len(finished.hallucinated))
    if finished.fallback:
        _of(reranker_fallback, owner, reason=finished.fallback).inc()
    else:
        _of(topics_reranker_selected, owner).observe(len(finished.selected))


def archived(sizes: Iterable[int], owner: int, *, gaps: int = 0) -> None:
    """Counts topics cut from a session, with their ``sizes`` in characters, and ``gaps``, the messages that the
    splitter left out."""
    for size in sizes:
        _of(topics_extracted, owner).inc()
        _of(topics_size, owner).observe(size)
    _of(topics_coverage_gaps, owner).inc(gaps)


def merged(count: int, owner: int) -> None:
    """Counts ``count`` topics that became one."""
    _of(topics_merged, owner).inc(count)


def compared(alike: Iterable[int], owner: int) -> None:
    """Counts topics that were compared with all others; ``alike`` has the number of similar topics for each."""
    for count in alike:
        _of(topics_consolidation_candidates, owner).observe(count)


@contextmanager
def splitting(owner: int) -> Iterator[None]:
    """Measures the cutting of one session."""
    with _of(splitter_duration, owner).time():
        yield


@contextmanager
def merging(owner: int) -> Iterator[None]:
    """Measures a question to a model about merged topics."""
    with _of(merger_duration, owner).time():
        yield


@contextmanager
def extracting(owner: int) -> Iterator[None]:
    """Measures the extraction of facts and people from one topic."""
    with _of(archivist_duration, owner).time():
        yield


def found(noun: str, outcome: str, owner: int) -> None:
    """Counts a fact or person that was found: ``used`` at once, ``waiting`` for a person, or ``known`` already."""
    _of(findings, owner, noun=noun, outcome=outcome).inc()


def model_called(agent: str, outcome: str, spent: Usage, owner: int) -> None:
    """Counts one call of a model; ``agent`` and ``outcome`` come from short lists in this program."""
    _of(llm_requests, owner, agent=agent, outcome=outcome).inc()
    _of(llm_tokens, owner, agent=agent, direction="input").inc(max(spent.input_tokens, 0))
    _of(llm_tokens, owner, agent=agent, direction="output").inc(max(spent.output_tokens, 0))
    _of(llm_cost, owner, agent=agent).inc(max(spent.cost_usd, 0.0))


@contextmanager
def embedding(texts: int) -> Iterator[None]:
    """Measures one batch of the memory's texts; an exception inside counts as a failure."""
    began = perf_counter()
    try:
        yield
    except BaseException:
        embedding_failures.labels(purpose="memory").inc()
        raise
    embedding_texts.labels(purpose="memory").inc(texts)
    embedding_duration.observe(perf_counter() - began)


def exposition(*read: Collector) -> bytes:
    """Returns all metrics in the text format of Prometheus, with those that ``read`` looks up now. Raises whatever
    these raise, such as DatabaseError."""
    registry = CollectorRegistry()
    for collector in (*read, ProcessCollectors()):
        registry.register(collector)
    return generate_latest(counted()) + generate_latest(registry)


def counted() -> CollectorRegistry:
    """Returns the counts of all processes that share a folder; without one, those of this process."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return REGISTRY
    _drop_dead_gauges(Path(folder))
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return together


class ProcessCollectors(Collector):
    """What is running: the version, and memory, processor time and open files of each process of this machine that
    counts into the folder; without one, of this process."""

    def collect(self) -> Iterator[Metric]:
        """Yields the families of the library's collector of processes, with a label for the process."""
        yield InfoMetricFamily("mnemoscope_build", "The program.", {"version": release()})
        together: dict[str, Metric] = {}
        for pid in _counting():
            number = str(pid)
            for family in ProcessCollector("mnemoscope", partial(int, pid), registry=None).collect():
                known = together.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    known.add_sample(sample.name, {"pid": number}, sample.value)
        yield from together.values()


def _counting() -> list[int]:
    folder = os.environ.get(FOLDER)
    if not folder:
        return [os.getpid()]
    return sorted({int(file.stem.rpartition("_")[2]) for file in Path(folder).glob("*_*.db")})


def _drop_dead_gauges(folder: Path) -> None:
    """Removes the gauges of processes that have ended; their counters stay."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except PermissionError:
            continue
        except ProcessLookupError:
            # Another web process may have removed it.
            with suppress(FileNotFoundError):
                mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]


def _of(metric: Kind, owner: int, **labels: str) -> Kind:
    named = {**labels, "owner": str(owner)} if _OWNER else labels
    return metric.labels(**named) if named else metric
