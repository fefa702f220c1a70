"""``python -m turnwise``: the command line, where the script ``turnwise`` is not on the path."""

from turnwise.cli import main

if __name__ == "__main__":
    main()
