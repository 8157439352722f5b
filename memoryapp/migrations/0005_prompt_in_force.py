from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memoryapp', '0004_faster_search'),
    ]

    operations = [
        migrations.AddField(
            model_name='prompt',
            name='forced_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='in force since'),
        ),
        migrations.AddField(
            model_name='prompt',
            name='forced_by',
            field=models.CharField(blank=True, db_default='', max_length=200, verbose_name='put in force by'),
        ),
        migrations.AddField(
            model_name='prompt',
            name='replaced_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='in force until'),
        ),
        migrations.AddField(
            model_name='prompt',
            name='replaced_by',
            field=models.CharField(blank=True, db_default='', max_length=200, verbose_name='replaced by'),
        ),
    ]
