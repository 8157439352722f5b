"""The root urlconf: one path, one view, one name."""

from django.contrib import admin
from django.urls import include, path

from rerankui.views import (
    account,
    artifacts,
    change,
    facts,
    health,
    history,
    knowledge,
    merge,
    messages,
    overview,
    palette,
    people,
    people_merge,
    picking,
    prompts,
    queue,
    recall,
    resplit,
    runs,
    session,
    tokens,
    topic_map,
    topics,
    trying,
)

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
    path("topics/<int:pk>/pick/", picking.topic_pick, name="topic_pick"),
    path("topics/<int:pk>/resplit/", resplit.resplit, name="resplit"),
    path("memory/<int:owner>/map/", topic_map.topic_map, name="topic_map"),
    # changes of topics, and the way back
    path("memory/<int:owner>/queue/", queue.queue, name="queue"),
    path("memory/<int:owner>/queue/<int:pk>/", queue.suggestion, name="suggestion"),
    path("memory/<int:owner>/queue/<int:pk>/undo/", queue.suggestion_undo, name="suggestion_undo"),
    path("memory/<int:owner>/queue/<int:pk>/hold/", queue.suggestion_hold, name="suggestion_hold"),
    path("memory/<int:owner>/merge/", merge.merge, name="merge"),
    path("memory/<int:owner>/merge/proposal/", merge.merge_proposal, name="merge_proposal"),
    path("memory/<int:owner>/change/", change.change, name="change"),
    path("memory/<int:owner>/change/effect/", change.change_effect, name="change_effect"),
    path("edits/<int:pk>/undo/", change.undo, name="undo"),
    # people, facts and artifacts changed by hand
    path("memory/<int:owner>/people/add/", knowledge.add, {"noun": "person"}, name="person_add"),
    path("memory/<int:owner>/people/merge/", people_merge.people_merge, name="people_merge"),
    path("memory/<int:owner>/people/<int:person>/", knowledge.page, {"noun": "person"}, name="person"),
    path("memory/<int:owner>/people/<int:person>/edit/", knowledge.edit, {"noun": "person"}, name="person_edit"),
    path("memory/<int:owner>/people/<int:person>/delete/", knowledge.delete, {"noun": "person"}, name="person_delete"),
    path("memory/<int:owner>/facts/add/", knowledge.add, {"noun": "fact"}, name="fact_add"),
    path("memory/<int:owner>/facts/<int:fact>/", knowledge.page, {"noun": "fact"}, name="fact"),
    path("memory/<int:owner>/facts/<int:fact>/edit/", knowledge.edit, {"noun": "fact"}, name="fact_edit"),
    path("memory/<int:owner>/facts/<int:fact>/delete/", knowledge.delete, {"noun": "fact"}, name="fact_delete"),
    path("memory/<int:owner>/artifacts/<int:artifact>/", knowledge.page, {"noun": "artifact"}, name="artifact"),
    path(
        "memory/<int:owner>/artifacts/<int:artifact>/edit/", knowledge.edit, {"noun": "artifact"}, name="artifact_edit"
    ),
    path(
        "memory/<int:owner>/artifacts/<int:artifact>/delete/",
        knowledge.delete,
        {"noun": "artifact"},
        name="artifact_delete",
    ),
    # what was changed, and every way back
    path("memory/<int:owner>/history/", history.history_page, name="history"),
    path("memory/<int:owner>/history/range/", history.undo_range, name="undo_range"),
    path("memory/<int:owner>/history/edits/<int:edit>/", history.undo_edit, name="undo_preview"),
    path("memory/<int:owner>/history/changes/<int:change>/", history.undo_change, name="undo_change"),
    path("memory/<int:owner>/imports/", history.imports, name="imports"),
    path("memory/<int:owner>/imports/<int:batch>/withdraw/", history.withdraw, name="withdraw"),
    # recalls and their runs
    path("memory/<int:owner>/recall/", recall.recall, name="recall"),
    path("runs/", runs.run_list, name="runs"),
    path("runs/<uuid:pk>/", runs.run, name="run"),
    path("runs/<uuid:pk>/topics/<int:topic>/", runs.run_topic, name="run_topic"),
    path("runs/<uuid:pk>/items/<str:item>/", runs.run_item, name="run_item"),
    path("runs/<uuid:pk>/context/<str:part>/", runs.run_part, name="run_part"),
    path("runs/<uuid:pk>/media/<str:sha256>/", runs.run_media, name="run_media"),
    # what the models are told
    path("prompts/", prompts.prompts, name="prompts"),
    path("prompts/<str:name>/<str:language>/", prompts.prompt, name="prompt"),
    path("prompts/<str:name>/<str:language>/diff/", prompts.prompt_diff, name="prompt_diff"),
    path("prompts/<str:name>/<str:language>/<int:version>/", prompts.prompt_version, name="prompt_version"),
    path("runs/<uuid:pk>/prompt/", trying.prompt_try, name="prompt_try"),
    # what programs may do
    path("tokens/", tokens.token_list, name="tokens"),
    path("tokens/make/", tokens.token_make, name="token_make"),
    path("tokens/<int:pk>/revoke/", tokens.token_revoke, name="token_revoke"),
    # who looks, and how
    path("login/", session.login, name="login"),
    path("logout/", session.logout, name="logout"),
    path("account/", account.account, name="account"),
    path("account/password/", account.password, name="password"),
    path("i18n/", session.language, name="language"),
    path("theme/", session.theme, name="theme"),
    path("admin/", admin.site.urls),
    # for programs
    path("v1/", include("memoryapp.api.urls")),
    # whether it works
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
