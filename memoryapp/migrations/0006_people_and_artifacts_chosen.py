from django.db import migrations, models

# Both at once, and a migration that was cut short meets them again.
ADD = """
ALTER TABLE memoryapp_run
    ADD COLUMN IF NOT EXISTS selected_people_count integer DEFAULT 0 NOT NULL CHECK (selected_people_count >= 0),
    ADD COLUMN IF NOT EXISTS selected_artifact_count integer DEFAULT 0 NOT NULL CHECK (selected_artifact_count >= 0)
"""
REMOVE = "ALTER TABLE memoryapp_run DROP COLUMN selected_people_count, DROP COLUMN selected_artifact_count"

# The paths find nothing in an event from before people and artifacts could be chosen. What is counted already
# is not written again, and a run that chose none, as most do, not at all.
COUNT = """
WITH chosen AS MATERIALIZED (
    SELECT run_id,
           jsonb_array_length(jsonb_path_query_array(payload, '$.people[*].id')) AS people,
           jsonb_array_length(jsonb_path_query_array(payload, '$.artifacts[*].id')) AS artifacts
    FROM memoryapp_runevent WHERE id >= %s AND id < %s AND kind = 'run_finished'
)
UPDATE memoryapp_run AS run SET selected_people_count = people, selected_artifact_count = artifacts
FROM chosen
WHERE run.id = run_id AND (selected_people_count, selected_artifact_count) <> (people, artifacts)
"""
EVENTS_AT_ONCE = 10_000


def count(apps, schema_editor):
    """Of past runs, from their last events; each statement is its own transaction, so nobody waits for all of them."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM memoryapp_runevent")
        first, last = cursor.fetchone()
        for start in range(first, last + 1, EVENTS_AT_ONCE):
            cursor.execute(COUNT, [start, start + EVENTS_AT_ONCE])


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('memoryapp', '0005_prompt_in_force'),
    ]

    operations = [
        migrations.AlterField(
            model_name='run',
            name='selected_count',
            field=models.PositiveIntegerField(default=0, verbose_name='topics chosen'),
        ),
        migrations.RunSQL(ADD, REMOVE, state_operations=[
            migrations.AddField(
                model_name='run',
                name='selected_people_count',
                field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='people chosen'),
            ),
            migrations.AddField(
                model_name='run',
                name='selected_artifact_count',
                field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='artifacts chosen'),
            ),
        ]),
        migrations.RunPython(count, migrations.RunPython.noop),
    ]
