"""Two sources of configuration, a schema and a YAML file: every key, every type, every bit of every value."""

from __future__ import annotations

from samebits import Arg, Case, Contract, Documented, Pair, pair_test

PAIR = Pair(
    name="declared_defaults",
    reference="schema",
    variants=("yaml_file",),
    args={"learning_rate": Arg(shape=("groups",))},
    cases=(Case(id="two_groups", sizes={"groups": 2}),),
    dtypes=("float32",),
    meshes=("data1",),
    modes=("auto",),
    documented=(
        Documented(
            id="3922.2",
            document="MaxText #3922, items 1 and 2: configs/base.yml and configs/types.py",
            says="the YAML file and the schema declare the same defaults",
        ),
    ),
    contracts=(Contract(lowest="proved"),),
    gradients=False,
)

test_declared_defaults = pair_test(PAIR)
