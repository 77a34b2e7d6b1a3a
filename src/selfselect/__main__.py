"""Run the command line with ``python -m selfselect``."""

from selfselect.cli.main import main

if __name__ == "__main__":
    main()
