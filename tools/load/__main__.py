"""The table: what a person waits for, and each sweep, beside more and more memories of others."""

import argparse
import time

import django


def main() -> None:
    asked = argparse.ArgumentParser(prog="python3 -m tools.load", description=__doc__)
    asked.add_argument("dsn", help="of a superuser, who copies rows without checking them again")
    asked.add_argument("--users", type=int, nargs="+", default=[50, 500])
    asked.add_argument("--topics", type=int, default=200, help="of each memory, with ten messages each")
    options = asked.parse_args()
    django.setup()

    # Models need the settings that the arguments do not.
    from django.core.management import call_command  # noqa: PLC0415

    from tools.load import measuring, multiplying  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    seed, made, steps = measuring.seed(options.topics), 1, {}
    for users in options.users:
        began = time.perf_counter()
        multiplying.multiply(options.dsn, seed, made, users - 1)
        made = users
        print(
            f"{users:,} memories, {users * options.topics * 10:,} messages: {time.perf_counter() - began:.0f} s",
            flush=True,
        )
        steps[users] = dict(measuring.measured(users))
    width = max(map(len, steps[made]))
    print(" " * width, *(f"{users:>10,}" for users in steps))
    for name in steps[made]:
        print(name.ljust(width), *(f"{found.get(name, 0) * 1e3:>8.0f}ms" for found in steps.values()))


if __name__ == "__main__":
    main()
