"""The words of stored texts, made again: ``lexical.fold`` reads more spellings of one word as the same, and an erasure
left single words of what it erased, by which cards and candidates are found."""

from importlib import import_module

from django.db import migrations

# A name that begins with a digit cannot be imported otherwise.
_release_0_16 = import_module("memoryapp.migrations.0002_release_0_16")
_ERASED = "[erased]"
_BATCH = 500


def _without_terms(value):
    if isinstance(value, list):
        return [_without_terms(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: {} if key == "terms" else _without_terms(item) for key, item in value.items()}


def forget_erased_words(apps, schema_editor):
    """Deletes the cards that an erasure redacted, which are made again from their rows, and the words of erased
    queries."""
    _release_0_16._rows(apps, schema_editor, "Card").filter(text__contains=_ERASED).delete()
    events = _release_0_16._rows(apps, schema_editor, "RunEvent").filter(run__query=_ERASED, kind="candidates_found")
    for event in events.iterator(_BATCH):
        event.payload = _without_terms(event.payload)
        event.save(update_fields=["payload"])


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0003_laws")]

    operations = [
        migrations.RunPython(_release_0_16.fold_summaries, migrations.RunPython.noop),
        migrations.RunPython(_release_0_16.fold_texts, migrations.RunPython.noop),
        migrations.RunPython(forget_erased_words, migrations.RunPython.noop),
    ]
