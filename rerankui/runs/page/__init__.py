"""Data for the page of a run: stages, candidates, result, outcome, and times. In: a run, its events up to one of them,
and the rows they name. Out: dataclasses and sentences for templates, the same for a live run and a replay. These
modules import the engine, the models and ``memoryapp.runs``, and of the site each other and ``rerankui.text``."""
