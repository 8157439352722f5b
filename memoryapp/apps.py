from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from memoryapp.platform.embedded import paths


class MemoryConfig(AppConfig):
    name = "memoryapp"
    verbose_name = _("Memory")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Closes the data folder to other accounts, however this process was started, and registers what edits do and
        what connections show."""
        from memoryapp.curation import operations  # noqa: F401, PLC0415 it imports models, which are loaded before
        from memoryapp.platform import cells  # noqa: PLC0415 so does what it belongs to

        paths.close_data_dir(paths.open_data_dir(settings.DATA_DIR))
        cells.watch(self)
