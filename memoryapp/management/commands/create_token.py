"""``create_token NAME --scope recall,read [--user NAME …]``: makes an API token and prints it once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from memoryapp.engine.parameters import WHEN_UNSURE
from memoryapp.management.arguments import MemoryCommand, named_user, project, utf8
from memoryapp.models import ApiToken
from memoryapp.models.user import CAP_USD
from memoryapp.platform.accounts import tokens
from memoryapp.platform.sights import NotByProject

GRANTED = [scope for scope in ApiToken.Scope if scope != ApiToken.Scope.EVERYONE]


class Command(MemoryCommand):
    refusals = (NotByProject,)
    help = "Makes an API token and prints it, this once; the database stores only its digest."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", type=utf8, metavar="NAME", help="the program or person the token is for")
        parser.add_argument("--scope", required=True, metavar="SCOPES", help=f"one or more of {','.join(GRANTED)}")
        parser.add_argument(
            "--user",
            type=utf8,
            nargs="+",
            action="extend",
            default=[],
            metavar="NAME",
            help="only these chat users' memories",
        )
        parser.add_argument(
            "--project", type=project, action="append", metavar="NAME", help="only what has this label; may be repeated"
        )
        parser.add_argument(
            "--when-unsure",
            choices=WHEN_UNSURE,
            default="",
            help="what is handed over where the embedded scorer chooses nothing",
        )
        parser.add_argument("--daily-cap", type=float, metavar="USD", help="what its questions may cost a day")

    def handle(self, *, name: str, scope: str, user: list[str], **options: Any) -> None:
        scopes = _scopes(scope)
        with transaction.atomic():
            owners = [named_user(each) for each in dict.fromkeys(user)]
            name = name.strip()
            if not name or len(name) > 200 or not name.isprintable():
                raise CommandError("A token's name is one line of at most 200 characters.")
            cap = options["daily_cap"]
            if cap is not None and not CAP_USD[0] <= cap <= CAP_USD[1]:
                raise CommandError("A cap is between 0 and 1,000,000 dollars a day.")
            given = {"when_unsure": options["when_unsure"], "daily_cap_usd": cap, "projects": options["project"]}
            token, text = tokens.make(name, scopes, owners, **given)
        document = {"token": text, "name": token.name, "scopes": scopes, "users": [owner.name for owner in owners]}
        self.answer(document, text, as_json=options["json"])
        if not options["json"]:
            whose = ", ".join(document["users"]) or "every memory"
            self.stderr.write(f"It opens {whose} for: {', '.join(scopes)}. Keep it; it is not shown again.")


def _scopes(option: str) -> list[ApiToken.Scope]:
    words = [word.strip() for word in option.split(",") if word.strip()]
    unknown = [word for word in words if word not in GRANTED]
    if unknown or not words:
        fault = f"There is no scope “{unknown[0]}”." if unknown else "--scope names no scope."
        raise CommandError(f"{fault} Choose some of: {', '.join(GRANTED)}.")
    return [scope for scope in GRANTED if scope in words]
