"""The websocket's paths."""

from typing import Any

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from rerankui.runs.consumers import AnswerConsumer, RunConsumer

websocket_urlpatterns = [
    path("ws/runs/<uuid:pk>/", RunConsumer.as_asgi(), name="run_socket"),
    path("ws/runs/<uuid:pk>/answer/", AnswerConsumer.as_asgi(), name="answer_socket"),
]
# A path that is none is refused; the router alone would raise, and the server log a fault.
sockets: Any = URLRouter([*websocket_urlpatterns, re_path("", WebsocketDenier.as_asgi())])
