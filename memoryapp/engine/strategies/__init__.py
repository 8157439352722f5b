"""The registry of strategies. In come a query and ports, out come the events of a run; it imports the engine alone. A
strategy is a module or a package with a ``Strategy`` value, which is listed here. No other code compares names of
strategies."""

from memoryapp.engine.strategies import filter, flash, react, vector
from memoryapp.engine.strategies.react import plain
from memoryapp.engine.strategies.strategy import AnyStrategy

DEFAULT: AnyStrategy = flash.STRATEGY
# The two strategies that answer in words; ``PLAIN`` replaces ``REACT`` while that is switched off.
REACT: AnyStrategy = react.STRATEGY
PLAIN: AnyStrategy = plain.STRATEGY
STRATEGIES: dict[str, AnyStrategy] = {
    strategy.name: strategy for strategy in (DEFAULT, REACT, PLAIN, filter.STRATEGY, vector.STRATEGY)
}
ANSWERING = frozenset(name for name, strategy in STRATEGIES.items() if strategy.answers)
PLANNING = frozenset(name for name, strategy in STRATEGIES.items() if strategy.plans)


def needs_model(name: str) -> bool:
    """Whether the strategy of that name asks a model; False for an unknown name."""
    return name in STRATEGIES and STRATEGIES[name].needs_model
