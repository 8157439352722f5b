"""Starts the program on a fresh machine with two commands: the environment, the database and the processes.

In: the command line, and the folder that ``DATA_DIR`` names. Out: a `.venv` with the locked packages, a PostgreSQL that
runs while any process uses it, and the child processes of `up`. Most modules run before anything is installed, so they
import only the standard library, this package and ``memoryapp.platform.environment``; `command_line` and `statics`,
which run inside `.venv`, also import Django and ``memoryapp.platform``.

bootstrap      makes `.venv` from a lock file          command_line   Django's command line with its database running
paths          folders, accounts and sockets           server         PostgreSQL itself
supervisor     the process that runs the server        lease          keeps it running while a command uses it
file_locks     the locks of both                       ownership      SQL that gives the database to its role
children       web, worker and beat, kept alive        watchdog       the byte that shows that a child works
processes      process ids and command lines           statics        collects static files when one changed"""
