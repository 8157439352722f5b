"""What a planned change of topics would do to past runs, shown before anybody makes it.

In: a chat user and a ``curation.Change``. Out: an ``Effect``, with each run's rank before and after, a verdict and a
sentence. Nothing is written and no model is asked. It imports the models, ``curation``, ``search``, the bounds of
``runs`` and the engine.
"""

from memoryapp.effect.preview import Effect, RunEffect, effect_of
from memoryapp.effect.verdict import Verdict

__all__ = ["Effect", "RunEffect", "Verdict", "effect_of"]
