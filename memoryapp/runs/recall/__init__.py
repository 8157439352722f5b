"""Recall: in comes a request with everything that is known before a model is asked, out come the events of a run.

``request`` is the input, ``clients`` the connections and models, ``context`` the text for the chat model at the end;
``stages`` has the ports of the strategy and puts them together. It imports search, the engine and reading. It knows
neither the rows of runs nor the modules of ``runs`` that call it."""
