"""What the page of a run shows of its events: stages, candidates, result, outcome, and how the time passed.

In: a run, its events up to one of them, and the rows they name. Out: dataclasses and sentences that templates show,
the same for a live run and a replay. These modules import the engine, the models and ``memoryapp.runs``, and of the
site each other and ``rerankui.text``.
"""
