"""The filter lab: cuts of the strategy ``filter``, tried on stored runs.

In: a run's candidates, or the latest runs of a memory, and cuts. Out: presets of an embedding profile, and how well the
cuts find what models selected and what golden questions ask for. It searches nothing. It imports the models and the
engine.
"""
