#!/bin/sh
# Makes the program's role, which owns its database and is no superuser, and the extension, which only a superuser may make.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$DATABASE_PASSWORD" --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
CREATE ROLE mnemoscope LOGIN PASSWORD :'password';
CREATE DATABASE mnemoscope OWNER mnemoscope;
\connect mnemoscope
CREATE EXTENSION IF NOT EXISTS vector;
SQL
