"""``verify_erasure RECEIPT``: looks for what an erasure left behind; exit code 1 and a line for each place."""

import json
from argparse import ArgumentParser
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from memoryapp.erasure import scanner


class Command(BaseCommand):
    help = "Reads every text, JSON, array and binary column and every file of the data folder for erased words."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("receipt", metavar="RECEIPT", help="the number of a receipt, or its file")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, receipt: str, **options: Any) -> None:
        try:
            sought = scanner.receipt(receipt)
        except scanner.UnreadableReceipt as error:
            raise CommandError(error) from None
        found = [residue.place for residue in islice(scanner.residues(sought), scanner.MOST_FOUND)]
        if options["json"]:
            self.stdout.write(
                json.dumps({"marks": len(sought.hashes), "share": sought.share, "residue": found}, ensure_ascii=False)
            )
        else:
            for place in found:
                self.stdout.write(place)
            if not found:
                self.stdout.write(_("No erased text was found."))
        if sought.remark:
            self.stderr.write(sought.remark)
        if found:
            raise CommandError(_("Erased words were found in %(count)s places.") % {"count": len(found)})
