"""A memory that forgets the dentist: it is said once, in a topic about something else."""

from uuid import UUID

from asgiref.sync import async_to_sync

from memoryapp.insight.misses import misses
from memoryapp.models import ChatUser, Miss, Run
from memoryapp.platform.llm.clients import offline_embedder
from memoryapp.runs import lifecycle
from memoryapp.runs.clients import open_clients
from memoryapp.search.vectors import embed_pending
from tests.conftest import talk

DENTIST = "The dentist sees me on Thursday at nine, at Dr Sokolova's."
QUESTION = "Which appointments do I have this week?"
TOPICS = [
    ("Winter tyres and the car", ["The winter tyres have to go on before the frost", DENTIST, "And new wipers, too"]),
    ("Appointments with the bank", ["I have an appointment at the bank this week", "On Monday, about the loan"]),
    ("Appointment for the passport", ["My appointment for the passport is this week", "Bring two photographs"]),
    ("Birthday cake for Masha", ["Which cake for a birthday of ten?", "A honey cake keeps for two days"]),
    ("Knee after the run", ["My knee hurts after ten kilometres", "Rest, ice, and see a doctor"]),
]


def forgetful(name: str = "anna") -> ChatUser:
    owner = ChatUser.objects.create(name=name)
    talk(owner, *TOPICS)
    async_to_sync(embed_pending)(offline_embedder())
    return owner


async def execute(number: UUID) -> None:
    """Executes the run with the models of the settings."""
    async with open_clients() as clients:
        await lifecycle.execute(number, clients)


def ended(run: Run | None) -> None:
    assert run
    async_to_sync(execute)(run.pk)
    run.refresh_from_db()


def missed(owner: ChatUser, question: str = QUESTION, expected: str = DENTIST) -> Miss:
    """A miss whose run has ended."""
    miss = misses.report(owner, question, expected=expected, by="ada")
    ended(miss.run)
    return miss
