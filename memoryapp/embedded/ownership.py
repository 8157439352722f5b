"""The SQL with which the superuser prepares the application's role, in single-user mode, in which nobody can connect.

Each statement may run again. In ``postgres --single -j`` a statement ends with a semicolon and an empty line.
"""

from __future__ import annotations

from memoryapp.embedded.paths import DATABASE, ROLE

_ROLE = f"""
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN CREATE ROLE {ROLE}; END IF;
END $$"""
_LOGIN = f"ALTER ROLE {ROLE} LOGIN NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD '{{password}}'"
_EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector"
_DATABASE = f"ALTER DATABASE {DATABASE} OWNER TO {ROLE}"
# Tests create databases, and damage rows in spite of triggers and keys, as a faulty disk does.
_TESTS = (f"ALTER ROLE {ROLE} CREATEDB", f"GRANT SET ON PARAMETER session_replication_role TO {ROLE}")

HAND_OVER: tuple[str, ...] = (_ROLE, _LOGIN, _EXTENSION, _DATABASE)
FOR_TESTS: tuple[str, ...] = (_ROLE, _LOGIN, _EXTENSION, *_TESTS)


def script(statements: tuple[str, ...], password: str) -> str:
    return "".join(f"{statement.strip().replace('{password}', password)};\n\n" for statement in statements)
