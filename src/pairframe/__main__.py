"""`python -m pairframe` is the `pairframe` command."""

from pairframe.cli import main

if __name__ == "__main__":
    main()
