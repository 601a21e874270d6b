"""The person's door: words on a command line come in, exit codes and messages go out.

0 all good, 1 some pairs failed, 2 bad input or usage. It computes nothing itself.
"""

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    # Only now: the worker processes of a run read the script that calls this again, and have no use for the rest.
    from pairframe.cli.app import main as run

    run()
