"""One topic as it was at a moment: its messages never change, and what stands beside them is that of the moment."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from memoryapp import curation, past
from memoryapp.browsing.topic_runs import topic_runs
from memoryapp.engine.memory import topic_id
from memoryapp.history import Narrowing
from memoryapp.models import Artifact, EditedTopic, Fact, KnowledgeEdit, Topic
from rerankui.past.absence import absent
from rerankui.past.changes import changes_then
from rerankui.topics.topic_page import RowChanges, TopicPage, TopicTalk, maker

FEW = 20
EDITS_SHOWN = 12


def not_then(request: HttpRequest, topic: Topic, moment: datetime) -> HttpResponse | None:
    """The page that says where the topic's messages were at a moment at which it was not live; None if it was. The
    row gets the state of the moment."""
    side = past.side_at(topic, moment)
    if side != EditedTopic.Side.IN:
        numbers = past.holders_at(topic.owner_id, [topic.pk], moment).get(topic.pk, ())[:FEW]
        rows = Topic.objects.of(topic.owner_id).in_bulk(numbers)
        holders = [rows[number] for number in numbers]
        return absent(request, topic_id(topic.pk), topic.owner, holders=holders, is_retired=bool(side))
    past.as_then(topic.owner_id, [topic], moment)
    return None


def topic_then(request: HttpRequest, topic: Topic, moment: datetime, talk: TopicTalk) -> HttpResponse:
    if missing := not_then(request, topic, moment):
        return missing
    former, lineage = curation.former(topic), curation.lineage(topic, until=moment)
    made_by, files = maker(lineage), Artifact.objects.filter(owner=topic.owner, message__topicmessage__topic=topic)
    changes = changes_then(topic.owner, Narrowing(noun="topic", number=topic.pk), moment, EDITS_SHOWN)
    page = TopicPage(
        said=talk,
        history=RowChanges(**changes, row_id=topic_id(topic.pk)),
        lineage=lineage,
        seen=topic_runs(topic, former, until=moment),
        facts=_facts(topic, former, moment),
        artifacts=files.filter(created_at__lte=moment)[:FEW],
        made_by=made_by,
        made_again=made_by is not None and curation.is_again(made_by),
        is_past=True,
    )
    return render(request, "pages/topics/topic.html", page.names())


def _facts(topic: Topic, former: tuple[int, ...], moment: datetime) -> list[Fact]:
    rows: list[Fact] = past.known_at(topic.owner_id, KnowledgeEdit.Noun.FACT, moment)
    noted = [row for row in rows if row.topic_id in (topic.pk, *former) and not row.superseded_at]
    return sorted(noted, key=lambda row: (-row.importance, row.pk))[:FEW]
