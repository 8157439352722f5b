"""Measurements, each beside what it has to be compared with, taken in one run on one machine.

Seconds alone tell about the machine; a ratio to the least that the same machine needs tells about the program. So
nothing here passes or fails. One module a benchmark: an iterator of rows over a memory that is made up for it.
"""
