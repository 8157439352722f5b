"""Runs compared: where two of them first differ, what became of each topic in each, and what changed meanwhile.

In: runs of one memory. Out: a ``RunComparison``. ``marks`` says what an event makes of candidates, ``states`` what
became of every topic in a run, ``lineages`` which topics hold the same messages, so that an edit makes none of them
missing; ``divergence`` finds the first difference of two runs and puts it into words, ``meanwhile`` the changes of the
memory between them; ``many`` asks one question in several ways, ``stability`` asks it again. No model is asked and
nothing is written, but by these two. It may import the history, explanations, evaluations, the runs, curation, the
models and the engine."""

from memoryapp.insight.compare.comparison import CompareError, RunComparison, compare
