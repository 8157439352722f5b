"""Reads the text of files in a separate process.

In: the bytes of a text, PDF or Word file. Out: its text, within bounds, or a sentence that says why there is none. A
file may be malicious, so the libraries that open it run in a child process with limits on memory and time (``child``),
which ``reading`` starts. It imports nothing from the rest of the memory.
"""
