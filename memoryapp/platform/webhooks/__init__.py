"""Webhooks: messages about what happens here to receivers that admins name, signed as Standard Webhooks says.

``announcing`` writes a row for each receiver, in the transaction of what it reports, and nothing else: the worker sends
(``sending``), one ``attempt`` at a time, with a body that ``bodies`` makes of the rows. ``receivers`` are made and
changed, ``signing`` derives their secrets, ``addresses`` says where messages may go, ``log`` shows and repeats them.
The room imports rows and operations; whoever reports something imports ``announcing`` alone."""
