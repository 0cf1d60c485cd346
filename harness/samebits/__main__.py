"""`python -m samebits` is `samebits`."""

from samebits.cli import main

if __name__ == "__main__":
    main(prog_name="samebits")
