"""What makes two commands on a fresh machine enough: the environment, the database and the processes.

In: the command line, and the folder that ``DATA_DIR`` names. Out: a `.venv` with the locked packages, a running
PostgreSQL for as long as anyone uses it, and the child processes of `up`. Most of it runs before anything is installed,
so it imports the standard library, itself and ``memoryapp.environment`` only; `command_line` and `statics`, which run
inside `.venv`, import Django and ``memoryapp.operations`` as well.

bootstrap      makes `.venv` from a lock file          command_line   Django's command line with its database running
paths          folders, accounts and sockets           server         PostgreSQL itself
supervisor     the process that runs the server        lease          how a command uses it: the last one stops it
file_locks     the locks of both                       ownership      the SQL that gives the database to its role
children       web, worker and beat, kept alive        watchdog       the byte by which `up` knows that one works
processes      process ids and command lines           statics        static files collected when one changed
"""
