"""Finds the pairs of a tree: three files with one name, `PAIR` in the suite file, no registry."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import DeclarationError, RequestError
from samebits.host.loading import load_file, load_module, load_standalone_file
from samebits.programs.other_sizes import at_sizes, read_sizes
from samebits.rooms import door
from samebits.schema.pair import Pair

SUITES = "suites"
FOLDERS = ("reference_impls", "optimized_impls", SUITES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Locator:
    """Where a pair is declared: a tree and a name, or a module or file and a name in it.

    Small enough to send to another process.

    Args:
        name: of the pair, or `module:PAIR`, or `FILE.py:PAIR`.
        root: the tree, None for the current folder.
        rerun: what shows any result of the pair again, where that is not a command about a declared pair.
        sizes: those that cases have in place of their declared ones, as in `length=64,cp=16`.
        target: a slice whose compiler's programs are the pair's variants; empty for what is declared.
        products: how these take products: `full`, or `bf16` in passes.
    """

    name: str
    root: str | None = None
    rerun: str | None = None
    sizes: str = ""
    target: str = ""
    products: str = "full"

    def __str__(self) -> str:
        return self.name


def default_root() -> Path:
    """Return the current folder, which must be a tree of pairs."""
    folder = Path.cwd()
    if not (folder / SUITES).is_dir():
        raise RequestError(
            f"'{folder}' has no pairs: expected suites/test_NAME.py in it; `samebits new NAME` writes a first one, "
            "--root TREE takes another tree, --builtin the pairs that samebits brings along"
        )
    return folder


def names(root: Path) -> list[str]:
    """Return the names of the pairs of a tree, sorted, found without importing anything.

    Files that begin with `_` and sub-folders are not pairs.
    """
    if not any((root / folder).is_dir() for folder in FOLDERS):
        raise RequestError(
            f"'{root}' has no pairs: expected the folders reference_impls/, optimized_impls/ and suites/ in it"
        )
    stems = sorted({name for folder in FOLDERS for name in _stems(root, folder)})
    if not stems:
        raise RequestError(
            f"'{root}' has no pairs yet: write reference_impls/NAME.py, optimized_impls/NAME.py and suites/test_NAME.py"
        )
    return stems


def load(locator: Locator) -> Pair:
    """Return the declaration of a pair, at the sizes of the locator; of its compiled programs where it has a target."""
    declared = _declaration(locator)
    pair = at_sizes(declared, read_sizes((locator.sizes,))) if locator.sizes else declared
    if not locator.target:
        return pair
    compiled: Pair = door("compile.executed").compiled_pair(pair, locator.target, in_passes=locator.products == "bf16")
    return compiled


def _declaration(locator: Locator) -> Pair:
    if ":" in locator.name:
        place, _, attribute = locator.name.rpartition(":")
        if place.endswith(".py"):
            if not Path(place).is_file():
                raise RequestError(f"pair '{locator.name}': there is no file '{place}' in '{Path.cwd()}'")
            return _pair_of(load_standalone_file(Path(place)), attribute, place)
        return _pair_of(load_module(place), attribute, f"module '{place}'")
    if locator.name.endswith(".py"):
        raise RequestError(f"pair '{locator.name}' is a file; add the name of the declaration: {locator.name}:PAIR")
    root = Path(locator.root) if locator.root else default_root()
    known = names(root)
    if locator.name not in known:
        raise RequestError(f"pair '{locator.name}' is unknown; {suggest(locator.name, known)}")
    missing = [_file(root, folder, locator.name) for folder in FOLDERS]
    missing = [path for path in missing if not path.is_file()]
    suite = _file(root, SUITES, locator.name)
    if suite in missing:
        raise DeclarationError(_missing(locator.name, missing))
    pair = _pair_of(load_file(suite), "PAIR", str(suite))
    if pair.name != locator.name:
        raise DeclarationError(
            f"{suite} declares PAIR with name='{pair.name}'; expected '{locator.name}', as in its file name"
        )
    # A pair that names its functions by module needs no twin files.
    plain = [side for side in (pair.reference, *_declared(pair)) if isinstance(side, str) and ":" not in side]
    if missing and plain:
        raise DeclarationError(_missing(locator.name, missing))
    return pair


def suggest(name: str, known: list[str]) -> str:
    """Return the nearest names to a misspelt one, or all of them."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(known)}"


def _declared(pair: Pair) -> tuple[object, ...]:
    return tuple(pair.variants.values()) if not isinstance(pair.variants, tuple) else pair.variants


def _missing(name: str, missing: list[Path]) -> str:
    files = " and ".join(str(path) for path in missing)
    return f"pair '{name}' lacks {'a twin' if len(missing) == 1 else 'twins'}: write {files}"


def _file(root: Path, folder: str, name: str) -> Path:
    return root / folder / (f"test_{name}.py" if folder == SUITES else f"{name}.py")


def _stems(root: Path, folder: str) -> list[str]:
    if (root / folder).is_dir() and not os.access(root / folder, os.R_OK | os.X_OK):
        raise RequestError(f"'{root / folder}' cannot be read: its permissions do not allow it")
    files = [path.stem for path in (root / folder).glob("*.py") if not path.stem.startswith("_")]
    if folder == SUITES:
        return [stem.removeprefix("test_") for stem in files if stem.startswith("test_")]
    return files


def _pair_of(module: object, attribute: str, where: str) -> Pair:
    pair = getattr(module, attribute, None)
    if not isinstance(pair, Pair):
        actual = "nothing" if pair is None else f"a {type(pair).__name__}"
        others = [name for name, value in vars(module).items() if isinstance(value, Pair)]
        known = f"; its pairs are {', '.join(others)}" if others else ""
        raise DeclarationError(
            f"{where} has {actual} under the name '{attribute}'; expected {attribute} = Pair(...){known}"
        )
    return pair
