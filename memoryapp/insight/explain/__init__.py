"""Why a run did not choose something: one sentence, the stage that lost it, and what would have changed that.

In: a run, and a topic, a message or words. Out: an ``Explanation``, with counterfactuals that were tried. ``wanted``
finds what is meant, as the memory was when the run searched; ``fate`` reads from the run's events what became of it;
``research`` compares the run's query with the memory as it is now, without a model; ``counterfactuals`` tries changes
with that; ``sentences`` puts it into words. It writes nothing and asks no chat model. It may import the effect, the
runs, the search, curation, the marks of erasures, the clients of models, the models and the engine."""

from memoryapp.insight.explain.why_not import Explanation, WhyNotError, why_not
