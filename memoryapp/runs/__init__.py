"""A run's life: a query comes in, and out come its events, stored in order and followed by whoever watches.

``lifecycle`` starts a run and executes it: ``claiming`` takes its row, ``recall`` makes its events, ``recording``
stores them through the ``journal``, ``leases`` shows that the run goes on, ``notices`` wake whoever follows. ``runner``
executes runs in a web process. ``following`` reads a run's events and waits for more, ``waiting`` waits for its end,
``stopping``, ``closing`` and ``repairing`` end a run from outside, and ``answer`` is what a program gets. A run may
import the search, the engine, the models, operations, reading, media, the prompts' versions and the clients; it
imports neither the API nor the pages.
"""
