"""The recall itself: in comes a request with everything that is known before a model is asked, out come events.

``request`` is what a run is asked, ``run_memory`` what its strategy may call, ``context`` what the chat model is handed
at the end, and ``stages`` puts them together. It imports search, the engine, reading, the run's clients and trials, and
knows no run's row.
"""
