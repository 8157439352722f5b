"""One module for each command of `manage.py`, with the command's name. In: the arguments of the command line. Out: text
on stdout, or an error in one sentence with an exit code. ``memoryapp.management`` says what a command may import."""
