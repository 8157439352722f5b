"""Everything that lets two commands on a fresh machine be enough: the environment, the database, the processes.

Standard library only (but for the Django commands that use it), because most of it runs before anything is installed.

bootstrap      `.venv` from the lock file        places      where things lie on this machine
hold           a share in the embedded server    keeper      the process that ends with the last share
server         PostgreSQL itself                 ownership   what its application's role is given
children       web, worker and beat, kept alive   pulse       how one of them shows that it does not hang
"""
