"""The effect of a planned change of topics on past runs, shown before anybody makes it.

In: a chat user and a ``curation.Change``. Out: an ``Effect``, with each run's rank before and after, a verdict and a
sentence. It writes nothing and asks no remote model, but the embedded scorer again where that had chosen. It imports
the models, ``content``, ``curation``, ``search``, the bounds of ``runs`` and the engine.
"""

from memoryapp.effect.preview import Effect, RunEffect, effect_of
from memoryapp.effect.verdict import Verdict

__all__ = ["Effect", "RunEffect", "Verdict", "effect_of"]
