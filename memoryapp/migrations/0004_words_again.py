"""The words of stored texts, made again: ``lexical.fold`` reads more spellings of one word as the same."""

from importlib import import_module

from django.db import migrations

# A name that begins with a digit cannot be imported otherwise.
_release_0_16 = import_module("memoryapp.migrations.0002_release_0_16")


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0003_laws")]

    operations = [
        migrations.RunPython(_release_0_16.fold_summaries, migrations.RunPython.noop),
        migrations.RunPython(_release_0_16.fold_texts, migrations.RunPython.noop),
    ]
