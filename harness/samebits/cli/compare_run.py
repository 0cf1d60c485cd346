"""The work of `samebits compare`, and of `samebits prove` of two functions. To be imported after `prepare`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from samebits.check.contract_audit import ANY_DEVICES
from samebits.check.prove_points import prove_points
from samebits.cli.check_run import CheckTask, check_document, load_inputs, swept
from samebits.cli.compare import CompareFunctionsOptions, in_options
from samebits.cli.pipeline import CommandRun
from samebits.cli.prove import ProveOptions
from samebits.cli.prove_run import INTERRUPTED, proof_document
from samebits.engine.verdict_cache import IN_PROCESS
from samebits.errors import CouldNotRun, DeclarationError, RequestError
from samebits.functions.as_pair import MESH, check_renames, side_names, split_by_default, takes_mesh
from samebits.functions.call_assumptions import with_call_assumptions
from samebits.functions.compare import function_plan, function_request, pair_mesh, session, to_prove, with_gradients
from samebits.host.backend_start import require_answer
from samebits.host.isolation import note, take_notes
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import function_named, order_remark
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.report.check import Document
from samebits.report.prove import ProofDocument, pair_block
from samebits.rooms import door
from samebits.schema.argument_text import EXAMPLES, argument_word, parse_arguments
from samebits.schema.argument_trees import argument_tree
from samebits.schema.case import Arg, Case, ContextMesh
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import WIDEST, Pair
from samebits.schema.point import Effort
from samebits.schema.values import Integers, Normal


def compare_functions(chosen: CompareFunctionsOptions, run: CommandRun) -> Document:
    """Compare two functions, in this process; messages name options in place of the entries of a declaration."""
    run.worded = lambda text: re.sub(r"^pair '\w+': ", "", in_options(text))  # the problem names the functions itself
    assuming = not chosen.no_assumptions
    effort = Effort(assuming=assuming, budget=chosen.budget)
    task = CheckTask(request=Request(), settings=IN_PROCESS, effort=effort, audited=False)
    if chosen.platform is not None:  # before code of the user's is imported, which may take long
        require_answer()
    locator, pair = (
        Locator(name=f"{chosen.reference} {chosen.variant}", rerun=chosen.words()),
        functions_as_pair(chosen),
    )
    inputs = load_inputs(task, [(locator, pair)], _selection(pair), run)
    here = inputs.environment
    inputs = replace(inputs, loaded=[_differentiated(run, item, here.devices) for item in inputs.loaded])
    results: list[Finding] = []
    with run.partial(), contextlib.closing(swept(task, inputs, run)) as rows:
        for result in rows:
            results.append(
                result.with_ruling(reason=_said(result.ruling.reason), evidence=_said(result.ruling.evidence))
            )
            if run.stop.asked:
                break
    for item in inputs.loaded:
        results = [*with_call_assumptions(results, item.pair, session().use(item.pair.name), assuming=assuming)]
    if not all(result.ruling.ok for result in results):
        run.notes += anything_drawn(chosen.arg)
    return check_document(task, inputs, run, results)


def prove_functions(chosen: ProveOptions, functions: CompareFunctionsOptions, run: CommandRun) -> ProofDocument:
    """Prove two functions, in this process, and say what they leave at its default."""
    pair = functions_as_pair(functions)
    here = run.start_backend()
    try:
        pair, notes = to_prove(pair, "all" if chosen.all_sizes else None)
    except DeclarationError as error:
        raise DeclarationError(in_options(str(error))) from error
    run.notes += notes
    again = functions.words("prove") + (" --all-sizes" if chosen.all_sizes else "")
    locator = Locator(name=f"{functions.reference} {functions.variant}", rerun=again)
    item = LoadedPair(locator=locator, pair=pair, plan=function_plan(pair, ANY_DEVICES))
    points, assuming = (pair, locator, item.plan, chosen.platform), not chosen.no_assumptions
    results: list[Finding] = []
    with run.partial(INTERRUPTED):
        proofs = (
            door("sizes.points").prove_sizes(*points) if chosen.all_sizes else prove_points(*points, assuming=assuming)
        )
        for row in with_call_assumptions([*proofs], pair, session().use(pair.name), assuming=assuming):
            results.append(row.with_ruling(reason=_said(row.ruling.reason)))
        run.notes += take_notes()
        if not all(row.ruling.ok for row in results):
            run.notes += anything_drawn(functions.arg)
        if chosen.verbose:
            run.show([pair_block(pair.name, results)])
    run.pairs = [pair]
    return proof_document(run, here, [item], results)


def _differentiated(run: CommandRun, item: LoadedPair, devices: int) -> LoadedPair:
    """Return functions without the gradients that there are none of, with a note about those."""
    mesh = pair_mesh(item.pair)
    try:
        pair, notes = with_gradients(item.pair, session().use(item.pair.name), mesh.build(item.pair.modes[0]))
    except CouldNotRun:  # running it gives the error, with its line
        return item
    except DeclarationError as error:
        raise DeclarationError(in_options(str(error))) from error
    run.notes += notes
    return item if pair is item.pair else replace(item, pair=pair, plan=plan(pair, _selection(pair), devices))


def _selection(pair: Pair) -> Request:
    """Select the second function; on a mesh the first one there too."""
    # By its name a mesh must fit; what is only declared is left out where it does not.
    return replace(function_request(pair), meshes=(*pair.meshes, *pair.wide_meshes))


def _said(text: str | None) -> str | None:
    return None if text is None else in_options(text)


def anything_drawn(words: Sequence[str]) -> list[str]:
    """Note the arguments whose integers are drawn from all of their dtype, such as indices out of range."""
    stated = Integers(low=0, high=8)
    whole = [
        f"{argument_word(name, arg)} (as in {argument_word(name, replace(arg, values=stated))})"
        for name, arg in parse_arguments(words).items()
        if isinstance(arg.values, Normal) and str(arg.dtype).startswith(("int", "uint"))
    ]
    if not whole:
        return []
    return [
        "no range is given for these integers, so they were drawn from all values of their dtype, and indices may be "
        f"negative or out of range: {', '.join(whole)}"
    ]


def _check_axes(args: Mapping[str, Arg], mesh: MeshSpec) -> None:
    """Reject an argument that is split over an axis which the mesh of the command lacks."""
    known = [name for name, _ in mesh.axes]
    for name, arg in args.items():
        for entry in arg.spec:
            for axis in (entry,) if isinstance(entry, str) else entry or ():
                if known and axis not in known:
                    raise RequestError(
                        f"--arg {argument_word(name, arg)}: mesh '{mesh.id}' has no axis '{axis}'; expected some of "
                        + ", ".join(known)
                    )


def functions_as_pair(chosen: CompareFunctionsOptions) -> Pair:
    """Return the functions as a pair."""
    args = parse_arguments(chosen.arg)
    if not args:
        raise RequestError(
            f"no --arg: nothing would be compared; declare what {chosen.reference} takes, as in {EXAMPLES}"
        )
    _check_axes(args, MeshSpec.parse(chosen.mesh))
    if chosen.mode == "auto":
        trees, remark = split_by_default(
            {name: argument_tree(name, arg) for name, arg in args.items()}, MeshSpec.parse(chosen.mesh)
        )
        args = {name: tree.args[0] for name, tree in trees.items()}
        if remark is not None:
            note(remark)
    reference, variant = (function_named(name) for name in (chosen.reference, chosen.variant))
    first, second = side_names(reference, variant, (chosen.reference, chosen.variant))
    floats = [arg.dtype for arg in args.values() if "float" in str(arg.dtype)]
    mesh = MeshSpec.parse(chosen.mesh)
    narrow = mesh.devices <= WIDEST
    statics = chosen.statics()
    if MESH not in {*statics, *args} and any(takes_mesh(side, mesh) for side in (reference, variant)):
        if not mesh.axes:
            raise RequestError("the functions take the parameter 'mesh'; give one, as in --mesh dp2_tp4")
        statics[MESH] = ContextMesh()
    renamed = chosen.renamed()
    check_renames(renamed, (*args, *statics), variant, "--rename", by_name=True)
    order = order_remark(reference, variant, [name for name in (*args, *statics) if name not in renamed], {}, second)
    if order is not None:
        note(order)
    return Pair(
        name=f"{first}_{second}",
        reference=reference,
        variants={second: variant},
        args=args,
        cases=tuple(Case(id="call" if seed == 0 else f"call_{seed}", statics=statics) for seed in range(chosen.seeds)),
        dtypes=(str((floats or [arg.dtype for arg in args.values()])[0]),),
        meshes=(chosen.mesh,) if narrow else (),
        wide_meshes=() if narrow else (chosen.mesh,),
        modes=(chosen.mode,),  # type: ignore[arg-type]
        contracts=(Contract(lowest=chosen.accept, reason="--accept"),) if chosen.accept else (),
        gradients=not chosen.forward,
        has_aux=chosen.has_aux,
        accuracy=chosen.accuracy,
        rename=renamed,
        ignore=chosen.ignore,
    )
