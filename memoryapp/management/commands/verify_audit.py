"""``verify_audit [--expect PLACE:SEAL]``: checks the chain of the audit log; exit code 1 and a line for each break."""

import json
from argparse import ArgumentParser
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from memoryapp.management.arguments import utf8
from memoryapp.platform.audit import chain

MOST_SHOWN = 1_000


class Command(BaseCommand):
    help = "Checks that no sealed entry of the audit log was changed or taken out."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--expect", type=utf8, metavar="PLACE:SEAL", help="a seal noted elsewhere, which must still be there"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, expect: str | None, **options: Any) -> None:
        found = [{"place": place, "fault": fault} for place, fault in islice(chain.faults(), MOST_SHOWN)]
        if expect is not None:
            place, _colon, seal = expect.partition(":")
            if not place.isdecimal() or len(place) > len(str(2**62)):
                raise CommandError("--expect takes the place and the seal of an entry, such as 120:9f86d081….")
            if not chain.sealed().filter(place=int(place), seal=seal).exists():
                found.append({"place": int(place), "fault": "expected"})
        last = chain.sealed().last()
        if options["json"]:
            newest = {"place": last.place, "seal": last.seal} if last else None
            self.stdout.write(json.dumps({"faults": found, "last": newest}))
        else:
            for each in found:
                self.stdout.write(f"{each['place']} {each['fault']}")
            if last:
                self.stdout.write(f"{last.place}:{last.seal}")
        if found:
            raise CommandError(_("The chain of the audit log is broken in %(count)s places.") % {"count": len(found)})
