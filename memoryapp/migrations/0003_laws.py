"""The laws that the database keeps whoever writes: ``laws.sql`` has all of them, and replaces those of release 0.15.1."""

from pathlib import Path

from django.db import migrations

LAWS = Path(__file__).with_name("laws.sql").read_text(encoding="utf-8")


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0002_release_0_16")]

    operations = [migrations.RunSQL(LAWS, migrations.RunSQL.noop)]
