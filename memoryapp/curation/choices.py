"""Asks the embedded scorer again what it chooses for past runs, of the topics as they are and as a change leaves them.

The scorer is the only chooser that can be asked twice: it is here, costs nothing, and says the same of the same topics.
It is shown what a search would find, and reads the messages of the topics that it asks for. People, files and active
sessions are left out.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from asgiref.sync import async_to_sync, sync_to_async

from memoryapp.curation.past_runs import PastRun
from memoryapp.curation.rescoring import Assignment, Rank
from memoryapp.engine.candidates import Candidate
from memoryapp.engine.emit import unheard
from memoryapp.engine.memory import TopicContent, TopicDraft, parse_topic_id, topic_id
from memoryapp.engine.offline.scorer import OfflineChat
from memoryapp.engine.prompts.rerank import RerankRequest
from memoryapp.engine.strategies.flash import rerank
from memoryapp.engine.text.lines import candidate_line
from memoryapp.memory import content as reading
from memoryapp.models import Message, Topic

# Different questions, of the latest runs; each is asked twice and takes at most a tenth of a second.
MOST_ASKED = 20
# The scorer waits for nothing, so on a slow machine it is not late either.
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class TwoChoices:
    """The numbers of the topics that the scorer chooses for a run, of today's and of those after the change."""

    today: frozenset[int]
    then: frozenset[int]


class AskedAgain:
    """The scorer over the topics of both assignments; a number means the same topic in each. ``put`` are the new
    ones."""

    def __init__(self, owner_id: int, today: Assignment, then: Assignment, put: Mapping[int, TopicDraft]) -> None:
        self.asked = 0
        self.put = frozenset(put)
        self._owner_id = owner_id
        self._put = put
        self._holders: dict[int, set[int]] = defaultdict(set)
        for message, topic in (*today.of.items(), *then.of.items()):
            self._holders[topic].add(message)
        self._topics: dict[int, TopicContent] = {}
        self._known: dict[object, TwoChoices] = {}

    def choices(self, run: PastRun, today: Mapping[int, Rank], then: Mapping[int, Rank]) -> TwoChoices | None:
        """None for a run in which the scorer did not choose, and beyond the first ``MOST_ASKED`` questions."""
        question = run.text, run.query.text, run.query.profile_id, run.query.vector is None, run.limits, run.shown
        if not run.by_scorer or (question not in self._known and len(self._known) == MOST_ASKED):
            return None
        if question not in self._known:
            self._known[question] = TwoChoices(self._chosen(run, today), self._chosen(run, then))
        self.asked += 1
        return self._known[question]

    def _chosen(self, run: PastRun, ranks: Mapping[int, Rank]) -> frozenset[int]:
        shown = {topic: rank for topic, rank in ranks.items() if rank.shown}
        self._learn(shown)
        request = RerankRequest(
            query=run.text,
            enriched=run.query.text,
            candidates=tuple(_candidate(self._topics[topic], rank) for topic, rank in shown.items()),
            baseline=(),
            today=run.when.date(),
        )
        limits = replace(run.limits, seconds=_SECONDS, turn_seconds=_SECONDS)
        finished = async_to_sync(rerank)(
            request,
            chat=OfflineChat(limits.least_certainty),
            read_topics=sync_to_async(self._read),
            limits=limits,
            emit=unheard,
        )
        chosen = () if finished.fallback else finished.selected
        return frozenset(number for each in chosen if (number := parse_topic_id(each.id)) is not None)

    def _learn(self, numbers: Collection[int]) -> None:
        """Reads the topics that are not known yet, in two statements."""
        unknown = [number for number in numbers if number not in self._topics]
        wanted = {message for number in unknown for message in self._holders[number]}
        if not wanted:
            return
        rows = Message.objects.of(self._owner_id).filter(pk__in=wanted).order_by("sent_at", "pk")
        messages = {row.pk: reading.content(row) for row in rows}
        summaries = dict(Topic.objects.of(self._owner_id).filter(pk__in=unknown).values_list("pk", "summary"))
        for number in unknown:
            here = tuple(content for pk, content in messages.items() if pk in self._holders[number])
            summary = self._put[number].summary.strip() if number in self._put else summaries.get(number, "")
            size = sum(len(content.text) for content in here)
            self._topics[number] = TopicContent(number, summary, here[0].sent_at, size, here)

    def _read(self, numbers: Sequence[int]) -> list[TopicContent]:
        return [self._topics[number] for number in numbers]


def _candidate(topic: TopicContent, rank: Rank) -> Candidate:
    id, date = topic_id(topic.id), f"{topic.started_at:%Y-%m-%d}"
    line = candidate_line(id, rank.score, date, len(topic.messages), topic.size_chars, topic.summary)
    return Candidate(
        id, rank.rank, rank.rank, 0.0, 0.0, 0.0, rank.score,
        date, len(topic.messages), topic.size_chars, topic.summary, line, shown=True,
    )  # fmt: skip
