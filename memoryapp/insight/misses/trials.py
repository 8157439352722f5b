"""What a remedy would do, tried on the memory itself in a transaction that is taken back, so that nothing of it stays.
Who is tried on is the run of the miss, and past runs as far as the change concerns them. No chat model is asked."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from asgiref.sync import async_to_sync
from django.db import connection, transaction

from memoryapp.curation import Change, rescoring
from memoryapp.curation.effect import Effect, effect_on, runs_that_saw
from memoryapp.engine.beside import table_beside
from memoryapp.engine.context import SelectedTopics
from memoryapp.engine.embeddings import EmbeddingError
from memoryapp.engine.events import Selected
from memoryapp.engine.memory import MessageContent, TopicDraft, topic_id
from memoryapp.engine.strategies import DEFAULT, STRATEGIES
from memoryapp.engine.text.lexical import stems
from memoryapp.engine.text.lines import quoted
from memoryapp.engine.text.passages import cut_passages
from memoryapp.importers.record import MessageRecord
from memoryapp.insight.explain.wanted import embedded
from memoryapp.memory.content import HOW_MUCH, PROFILE, background, content, in_topics
from memoryapp.models import ChatUser, Passage, PassageVector, Run, Topic
from memoryapp.runs.parameters import where_of
from memoryapp.runs.recall_document import handed_over
from memoryapp.search import items, profiles

_QUESTIONS = 200
_SQL = table_beside(__file__)
PEOPLE_SAYING: str = _SQL["people_saying"]


@contextmanager
def taken_back() -> Iterator[None]:
    """What is written inside is there only inside; what waits for the commit is forgotten as well."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def vectors_for(records: Sequence[MessageRecord]) -> Mapping[str, Sequence[float]]:
    """The vector of each passage of these messages by its text; none where the model does not answer in time. It is
    asked before the transaction, which would hold up whoever writes to this memory."""
    said = [MessageContent(0, each.role, each.author, each.sent_at, each.text) for each in records]
    texts = [draft.text for draft in cut_passages(said)]
    profile = profiles.profile_of(profiles.serving())
    try:
        return dict(zip(texts, async_to_sync(embedded)(profile.as_passages(texts), profile), strict=True))
    except (EmbeddingError, TimeoutError):
        return {}


def of_messages(
    owner: ChatUser, run: Run, said: Collection[int], summary: str, vectors: Mapping[str, Sequence[float]]
) -> Effect:
    """What messages that were just added make of ``run``, which should find them, and of all recent runs: a topic of
    their own may push another one out of sight."""
    profile = profiles.serving()
    passages = Passage.objects.filter(owner=owner, passagemessage__message__in=said).distinct()
    PassageVector.objects.bulk_create(
        PassageVector(owner=owner, passage=each, profile=profile, dimensions=profile.dimensions, vector=vectors[text])
        for each in passages
        if (text := each.text) in vectors
    )
    runs = [
        replace(each, messages=tuple(said), chosen=(), is_golden=True) if each.id == run.pk else each
        for each in runs_that_saw(owner.pk, None, run.pk)
    ]
    # The embedded scorer is asked again for the first questions.
    runs.sort(key=lambda each: each.id != run.pk)
    return effect_on(owner.pk, Change((0,), (TopicDraft(summary, tuple(said)),)), runs)


def of_search(topic: Topic, run: Run) -> Effect:
    """How the run finds the topic if it is searched like all others."""
    draft = TopicDraft(topic.summary, tuple(topic.topicmessage_set.values_list("message", flat=True)))
    runs = [each for each in runs_that_saw(topic.owner_id, None, run.pk) if each.id == run.pk]
    return effect_on(topic.owner_id, Change((topic.pk,), (draft,)), runs)


def handed_over_of(run: Run, topic: Topic) -> str:
    """What of the topic the context of the run would hold if it were pinned."""
    id = topic_id(topic.pk)
    messages = [content(row.message) for row in in_topics(topic.owner_id, [topic.pk], where_of(run))]
    selected = (Selected(id, 1, "", 0.0, 0, pinned=True),) if messages else ()
    makes = STRATEGIES.get(run.strategy, DEFAULT).text_of(handed_over(run))
    return makes(SelectedTopics(run.query, selected, {}, {id: messages}))


def says(text: str, messages: Collection[str]) -> bool:
    """Whether the text has one of the messages, or what of it comes first."""
    return any(quoted(each.strip())[:200] in text for each in messages)


def of_pin(topic: Topic, run: Run) -> Effect:
    """Whom it helps to be handed the topic in any case: runs whose messages it has, and that did not choose it."""
    holds = set(topic.topicmessage_set.values_list("message", flat=True))
    runs = runs_that_saw(topic.owner_id, [topic.pk], run.pk)
    better = sum(not holds.isdisjoint(each.messages) and topic.pk not in each.handed for each in runs)
    return Effect(len(runs), better, 0, len(runs) - better, ())


def always_told(owner: ChatUser) -> str:
    """What every recall says of the user and of the people closest, as it is now."""
    with connection.cursor() as cursor:
        cursor.execute(PROFILE, {**HOW_MUCH, "owner": owner.pk})
        found = background(json.loads(cursor.fetchone()[0]))
    return "\n".join((found.profile, *found.inner_circle))


def people_said(owner: ChatUser, question: str) -> list[int]:
    """The people whose names or notes share a word with the question, the best first; their cards are renewed."""
    items.refresh(owner)
    (terms,) = rescoring.terms_of([question])
    with connection.cursor() as cursor:
        cursor.execute(PEOPLE_SAYING, {"owner": owner.pk, "terms": terms})
        return [number for (number,) in cursor.fetchall()]


def is_said(name: str, question: str) -> bool:
    said = set(stems(name))
    return bool(said) and said <= set(stems(question))


def questions_saying(owner: ChatUser, name: str) -> tuple[int, int]:
    """How many of the latest questions say the name, and of how many."""
    asked = list(Run.objects.of(owner).by_hand().order_by("-created_at").values_list("query", flat=True)[:_QUESTIONS])
    return sum(is_said(name, each) for each in asked), len(asked)
