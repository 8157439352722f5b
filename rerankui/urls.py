"""The root urlconf: one path, one view, one name."""

from django.contrib import admin
from django.urls import path

from rerankui.views import artifacts, facts, health, messages, overview, palette, people, recall, runs, session, topics

urlpatterns = [
    # the memory, for browsing
    path("", overview.overview, name="overview"),
    path("find/", palette.find, name="find"),
    path("memory/<int:owner>/", overview.memory, name="memory"),
    path("memory/<int:owner>/topics/", topics.topics, name="topics"),
    path("memory/<int:owner>/messages/", messages.messages, name="messages"),
    path("memory/<int:owner>/people/", people.people, name="people"),
    path("memory/<int:owner>/artifacts/", artifacts.artifacts, name="artifacts"),
    path("memory/<int:owner>/facts/", facts.facts, name="facts"),
    path("topics/<int:pk>/", topics.topic, name="topic"),
    path("topics/<int:pk>/peek/", topics.topic_peek, name="topic_peek"),
    # recalls and their runs
    path("memory/<int:owner>/recall/", recall.recall, name="recall"),
    path("runs/", runs.run_list, name="runs"),
    path("runs/<uuid:pk>/", runs.run, name="run"),
    path("runs/<uuid:pk>/topics/<int:topic>/", runs.run_topic, name="run_topic"),
    # who looks, and how
    path("login/", session.login, name="login"),
    path("logout/", session.logout, name="logout"),
    path("i18n/", session.language, name="language"),
    path("theme/", session.theme, name="theme"),
    path("admin/", admin.site.urls),
    # whether it works
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
