"""A new memory: a name, and the chat file with which it begins."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from memoryapp.accounts import operators
from memoryapp.models import Role
from rerankui.access import operator_of, requires
from rerankui.forms import MemoryForm
from rerankui.imports.import_file import largest_file
from rerankui.web import uploads


@require_http_methods(("GET", "HEAD", "POST"))
@requires(Role.CURATOR)
def memory_make(request: HttpRequest) -> HttpResponse:
    """The form of a new memory; a post makes it and leads to where its first file is given.

    A script that has the file already gets the address to which it may send it, or a sentence.
    """
    form = MemoryForm(request.POST if request.method == "POST" else None)
    has_script = "X-Upload" in request.headers
    if form.is_valid():
        made = operators.make_memory(form.cleaned_data["name"], operator_of(request), by=cast(User, request.user))
        if has_script:
            ticket = uploads.ticket(made.pk, int(request.user.pk or 0))
            there = reverse("import_upload", args=[made.pk, ticket])
            return HttpResponse(status=201, headers={"Location": there})
        messages.success(request, _("The memory of %(name)s exists now. Give it a chat.") % {"name": made})
        return redirect("imports", made.pk)
    if form.is_bound and has_script:
        return HttpResponse(
            " ".join(map(str, form.errors["name"])), status=422, content_type="text/plain; charset=utf-8"
        )
    context = {"form": form, "most_bytes": settings.IMPORT_MAX_BYTES, "most": largest_file()}
    return render(request, "pages/imports/memory_make.html", context, status=422 if form.is_bound else 200)
