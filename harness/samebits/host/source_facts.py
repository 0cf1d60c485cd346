"""What the text of a Python file says of what else it depends on: imports and environment variables."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ALL = "*"
"""The name that is imported by `from module import *`."""

_IMPORTERS = ("import_module", "__import__", "resolve_name", "find_spec", "run_module", "import_plugin", "locate")
"""Functions that import a module by its name, whatever they are called through."""

_RUN_TEXT = ("exec", "eval")
"""Functions that run a text, which may import and read anything."""

_RUN_FILE = ("run_path", "SourceFileLoader", "SourcelessFileLoader")
"""Functions that run a file, which need not have a name as Python files do."""

_FIND_MODULES = ("EntryPoint", "entry_points", "iter_entry_points", "load_entry_point", "addsitedir")
"""What imports modules that others name, or that lie in folders that others name."""

_ENVIRONS, _GETENVS = ("environ", "environb"), ("getenv", "getenvb")

_VARIABLES_OF: Mapping[str, tuple[str, ...]] = {
    "tempfile": ("TMPDIR", "TEMP", "TMP"),
    "getpass": ("LOGNAME", "USER", "LNAME", "USERNAME"),
    "locale": ("LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_NUMERIC", "LC_TIME", "LANG", "LANGUAGE"),
    "time": ("TZ",),
    "datetime": ("TZ",),
    "zoneinfo": ("PYTHONTZPATH",),
}
"""Variables that modules of Python's own read."""

_TELLING = re.compile("|".join((*_IMPORTERS, *_RUN_TEXT, *_RUN_FILE, *_FIND_MODULES, "env", "vars", "sys")).encode())
"""What the text of a file has that does more than import modules by their names."""

_HOST = re.compile(
    rb"\b(?:gethostname|getfqdn|nodename|uname|platform[^\w\n]+node|from\s+platform\s+import)\b"
    rb"|^[ \t]*import\b[^\n]*\bplatform\s+as\b",
    re.MULTILINE,
)
"""How a text names what returns the name of the machine; of `platform` by another name, everything counts."""

_SEARCH_PATH = re.compile(
    rb"\bshutil[^\w\n]+which\b|\bget_exec_path\b|\bfrom\s+shutil\s+import\b[^\n]*(?:\bwhich\b|[*(])|\bshutil\s+as\b"
)
"""How a text names what looks for programs in the folders of the variable PATH."""

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+")
"""A name with its module, as libraries take them from configurations."""

_IMPORT_LINE = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)

_READERS = ("get", "pop", "setdefault", "__getitem__", "__contains__")
"""Methods of `os.environ` whose first argument is the variable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """One import.

    Args:
        module: the dotted name, empty for `from . import x`.
        level: how many dots are before it.
        names: what is imported from it, each of which may be a module.
    """

    module: str
    level: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFacts:
    """What a file depends on, as its text says.

    Args:
        imports: imports anywhere in the file, those inside of functions included.
        variables: environment variables that it reads by a literal name.
        whole_environment: whether it reads others, or passes the environment on.
        computed_imports: whether it imports modules by names that it computes.
        named: what its texts name that may be modules, for libraries that import what a text names.
        host: whether it reads the name of the machine.
    """

    imports: tuple[Imported, ...] = ()
    variables: tuple[str, ...] = ()
    whole_environment: bool = False
    computed_imports: bool = False
    named: frozenset[str] = frozenset()
    host: bool = False


@functools.lru_cache(maxsize=4096)
def facts_of(source: bytes) -> SourceFacts:
    """The facts of a file's text; of a file that is no Python, none: it cannot be imported either."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # the import of such a file fails, with a message of its own
        return SourceFacts()
    except (RecursionError, MemoryError):  # an expression of thousands of operators, as in a generated table
        imports = tuple(_import_lines(source))
        return SourceFacts(imports=imports, whole_environment=True, computed_imports=True, host=True)
    reader = _Reader(tree)
    try:
        if _TELLING.search(source):  # most files have imports alone, for which it need not be visited
            reader.visit(tree)
    except RecursionError:  # an expression of a thousand operators: what it reads may be anything
        reader.whole_environment = reader.computed_imports = True
    return SourceFacts(
        imports=tuple(dict.fromkeys(reader.imports)),
        variables=tuple(sorted(reader.variables | ({"PATH"} if _SEARCH_PATH.search(source) else set()))),
        whole_environment=reader.whole_environment,
        computed_imports=reader.computed_imports,
        named=frozenset(reader.named),
        host=_HOST.search(source) is not None,
    )


def names_in(text: str) -> frozenset[str]:
    """What a text names that may be modules: of `package.module.function`, each part from the first."""
    names = set()
    for dotted in (part for match in _DOTTED.finditer(text) for part in match[0].split(":")):
        parts = dotted.split(".")
        names |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return frozenset(names)


def _import_lines(source: bytes) -> Iterator[Imported]:
    """The imports of a file that cannot be parsed, from its lines; of a package, any module may be imported."""
    for match in _IMPORT_LINE.finditer(source.decode("utf-8", "replace")):
        if match[1]:
            module = match[1].lstrip(".")
            yield Imported(module=module, level=len(match[1]) - len(module), names=(ALL,))
        else:
            yield from (Imported(module=part.split()[0]) for part in match[2].split(",") if part.split())


class _Reader(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.imports: list[Imported] = []
        self.variables: set[str] = set()
        self.whole_environment = self.computed_imports = self._star = False
        nodes = list(ast.walk(tree))
        self._constants: dict[str, str] | None = None
        self._nodes, self._tree = nodes, tree
        self._environ: set[str] = set()
        self._getenv: set[str] = set()
        self._importers = set(_IMPORTERS)
        self._inside = 0
        self._sys = {"sys"}
        self.named: set[str] = set()
        documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Import):
                self.imports += [Imported(module=alias.name) for alias in node.names]
                self._sys |= {alias.asname for alias in node.names if alias.asname and alias.name == "sys"}
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.Constant):  # as in getattr(os, "environ")
                self.whole_environment = self.whole_environment or node.value in (*_ENVIRONS, *_GETENVS)
                self.computed_imports = self.computed_imports or node.value in _IMPORTERS
                if isinstance(node.value, str) and id(node) not in documented:
                    self.named |= names_in(node.value)
        self.variables |= {
            name for module in self.imports for name in _VARIABLES_OF.get(module.module.partition(".")[0], ())
        }
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        if not self._environ | self._getenv <= {*used, *(("environ", "getenv") if self._star else ())}:
            self.whole_environment = True  # it is there for others to import

    def _import_from(self, node: ast.ImportFrom) -> None:
        names = tuple(alias.name for alias in node.names)
        self.imports.append(Imported(module=node.module or "", level=node.level, names=names))
        self._importers |= {alias.asname for alias in node.names if alias.asname and alias.name in _IMPORTERS}
        self._environ |= {alias.asname or alias.name for alias in node.names if alias.name in _ENVIRONS}
        self._getenv |= {alias.asname or alias.name for alias in node.names if alias.name in _GETENVS}
        renamed = {alias.name for alias in node.names if alias.asname not in (None, alias.name)}
        # Another file may import it under that name, by which it is not known there.
        self.whole_environment = self.whole_environment or not renamed.isdisjoint((*_ENVIRONS, *_GETENVS))
        taken = node.module == "sys" and not {"modules", "path"}.isdisjoint(names)
        self.computed_imports = self.computed_imports or taken or not renamed.isdisjoint(_IMPORTERS)
        if names == (ALL,) and node.module == "os":
            self._star = True
            self._environ.add("environ")
            self._getenv.add("getenv")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if isinstance(function, ast.Name) and name in _RUN_TEXT:
            self.whole_environment = self.computed_imports = True
        first = self._text(node.args[0]) if node.args else None
        if name in self._importers and first is None:
            self.computed_imports = True
        elif name in self._importers and first is not None:
            module = first.partition(":")[0]
            self.imports.append(Imported(module=module.lstrip("."), level=len(module) - len(module.lstrip("."))))
            package = [self._text(value) for value in (*node.args[1:2], *(word.value for word in node.keywords))]
            if module.startswith(".") and package and package[0]:
                self.imports.append(Imported(module=package[0], names=(module.lstrip(".").partition(".")[0],)))
        mapping = function.value if isinstance(function, ast.Attribute) and function.attr in _READERS else None
        if mapping is not None and self._is_environ(mapping):
            self._read(first)
        elif mapping is not None and self._is_of_sys(mapping, "modules"):
            self._loaded(node.args[0] if node.args else None)
        elif name == "expandvars" or (name in ("getenv", "getenvb") and isinstance(function, ast.Attribute)):
            self._read(first if name != "expandvars" else None)
        elif isinstance(function, ast.Name) and name in self._getenv:
            self._read(first)
        elif name not in self._importers:
            self.visit(function)
        elif isinstance(function, ast.Attribute):
            self.visit(function.value)
        for argument in (*node.args, *node.keywords):
            self.visit(argument)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._is_environ(node.value):
            self._read(self._text(node.slice))
        elif self._is_of_sys(node.value, "modules"):
            self._loaded(node.slice)
        else:
            self.visit(node.value)
        self.visit(node.slice)

    def visit_Compare(self, node: ast.Compare) -> None:
        right = node.comparators[0]
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn) and self._is_environ(right):
            self._read(self._text(node.left))
            self.visit(node.left)
        else:
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._is_environ(node) or node.attr in ("getenv", "getenvb"):  # passed on, or gone through
            self.whole_environment = True
        self._named(node.attr)
        # Folders that are put on the path while it runs; before that, they are on the path when sources are sought.
        late = self._inside > 0 and self._is_of_sys(node, "path")
        bound = node.attr in _IMPORTERS  # to another name
        self.computed_imports = self.computed_imports or bound or late or self._is_of_sys(node, "modules")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if self._is_environ(node) or node.id in self._getenv:
            self.whole_environment = True
        self._named(node.id)
        self.computed_imports = self.computed_imports or node.id in self._importers

    def _named(self, name: str) -> None:
        """Note a function that imports or runs what its text does not say."""
        self.whole_environment = self.whole_environment or name in _RUN_FILE
        self.computed_imports = self.computed_imports or name in _RUN_FILE or name in _FIND_MODULES

    def _loaded(self, node: ast.expr | None) -> None:
        """Note a module that is taken from `sys.modules`."""
        module = None if node is None else self._text(node)
        if module is not None:
            self.imports.append(Imported(module=module))
        elif not (isinstance(node, ast.Name) and node.id == "__name__"):
            self.computed_imports = True

    def _is_environ(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in ("environ", "environb")
        return isinstance(node, ast.Name) and node.id in self._environ

    def _is_of_sys(self, node: ast.expr, name: str) -> bool:
        """Whether it is `sys.path` or `sys.modules`, as `name` says."""
        return isinstance(node, ast.Attribute) and node.attr == name and getattr(node.value, "id", None) in self._sys

    def _read(self, variable: str | None) -> None:
        if variable is None:
            self.whole_environment = True
        else:
            self.variables.add(variable)

    def _text(self, node: ast.expr) -> str | None:
        """The text of a literal, or of a constant of the module."""
        if isinstance(node, ast.Constant):
            value = node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
            return value if isinstance(value, str) else None
        if not isinstance(node, ast.Name):
            return None
        if self._constants is None:
            self._constants = dict(_constants(self._tree, self._nodes))
        return self._constants.get(node.id)


def _constants(tree: ast.Module, nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """The texts that the module binds to a name once, and nothing else binds."""
    bound: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] = bound.get(node.id, 0) + 1
        elif isinstance(node, ast.arg):
            bound[node.arg] = 2
        elif isinstance(node, ast.alias):
            bound[node.asname or node.name.partition(".")[0]] = 2
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound[node.name] = 2
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            for target in statement.targets:
                if isinstance(target, ast.Name) and isinstance(statement.value.value, str) and bound[target.id] == 1:
                    yield target.id, statement.value.value
