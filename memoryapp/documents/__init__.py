"""Texts of files, read in a process of its own.

In: the bytes of a text, PDF or Word file. Out: its text, within bounds, or a sentence that says why there is none. A
file may be made to do harm, so the libraries that open it work in a child process with limits on memory and time
(``child``), which ``reading`` starts. It imports nothing of the rest of the memory.
"""
