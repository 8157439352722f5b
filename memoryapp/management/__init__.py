"""The commands of `manage.py`: each reads its arguments, calls functions of the domain and prints the result. In: the
command line. Out: text or, with ``--json``, one JSON document on stdout; errors are one sentence and an exit code. A
command may import every room except the API and the administration; nothing imports a command."""
