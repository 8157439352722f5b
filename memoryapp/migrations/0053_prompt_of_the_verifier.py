"""A prompt that judges which sources say what an answer states."""

from django.db import migrations, models

PROMPTS = (
    "rerank",
    "enrich",
    "split",
    "merge",
    "consolidate",
    "extract",
    "plan",
    "expand",
    "answer",
    "verify",
    "describe",
)


class Migration(migrations.Migration):
    dependencies = (("memoryapp", "0052_terms_of_other_scripts"),)

    operations = (
        migrations.AlterField(
            model_name="prompt",
            name="name",
            field=models.CharField(choices=[(name, name) for name in PROMPTS], max_length=16, verbose_name="prompt"),
        ),
    )
