"""``verify_erasure RECEIPT``: looks for what an erasure left behind; exit code 1 and a line for each place."""

from argparse import ArgumentParser
from itertools import islice
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from memoryapp.erasure import compare, scanner, uncompared
from memoryapp.management.arguments import MemoryCommand


class Command(MemoryCommand):
    help = "Reads every text, JSON, array and binary column and every file of the data folder for erased words."
    refusals = (scanner.UnreadableReceipt,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("receipt", metavar="RECEIPT", help="the number of a receipt, or its file")

    def handle(self, *args: Any, receipt: str, **options: Any) -> None:
        for row in uncompared():
            compare(row)
        sought = scanner.receipt(receipt)
        found = [residue.place for residue in islice(scanner.residues(sought), scanner.MOST_FOUND)]
        report = {"marks": len(sought.hashes), "share": sought.share, "residue": found}
        self.answer(report, *(found or [_("No erased text was found.")]), as_json=options["json"])
        if sought.remark:
            self.stderr.write(sought.remark)
        if found:
            raise CommandError(_("Erased words were found in %(count)s places.") % {"count": len(found)})
