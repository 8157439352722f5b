"""Rows, one module a noun. Every row has its owner, never null, and every query begins with it."""

from memoryapp.models.embedding import EmbeddingProfile, PassageVector, TopicVector
from memoryapp.models.evaluation import Evaluation
from memoryapp.models.knowledge import Artifact, Fact, Person
from memoryapp.models.message import ImportBatch, Message
from memoryapp.models.operator import Access, Operator, Role
from memoryapp.models.passage import Passage, PassageMessage
from memoryapp.models.run import Run, RunEvent
from memoryapp.models.topic import EditedTopic, Topic, TopicEdit, TopicMessage
from memoryapp.models.user import ChatUser

__all__ = [
    "Access",
    "Artifact",
    "ChatUser",
    "EditedTopic",
    "EmbeddingProfile",
    "Evaluation",
    "Fact",
    "ImportBatch",
    "Message",
    "Operator",
    "Passage",
    "PassageMessage",
    "PassageVector",
    "Person",
    "Role",
    "Run",
    "RunEvent",
    "Topic",
    "TopicEdit",
    "TopicMessage",
    "TopicVector",
]
