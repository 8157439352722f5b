"""One question asked in several ways at once: strategies, models and versions of the prompt, each with each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from memoryapp.compare.comparison import CompareError
from memoryapp.engine.strategies import STRATEGIES
from memoryapp.models import ChatUser, Prompt, Run
from memoryapp.runs import lifecycle

MOST_WAYS = 40


def start_many(
    owner: ChatUser,
    query: str,
    *,
    strategies: Sequence[str],
    models: Sequence[str] = (),
    prompts: Sequence[Prompt] = (),
    operator: User | None = None,
) -> list[Run]:
    """The runs, which wait to be executed. Models and versions apply to strategies that ask with them; without any,
    those in force do. Raises CompareError for fewer than two or too many ways."""
    ways = [way for name in strategies for way in _ways(name, models, prompts)]
    if len(ways) < 2:
        raise CompareError(_("Choose at least two ways to ask: two strategies, models or versions of a prompt."))
    if len(ways) > MOST_WAYS:
        raise CompareError(
            _("These are %(n)d ways; at most %(most)d can be asked at once.") % {"n": len(ways), "most": MOST_WAYS}
        )
    return [
        lifecycle.start(
            owner,
            query,
            strategy=name,
            operator=operator,
            prompt=prompt,
            changes={**({"model": model} if model else {}), **({"prompt": str(prompt)} if prompt else {})},
        )
        for name, model, prompt in ways
    ]


def _ways(name: str, models: Sequence[str], prompts: Sequence[Prompt]) -> list[tuple[str, str, Prompt | None]]:
    strategy = STRATEGIES[name]
    own = {prompt.name for prompt in strategy.prompts}
    fitting: list[Prompt | None] = [prompt for prompt in prompts if prompt.name in own]
    asked = models if strategy.prompts else ()
    return [(name, model, prompt) for model, prompt in product(asked or [""], fitting or [None])]
