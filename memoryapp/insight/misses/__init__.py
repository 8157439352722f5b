"""What an assistant forgot, from the miss to a repair that stays.

In: a question that went wrong, with what should have been known. Out: a ``Miss`` with the stage that lost it
(``misses``), the remedies that fit, each tried first (``remedies``), the golden question by which nights watch it
(``keeping``), and what the days say (``days``). The room joins
Why not?, forks, the effect of a change, decisions and golden sets; each of them does its own work."""
