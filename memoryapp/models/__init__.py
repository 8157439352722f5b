"""Rows, one module a noun. Every row has its owner, never null, and every query begins with it."""

from memoryapp.models.card import Card, CardVector
from memoryapp.models.embedding import EmbeddingProfile, PassageVector, TopicVector
from memoryapp.models.erasure import Erasure
from memoryapp.models.evaluation import Evaluation
from memoryapp.models.heartbeat import Heartbeat
from memoryapp.models.knowledge import Artifact, Fact, KnowledgeEdit, Person
from memoryapp.models.media import Media
from memoryapp.models.message import ImportBatch, Message
from memoryapp.models.operator import Access, Operator, Role
from memoryapp.models.passage import Passage, PassageMessage
from memoryapp.models.prompt import Prompt
from memoryapp.models.run import QueryVector, Run, RunEvent, RunProgress
from memoryapp.models.session import LoginSession
from memoryapp.models.suggestion import Suggestion
from memoryapp.models.token import ApiToken
from memoryapp.models.topic import EditedTopic, Topic, TopicEdit, TopicMessage
from memoryapp.models.user import ChatUser
from memoryapp.models.work import Work

__all__ = [
    "Access",
    "ApiToken",
    "Artifact",
    "Card",
    "CardVector",
    "ChatUser",
    "EditedTopic",
    "EmbeddingProfile",
    "Erasure",
    "Evaluation",
    "Fact",
    "Heartbeat",
    "ImportBatch",
    "KnowledgeEdit",
    "LoginSession",
    "Media",
    "Message",
    "Operator",
    "Passage",
    "PassageMessage",
    "PassageVector",
    "Person",
    "Prompt",
    "QueryVector",
    "Role",
    "Run",
    "RunEvent",
    "RunProgress",
    "Suggestion",
    "Topic",
    "TopicEdit",
    "TopicMessage",
    "TopicVector",
    "Work",
]
