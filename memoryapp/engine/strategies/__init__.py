"""The registry of strategies. In come a question and ports, out come the events of a run; it imports the engine alone.

A strategy is one module, or one room, with a ``Strategy`` value, listed here; nothing else asks for one by its name.
"""

from __future__ import annotations

from memoryapp.engine.strategies import filter, flash, react, vector
from memoryapp.engine.strategies.react import plain
from memoryapp.engine.strategies.strategy import AnyStrategy

DEFAULT: AnyStrategy = flash.STRATEGY
# The two that answer in words; the plain one stands in where the other is switched off.
REACT: AnyStrategy = react.STRATEGY
PLAIN: AnyStrategy = plain.STRATEGY
STRATEGIES: dict[str, AnyStrategy] = {
    strategy.name: strategy for strategy in (DEFAULT, REACT, PLAIN, filter.STRATEGY, vector.STRATEGY)
}
ANSWERING = frozenset(name for name, strategy in STRATEGIES.items() if strategy.answers)
PLANNING = frozenset(name for name, strategy in STRATEGIES.items() if strategy.plans)


def needs_model(name: str) -> bool:
    """Whether the strategy of that name asks a model; False for one that there is not, or no longer is."""
    return name in STRATEGIES and STRATEGIES[name].needs_model
