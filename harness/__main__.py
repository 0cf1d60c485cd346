"""`python -m harness` is `samebits`."""

from harness.cli import main

if __name__ == "__main__":
    main(prog_name="samebits")
