"""The recall itself: in comes a request with everything that is known before a model is asked, out come events.

``request`` is what a run is asked, ``clients`` what it speaks to, ``run_memory`` what its strategy may call,
``context`` what the chat model is handed at the end, and ``stages`` puts them together. It imports search, the engine
and reading; it knows neither a run's row nor the modules of ``runs`` that call it.
"""
