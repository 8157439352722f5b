from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memoryapp', '0050_requests_counted'),
    ]

    operations = [
        migrations.AddField(
            model_name='importfile',
            name='dates',
            field=models.CharField(blank=True, db_default='', max_length=3, verbose_name='order of dates'),
        ),
    ]
