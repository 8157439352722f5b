from django.apps import AppConfig


class RerankUIConfig(AppConfig):
    name = "rerankui"
    verbose_name = "Mnemoscope"
