"""One module a command of `manage.py`, named as it is typed.

In: the arguments of the command line. Out: text on stdout, or an error in one sentence with an exit code. What a
command may import stands in ``memoryapp.management``.
"""
