"""Nothing: what it did is part of ``0002_release_0_16``; later migrations follow it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memoryapp", "0003_laws")]

    operations = []
