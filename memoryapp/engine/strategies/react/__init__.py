"""The strategy *react*, which answers in steps: it routes and plans a question, searches, reads, searches once more
when too little was found, and writes an answer in which every statement cites a message.

``steps`` runs the steps and ``toolbox`` calls the tools, whose input and output are the ``shapes``. ``plain`` is a
strategy of its own: it uses the same tools without steps, and asks the model once."""

from memoryapp.engine.agents.enricher import ENRICH
from memoryapp.engine.agents.paraphraser import EXPAND
from memoryapp.engine.agents.verifier import VERIFY
from memoryapp.engine.context import cited_text
from memoryapp.engine.strategies.react.answering import ANSWER
from memoryapp.engine.strategies.react.planning import PLAN
from memoryapp.engine.strategies.react.steps import recall
from memoryapp.engine.strategies.react.toolbox import ReactParameters
from memoryapp.engine.strategies.strategy import Strategy

STRATEGY = Strategy(
    "react",
    recall,
    ReactParameters,
    prompts=(ANSWER, PLAN, EXPAND, VERIFY, ENRICH),
    answers=True,
    plans=True,
    passages=cited_text,
)
