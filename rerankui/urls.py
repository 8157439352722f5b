"""The root urlconf: one path, one view, one name."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from rerankui.account import account, audit, operators, sign_on, webhooks
from rerankui.compare import compare
from rerankui.curation.views import change, merge, queue, review
from rerankui.evaluations import evaluations, filter_lab, golden, misses, nights, threshold
from rerankui.frame.rows import LISTS_OF
from rerankui.history import history
from rerankui.imports import import_file
from rerankui.knowledge import artifacts, facts, people, row
from rerankui.lists import quality, saved
from rerankui.pipeline import alarms, pipeline
from rerankui.runs.views import run, run_fork, runs
from rerankui.topics import topic, topics
from rerankui.views import (
    agents,
    ask,
    embedding,
    erasure,
    expiry,
    find,
    guard,
    health,
    inbox,
    memory_settings,
    messages,
    overview,
    prompts,
)

handler400 = "rerankui.web.refusals.bad_request"
handler500 = "rerankui.web.refusals.server_error"
LISTS = (
    *(topics.TOPICS, messages.MESSAGES, people.PEOPLE, facts.FACTS, artifacts.ARTIFACTS),
    *(inbox.INBOX, misses.MISSES, guard.GUARD),
)
# One person, fact or artifact, at an address below that of its list.
ROWS = [
    path(f"memory/<int:owner_id>/{of_list}/<int:{noun}>/{way}", view, {"noun": noun}, name=f"{noun}{name}")
    for noun, of_list in LISTS_OF.items()
    if noun != "topic"
    for way, view, name in (("", row.page, ""), ("edit/", row.edit, "_edit"), ("delete/", row.delete, "_delete"))
]
urlpatterns = [
    # the memory, for browsing
    path("", overview.overview, name="overview"),
    path("find/", find.find, name="find"),
    path("memory/<int:owner_id>/", overview.memory, name="memory"),
    path("memory/new/", import_file.memory_make, name="memory_make"),
    path("work/", pipeline.all_work, name="work"),
    path("memory/<int:owner_id>/work/", pipeline.memory_work, name="memory_work"),
    path("pipeline/", pipeline.pipeline, name="pipeline"),
    path("pipeline/alarms/", alarms.alarms, name="alarms"),
    path("memory/<int:owner_id>/pipeline/", pipeline.memory_pipeline, name="memory_pipeline"),
    path("memory/<int:owner_id>/settings/", memory_settings.memory_settings, name="memory_settings"),
    *(of_list.path for of_list in LISTS),
    path("sessions/<int:message>/", messages.session, name="session"),
    path("topics/<int:pk>/", topic.topic, name="topic"),
    path("topics/<int:pk>/peek/", topic.topic_peek, name="topic_peek"),
    path("topics/<int:pk>/blame/", topic.topic_blame, name="topic_blame"),
    path("topics/<int:pk>/pick/", topics.topic_pick, name="topic_pick"),
    path("topics/<int:pk>/resplit/", change.resplit, name="resplit"),
    path("memory/<int:owner_id>/map/", topics.drawn_topic_map, name="topic_map"),
    # what is missing, doubtful or never used
    path("quality/", quality.quality_of_all, name="quality_all"),
    path("memory/<int:owner_id>/quality/", quality.quality, name="quality"),
    # work on many topics at once
    path("memory/<int:owner_id>/bulk/", topics.bulk, name="bulk"),
    path("memory/<int:owner_id>/bulk/<int:bulkwork>/", topics.bulk_work, name="bulk_work"),
    # views of lists that people keep
    path("memory/<int:owner_id>/views/", saved.view_save, name="view_save"),
    path("memory/<int:owner_id>/views/<int:savedview>/", saved.saved_view, name="saved_view"),
    # what waits for a person
    path("memory/<int:owner_id>/inbox/undo/", inbox.inbox_undo, name="inbox_undo"),
    path("memory/<int:owner_id>/misses/report/", misses.miss_report, name="miss_report"),
    path("memory/<int:owner_id>/misses/<int:miss>/", misses.miss, name="miss"),
    path("memory/<int:owner_id>/misses/<int:miss>/remedies/", misses.miss_remedies, name="miss_remedies"),
    path("memory/<int:owner_id>/inbox/clusters/", queue.clusters, name="clusters"),
    path("memory/<int:owner_id>/inbox/clusters/undo/", queue.clusters_undo, name="clusters_undo"),
    path("memory/<int:owner_id>/contradictions/", inbox.contradictions, name="contradictions"),
    path("memory/<int:owner_id>/inbox/failures/", inbox.failures, name="failures"),
    # changes of topics, and the way back
    path("memory/<int:owner_id>/queue/", queue.queue, name="queue"),
    path("memory/<int:owner_id>/queue/<int:suggestion>/", queue.suggestion, name="suggestion"),
    path("memory/<int:owner_id>/queue/<int:suggestion>/undo/", queue.suggestion_undo, name="suggestion_undo"),
    path("memory/<int:owner_id>/queue/<int:suggestion>/hold/", queue.suggestion_hold, name="suggestion_hold"),
    path("memory/<int:owner_id>/queue/<int:suggestion>/judge/", queue.suggestion_judge, name="suggestion_judge"),
    path("memory/<int:owner_id>/merge/", merge.merge, name="merge"),
    path("memory/<int:owner_id>/merge/proposal/", merge.merge_proposal, name="merge_proposal"),
    path("memory/<int:owner_id>/change/", change.change, name="change"),
    path("memory/<int:owner_id>/change/summary/", change.change_summary, name="change_summary"),
    path("memory/<int:owner_id>/change/effect/", change.change_effect, name="change_effect"),
    path("edits/<int:pk>/undo/", history.undo, name="undo"),
    # people, facts and artifacts changed by hand
    path("memory/<int:owner_id>/how/<str:noun>/<int:pk>/", row.recall, name="row_recall"),
    *ROWS,
    path("memory/<int:owner_id>/people/add/", row.add, {"noun": "person"}, name="person_add"),
    path("memory/<int:owner_id>/people/merge/", people.people_merge, name="people_merge"),
    path("memory/<int:owner_id>/facts/add/", row.add, {"noun": "fact"}, name="fact_add"),
    path("memory/<int:owner_id>/artifacts/upload/<str:ticket>/", artifacts.artifact_upload, name="artifact_upload"),
    path("memory/<int:owner_id>/artifacts/<int:artifact>/retry/", artifacts.artifact_retry, name="artifact_retry"),
    # what the archivist found
    path("memory/<int:owner_id>/review/", review.review, name="review"),
    path("memory/<int:owner_id>/review/<int:finding>/", review.finding, name="finding"),
    path("memory/<int:owner_id>/review/<int:finding>/undo/", review.finding_undo, name="finding_undo"),
    path("memory/<int:owner_id>/extraction/", facts.extraction_panel, name="extraction"),
    # what was changed, and every way back
    path("memory/<int:owner_id>/history/", history.history_page, name="history"),
    path("memory/<int:owner_id>/history/range/", history.undo_range, name="undo_range"),
    path("memory/<int:owner_id>/history/edits/<int:edit>/", history.undo_record, name="undo_preview"),
    path("memory/<int:owner_id>/history/changes/<int:change>/", history.undo_record, name="undo_change"),
    path("memory/<int:owner_id>/imports/", import_file.imports, name="imports"),
    path("memory/<int:owner_id>/imports/upload/<str:ticket>/", import_file.upload, name="import_upload"),
    path("memory/<int:owner_id>/imports/files/<int:file>/", import_file.import_file, name="import_file"),
    path("memory/<int:owner_id>/imports/<int:batch>/withdraw/", import_file.withdraw, name="withdraw"),
    # the end of a memory
    path("memory/<int:owner_id>/erase/", erasure.erase, name="erase"),
    path("memory/<int:owner_id>/erase/part/", erasure.erase_part, name="erase_part"),
    path("memory/<int:owner_id>/export/", erasure.export, name="export"),
    path("memory/<int:owner_id>/guard/<int:message>/", guard.guarded, name="guarded"),
    path("memory/<int:owner_id>/reveal/<int:message>/", guard.reveal, name="reveal"),
    # what expires
    path("expiry/", expiry.expiry_all, name="expiry_all"),
    path("memory/<int:owner_id>/expiry/", expiry.expiry_page, name="expiry"),
    path("memory/<int:owner_id>/expiry/<int:expirybatch>/", expiry.expiring, name="expiring"),
    path("erasures/", erasure.receipts, name="erasures"),
    path("erasures/<int:pk>/", erasure.receipt, name="erasure"),
    path("erasures/<int:pk>/verify/", erasure.receipt_verify, name="erasure_verify"),
    path("erasures/<int:pk>/file/", erasure.receipt_file, name="erasure_file"),
    # questions and their answers
    path("memory/<int:owner_id>/ask/", ask.ask, name="ask"),
    path("runs/<uuid:pk>/answer/", ask.answer, name="answer"),
    path("runs/<uuid:pk>/answer/sources/<int:n>/", ask.source, name="source"),
    path("runs/<uuid:pk>/answer/judge/", ask.judge, name="judge"),
    # recalls and their runs
    path("memory/<int:owner_id>/recall/", ask.recall, name="recall"),
    path("runs/", runs.run_list, name="runs"),
    path("runs/<uuid:pk>/", run.run, name="run"),
    path("runs/<uuid:pk>/compare/", compare.run_compare, name="run_compare"),
    path("runs/<uuid:pk>/grades/", run.run_grades, name="run_grades"),
    path("runs/<uuid:pk>/golden/", run.run_golden, name="run_golden"),
    path("runs/<uuid:pk>/lab/", compare.run_lab, name="run_lab"),
    path("runs/<uuid:pk>/lab/paraphrases/", compare.run_paraphrases, name="run_paraphrases"),
    path("runs/<uuid:pk>/charts/", runs.run_charts, name="run_charts"),
    path("runs/times/", runs.run_times, name="run_times"),
    path("runs/<uuid:pk>/causes/", compare.run_causes, name="run_causes"),
    path("compare/", compare.compared, name="compare"),
    path("memory/<int:owner_id>/several/", compare.several, name="several"),
    path("runs/<uuid:pk>/frame/", run.run_frame, name="run_frame"),
    path("runs/<uuid:pk>/below/", run.run_below, name="run_below"),
    path("runs/<uuid:pk>/filter/", filter_lab.filter_lab, name="filter_lab"),
    path("runs/<uuid:pk>/filter/effect/", filter_lab.filter_effect, name="filter_effect"),
    path("runs/<uuid:pk>/filter/preset/", filter_lab.filter_preset, name="filter_preset"),
    path("runs/<uuid:pk>/json/", run.run_json, name="run_json"),
    path("runs/<uuid:pk>/capsule/", run.run_capsule, name="run_capsule"),
    path("runs/open/", run.run_open, name="run_open"),
    path("runs/<uuid:pk>/stop/", run.run_stop, name="run_stop"),
    path("runs/<uuid:pk>/topics/<int:topic>/", run.run_topic, name="run_topic"),
    path("runs/<uuid:pk>/sessions/<int:session>/", run.run_session, name="run_session"),
    path("runs/<uuid:pk>/documents/<str:document>/", run.run_document, name="run_document"),
    path("runs/<uuid:pk>/items/<str:item>/", run.run_item, name="run_item"),
    path("runs/<uuid:pk>/context/<str:part>/", run.run_part, name="run_part"),
    path("runs/<uuid:pk>/media/<str:sha256>/", run.run_media, name="run_media"),
    # labelled questions through strategies
    path("evaluations/", evaluations.evaluations, name="evaluations"),
    path("evaluations/new/", evaluations.evaluation_new, name="evaluation_new"),
    path("evaluations/threshold/", threshold.threshold, name="threshold"),
    path("golden/", golden.golden_sets, name="golden_sets"),
    path("golden/<str:collection>/", golden.golden_set, name="golden_set"),
    path("golden/questions/<int:pk>/", golden.golden_question, name="golden_question"),
    path("evaluations/<int:pk>/stop/", evaluations.evaluation_stop, name="evaluation_stop"),
    path("evaluations/<int:pk>/", evaluations.evaluation, name="evaluation"),
    path("nights/", nights.nightly_list, name="nights"),
    path("nights/new/", nights.nightly_make, name="nightly_make"),
    path("nights/<int:pk>/", nights.nightly, name="nightly"),
    path("nights/<int:pk>/edit/", nights.nightly_edit, name="nightly_edit"),
    path("nights/<int:pk>/remove/", nights.nightly_remove, name="nightly_remove"),
    path("nights/<int:pk>/act/", nights.nightly_act, name="nightly_act"),
    # what agents asked the models
    path("agents/", agents.agents, name="agents"),
    path("agents/endpoint/", agents.endpoint_trial, name="endpoint_trial"),
    path("agents/<int:pk>/", agents.agent_call, name="agent_call"),
    # the prompts
    path("prompts/", prompts.prompts, name="prompts"),
    path("prompts/<str:name>/<str:language>/", prompts.prompt, name="prompt"),
    path("prompts/<str:name>/<str:language>/diff/", prompts.prompt_diff, name="prompt_diff"),
    path("prompts/<str:name>/<str:language>/<int:version>/", prompts.prompt_version, name="prompt_version"),
    path("runs/<uuid:pk>/fork/", run_fork.run_fork, name="run_fork"),
    path("runs/<uuid:pk>/delivered/", run.run_delivered, name="run_delivered"),
    path("runs/<uuid:pk>/why-not/", run.run_why_not, name="run_why_not"),
    path("runs/<uuid:pk>/prompt/", prompts.prompt_try, name="prompt_try"),
    # what memories are compared by
    path("embedding/", embedding.embedding, name="embedding"),
    path("embedding/<int:embeddingprofile>/", embedding.embedding_change, name="embedding_change"),
    path(
        "embedding/<int:embeddingprofile>/similarities/",
        embedding.embedding_similarities,
        name="embedding_similarities",
    ),
    # what programs may do
    path("tokens/", account.token_list, name="tokens"),
    path("tokens/make/", account.token_make, name="token_make"),
    path("tokens/<int:pk>/cap/", account.token_cap, name="token_cap"),
    path("tokens/<int:pk>/revoke/", account.token_revoke, name="token_revoke"),
    # who is told of what happens
    path("webhooks/", webhooks.webhook_list, name="webhooks"),
    path("webhooks/new/", webhooks.webhook_make, name="webhook_make"),
    path("webhooks/<int:pk>/", webhooks.webhook, name="webhook"),
    path("webhooks/<int:pk>/edit/", webhooks.webhook_edit, name="webhook_edit"),
    path("webhooks/<int:pk>/act/", webhooks.webhook_act, name="webhook_act"),
    path("webhooks/<int:pk>/secret/", webhooks.webhook_secret, name="webhook_secret"),
    path("webhooks/<int:pk>/delete/", webhooks.webhook_delete, name="webhook_delete"),
    # who looked
    path("audit/", audit.audit, name="audit"),
    # who may look
    path("operators/", operators.operator_list, name="operators"),
    path("operators/new/", operators.operator_make, name="operator_make"),
    path("operators/<int:pk>/", operators.operator, name="operator"),
    path("invitation/<str:uidb64>/<str:token>/", operators.invitation, name="operator_invitation"),
    # who looks, and how
    path("login/", account.login, name="login"),
    path("logout/", account.sign_out, name="logout"),
    *sign_on.addresses(),
    path("account/", account.account, name="account"),
    path("account/password/", account.password, name="password"),
    path("i18n/", account.language, name="language"),
    path("theme/", account.theme, name="theme"),
    # Its own page would let a password be guessed without a limit.
    path("admin/password_change/", RedirectView.as_view(pattern_name="password")),
    path("admin/", admin.site.urls),
    # for programs
    path("v1/", include("memoryapp.doors.api.urls")),
    path("", include("memoryapp.doors.mcp_server.endpoint")),
    # whether it works
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
