"""`samebits defaults`: do two sources of configuration agree in keys, types and values?"""

from __future__ import annotations

from pathlib import Path

import click

from samebits.cli.common import guarded, require_reports, write_text


@click.command("defaults")
@click.argument("first")
@click.argument("second")
@click.option("--ignore", multiple=True, metavar="KEY", help="Leave a key out; takes shell patterns ('run_*').")
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the result as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write a table for a pull request.")
@guarded
def defaults(first: str, second: str, ignore: tuple[str, ...], json: Path | None, markdown: Path | None) -> int:
    """Hold the defaults of two sources against each other: a schema in Python and a YAML file, or any two.

    FIRST and SECOND are files (.yml, .yaml, .json, .toml) or module:Name of a dataclass, a pydantic model, a msgspec
    struct or a mapping. Keys, types and values must agree; a key given twice in a file is refused.

    Exit codes: 0 they agree, 1 they do not, 2 the request is wrong, 3 nothing was compared.
    """
    require_reports(json, markdown)
    from samebits.audit.defaults.compare import agree
    from samebits.audit.defaults.sources import read_source
    from samebits.report.defaults import DefaultsDocument, defaults_markdown, encode_defaults, show_defaults
    from samebits.report.terminal import console

    found = agree(read_source(first), read_source(second), ignore)
    document = DefaultsDocument(first=first, second=second, results=found)
    if json is not None:
        write_text(json, encode_defaults(document))
    if markdown is not None:
        write_text(markdown, defaults_markdown(document))
    show_defaults(console(), document)
    return 1 if found.disagreements else 0
