"""The words of stored texts in other alphabets, and with accents, are made again as ``lexical.fold`` makes them now."""

from datetime import timedelta
from itertools import islice

from django.db import migrations, models

from memoryapp.engine.text.lexical import count_terms, fold

# ASCII, Cyrillic and typographic marks are folded as before.
_OTHER = r"[\u00c0-\u03ff\u0460-\u1fff\u2c00-\ud7ff\uf900-\ufdff\ufe70-\uffdc\U00020000-\U0002ffff]"
_BATCH = 500
_A_MOMENT = timedelta(microseconds=1)


def fold_again(apps, schema_editor):
    """Passages in batches; a card is made again by the next sweep, because it is older than its row."""
    passages = apps.get_model("memoryapp", "Passage").objects.filter(text__regex=_OTHER)
    found = passages.values_list("pk", "text").order_by("pk").iterator(_BATCH)
    with schema_editor.connection.cursor() as cursor:
        while rows := list(islice(found, _BATCH)):
            cursor.executemany(
                "UPDATE memoryapp_passage SET terms = to_tsvector('russian', %s), term_count = %s WHERE id = %s",
                [(fold(text), count_terms(text), number) for number, text in rows],
            )
    cards = apps.get_model("memoryapp", "Card").objects.filter(text__regex=_OTHER)
    cards.update(made_from=models.F("made_from") - models.Value(_A_MOMENT, models.DurationField()))


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0051_import_dates")]

    operations = [migrations.RunPython(fold_again, migrations.RunPython.noop)]
