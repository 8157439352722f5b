"""How the program does beside many memories: ``python3 -m tools.load DSN --users 50 500 5000``.

``DSN`` is of a superuser in a database that is made for it, with the tables of the program; ``DATABASE_URL`` leads the
program to the same one. One memory is made as any other and multiplied inside the database; what one person waits for,
and each sweep, is measured after each step. Nothing is removed.
"""
