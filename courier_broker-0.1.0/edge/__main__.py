"""`python -m edge` is `courier-edge`."""

from edge.cli import main

if __name__ == "__main__":
    main()
