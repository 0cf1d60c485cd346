"""Documents that samebits wrote, of each command that writes one, of honest pairs and of planted faults.

`documents/` holds them as the command in their name wrote them, cut down to a few results. They are not rewritten when
a record gets a new key: an older document must open.
"""

from pathlib import Path

from samebits.report.any_document import read_any_document

FOLDER = Path(__file__).parent / "documents"
SAMPLES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def sample(name: str) -> object:
    """The document of this name, as its record."""
    return read_any_document(FOLDER / f"{name}.json")
