"""A run's life: in comes a query, out come the events of a run, stored in order and sent to everybody who follows it.

``lifecycle`` starts a run and executes it: ``claiming`` claims its row, ``recall`` produces its events, ``recording``
stores them through the ``journal``, ``leases`` shows that the run is still executed, ``notices`` wake its followers.
``runner`` executes runs in a web process. ``forks`` makes a run that begins like another one, and ``replaying`` says
what it takes from that. ``following`` reads the events of a run and waits for more; ``stopping``, ``closing`` and
``repairing`` end a run from outside. ``recall_document`` is what
a finished run answers programs. A run may import the search, the engine, the models,
operations, reading, media, the prompt versions and the clients; it imports neither the API nor the pages."""
