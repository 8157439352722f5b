"""Every prompt of the program: those of the registered strategies, then those of the registered agents."""

from memoryapp.engine.agents import AGENTS
from memoryapp.engine.prompts.prompt import INSTRUCTION_LANGUAGES, BuiltInPrompt, PromptBook
from memoryapp.engine.strategies import STRATEGIES


def prompts() -> dict[str, BuiltInPrompt]:
    of_agents = {prompt.name: prompt for agent in AGENTS.values() for prompt in agent.prompts}
    return {**prompts_of_runs(), **of_agents}


def prompts_of_runs() -> dict[str, BuiltInPrompt]:
    """Those that runs send, by name."""
    return {prompt.name: prompt for strategy in STRATEGIES.values() for prompt in strategy.prompts}


def built_in() -> PromptBook:
    """The texts of all prompts as they come with the program."""
    return {
        (prompt.name, language): prompt.built_in(language)
        for prompt in prompts().values()
        for language in INSTRUCTION_LANGUAGES
    }
