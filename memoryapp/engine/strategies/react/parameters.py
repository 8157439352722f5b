"""The parameters of *react*; each of them changes what a run does."""

from __future__ import annotations

from dataclasses import dataclass

from memoryapp.engine.parameters import Parameters, choice, number

SWITCH = ("auto", "always", "never")
ON_OFF = ("on", "off")
FUSIONS = ("zsum", "rrf")
# The largest number of steps: plan, retrieve, refine, answer.
STEPS = 4


@dataclass(frozen=True, slots=True)
class ReactParameters(Parameters):
    """Seconds are of one tool, ``hits`` passages that a query brings, coverage and support shares in [0, 1].

    ``planner`` auto skips short questions; ``rerank`` auto scores again where more than 20 passages were found or their
    scores hardly differ. ``rrf_k`` and ``rank_depth`` belong to the fusion ``rrf``; ``mmr`` on puts passages that say
    something new before others, of which ``mmr_hits`` are left. Below ``enough_coverage`` it looks once more for
    ``wider_hits``; below ``least_coverage`` or ``least_support`` it refuses or says that it is not sure. ``claims``
    statements of an answer are checked.
    """

    max_steps: int = number(STEPS, 2, STEPS, "AGENT_MAX_STEPS")
    tool_seconds: float = number(5.0, 0.05, 30, "TOOL_TIMEOUT_S")
    planner: str = choice("auto", SWITCH)
    subqueries: int = number(5, 3, 6)
    hits: int = number(10, 1, 50)
    wider_hits: int = number(30, 1, 100)
    fusion: str = choice("zsum", FUSIONS, "AGENT_FUSION")
    rrf_k: int = number(60, 1, 1000, "RRF_K")
    rank_depth: int = number(50, 1, 500)
    mmr: str = choice("off", ON_OFF, "AGENT_MMR")
    mmr_lambda: float = number(0.5, 0.0, 1.0, "MMR_LAMBDA")
    mmr_hits: int = number(40, 1, 100, "MMR_OUTPUT_K")
    date_filter: str = choice("on", ON_OFF)
    rerank: str = choice("auto", SWITCH, "RERANK_ENABLE")
    rerank_hits: int = number(40, 1, 200, "RERANK_TOP_N")
    context_tokens: int = number(1_800, 200, 8_000)
    refine: str = choice("on", ON_OFF)
    enough_coverage: float = number(0.8, 0.0, 1.0)
    least_coverage: float = number(0.5, 0.0, 1.0)
    verify: str = choice("on", ON_OFF)
    claims: int = number(12, 1, 20)
    claim_evidence: int = number(3, 1, 10)
    least_support: float = number(0.5, 0.0, 1.0)
