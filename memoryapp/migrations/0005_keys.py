"""Keys with an owner in place of the triggers that kept the owner of each row: ``_keys`` says how they are."""

from django.db import migrations, models

from memoryapp.migrations._keys import make_keys, make_plain_keys


class Migration(migrations.Migration):

    dependencies = [("memoryapp", "0004_words_again")]

    operations = [
        migrations.RunSQL("DROP FUNCTION IF EXISTS memoryapp_refuse_owner CASCADE", migrations.RunSQL.noop),
        *(
            operation
            for model, name, include in (
                ("topic", "topic_owner", ()),
                ("topicedit", "topicedit_number", ()),
                ("passage", "passage_owner", ("term_count", "is_wide")),
            )
            for operation in (
                migrations.RemoveIndex(model, name),
                migrations.AddConstraint(
                    model, models.UniqueConstraint(fields=("owner", "id"), include=include, name=name)
                ),
            )
        ),
        migrations.RunPython(make_keys, make_plain_keys),
    ]
