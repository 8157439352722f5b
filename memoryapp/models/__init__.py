"""The tables, one module for each noun.

Every row has an owner, a chat user, which is never null (``user.Owned``), and every query begins with it; the few
tables that belong to no memory are listed in ``docs/schema.md``. Models define fields, constraints, choices and
querysets; the rooms work with the rows, and none of them is imported here.
"""

from memoryapp.models.agent import AgentCall, Prompt
from memoryapp.models.alarm import Alarm, Rhythm
from memoryapp.models.audit import AuditEntry, Deed, Door
from memoryapp.models.embedding import (
    Card,
    CardVector,
    EmbeddingProfile,
    FilterPreset,
    ItemVector,
    PassageVector,
    RefusedText,
    StoredItem,
    TopicVector,
)
from memoryapp.models.erasure import Erasure
from memoryapp.models.evaluation import (
    Evaluation,
    GoldenAlarm,
    GoldenNight,
    GoldenQuestion,
    Grade,
    Judgement,
    NightlyRun,
)
from memoryapp.models.expiry import ExpiringRow, ExpiryBatch, ExpiryRule
from memoryapp.models.guard import GuardKind, GuardPolicy, GuardSpot, UnmaskedText
from memoryapp.models.knowledge import Artifact, Fact, Finding, FindingMessage, KnowledgeEdit, Person, UnreadTopic
from memoryapp.models.message import ImportBatch, ImportFile, Media, Message, Passage, PassageMessage
from memoryapp.models.miss import Miss
from memoryapp.models.operator import Access, ApiToken, LoginSession, Operator, Role, SavedView
from memoryapp.models.run import QueryVector, RawReply, Run, RunEvent, RunProgress, Trace, TraceSpan
from memoryapp.models.topic import EditedTopic, ForgetRequest, Suggestion, Topic, TopicEdit, TopicMessage
from memoryapp.models.user import ChatUser, RecallMode, Talk
from memoryapp.models.webhook import Webhook, WebhookDelivery
from memoryapp.models.work import BulkTopic, BulkWork, Heartbeat, Pause, StagePause, Work
