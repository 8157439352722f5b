"""The websocket's paths."""

from django.urls import path

from rerankui.consumers import RunConsumer

websocket_urlpatterns = [path("ws/runs/<uuid:pk>/", RunConsumer.as_asgi(), name="run_socket")]
