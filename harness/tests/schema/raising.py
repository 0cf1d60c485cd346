"""Which `raise` statements of a module a table of wrong declarations reaches, so that no message goes untested."""

import ast
import inspect
import traceback
from collections.abc import Callable, Iterable
from types import ModuleType


def raise_statements(module: ModuleType) -> dict[int, str]:
    """The first line and the text of each `raise` with an exception of its own."""
    tree = ast.parse(inspect.getsource(module))
    return {node.lineno: ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc}


def raised_at(call: Callable[[], object], module: ModuleType) -> set[int]:
    """The lines of a module's `raise` statements that a call ends at; a call that ends well has none."""
    try:
        call()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1]
        return {last.lineno} if last.filename == module.__file__ and last.lineno is not None else set()
    return set()


def unreached(module: ModuleType, calls: Iterable[Callable[[], object]]) -> list[str]:
    """The texts of the `raise` statements that none of the calls reaches."""
    reached: set[int] = set().union(*(raised_at(call, module) for call in calls))
    return [text for line, text in raise_statements(module).items() if line not in reached]
