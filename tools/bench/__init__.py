"""Measurements, each with a baseline that is measured in the same process on the same machine.

Seconds alone describe the machine; the ratio to the least that the same machine needs describes the program. Nothing
here passes or fails. Each benchmark is a module with an iterator of rows, over a made-up memory.
"""
