"""The person's door: words on a command line come in, exit codes and messages go out.

0 all good, 1 some pairs failed, 2 bad input or usage. It computes nothing itself.
"""

from pairframe.cli.app import main

__all__ = ["main"]
