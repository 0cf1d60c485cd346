"""What the nodes of a cluster are, asked before anything is planned for them: jax, devices, versions and sources."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from samebits.cluster.ray_cluster import differs, last_line, not_alike, site_of
from samebits.cluster.ray_connection import Node, RayCluster, connect, require_ray
from samebits.cluster.ray_node import MESSAGES, Begun, Over, node_name, run_chunk
from samebits.engine.ray_request import LOCAL, RayRequest
from samebits.engine.work import Chunk, Event, Finished, Item, ProcessExit, Trouble, Work
from samebits.errors import RequestError, SamebitsError
from samebits.host import environment
from samebits.host.environment import Environment
from samebits.host.fingerprint import MachineFingerprint, fingerprint

ANSWERED = 180.0
"""Seconds in which the first node must answer; those that are busy longer are held against the driver when they start
a chunk."""


class NodeFacts(msgspec.Struct, frozen=True):
    """What a node says of itself."""

    environment: Environment
    fingerprint: MachineFingerprint


class ProbeWork(Work[NodeFacts]):
    """A process starts jax, and says what it has."""

    kind = "probe"
    row = NodeFacts

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = tuple(folders)

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Yield the facts, or why there are none."""
        for item in items:
            facts = fingerprint(self.folders)
            try:
                row = NodeFacts(environment.capture(), facts)
            except SamebitsError as error:
                yield Trouble(item.pair, str(error), error.exit_code)
                continue
            yield Finished(item.key, (msgspec.Raw(msgspec.json.encode(row)),))

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> NodeFacts:
        """There is no row without an answer."""
        raise RequestError(f"node {item.words}: jax does not start there: {loss.text}")


def cluster_environment(request: RayRequest) -> Environment:
    """Return the environment of the nodes, which is the same on all of them."""
    require_ray()
    if request.address == LOCAL and request.platform == "cpu":
        return environment.capture()  # this machine and nothing else
    cluster = connect(request)
    with contextlib.closing(cluster):
        facts = _answers(cluster)
    here = fingerprint(request.folders)
    for host, own in facts.items():
        if own.fingerprint.digest() != here.digest():
            raise RequestError(differs(host, here, own.fingerprint))
    return one_kind({host: own.environment for host, own in facts.items()})


def one_kind(environments: Mapping[str, Environment]) -> Environment:
    """Return the environment that all nodes have; how many processors they have moves no bits."""
    (first, usual), *others = environments.items()
    for host, own in others:
        for name, value in asdict(own).items():
            before = getattr(usual, name)
            if name != "cpus" and value != before:
                raise RequestError(not_alike(first, host, name.replace("_", " "), str(before), str(value)))
    return usual


def _answers(cluster: RayCluster) -> dict[str, NodeFacts]:
    """Return what the nodes say, by their names."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    site, work = site_of(cluster, None), ProbeWork(cluster.request.folders)
    waiting: dict[Any, Node] = {}
    for number, node in enumerate(cluster.nodes()):
        item = Item(key=str(number), pair="probe", words=node_name(node), replay="", group=0, payload=None)
        there = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        task = ray.remote(**cluster.options())(run_chunk).options(scheduling_strategy=there)
        waiting[task.remote(site, pickle.dumps((work, Chunk(number=number, items=(item,)))))] = node
    answers: dict[str, NodeFacts] = {}
    until = time.monotonic() + ANSWERED
    while waiting and time.monotonic() < until:
        for messages in ray.wait(list(waiting), timeout=1.0)[0]:
            name = node_name(waiting[messages])
            try:
                news = MESSAGES.decode(ray.get(next(messages)))
            except ray.exceptions.RayTaskError as error:
                raise RequestError(f"node {name} cannot run samebits: {last_line(error)}") from None
            except (StopIteration, ray.exceptions.RayError):  # the node is gone
                del waiting[messages]
                continue
            for message in news:
                if isinstance(message, Begun):
                    until = max(until, time.monotonic() + ANSWERED)
                elif isinstance(message, Finished):
                    answers[name] = msgspec.json.decode(message.rows[0], type=NodeFacts)
                elif isinstance(message, Trouble):
                    raise RequestError(f"node {name}: {message.message}")
                elif isinstance(message, Over):
                    waiting.pop(messages, None)
                    if message.loss is not None:
                        words = f": {message.loss.last_words}" if message.loss.last_words else ""
                        raise RequestError(f"node {name}: jax does not start there ({message.loss.text}){words}")
    for messages in waiting:
        ray.cancel(messages, force=True)
    if not answers:
        raise RequestError(
            f"no node of the cluster has started a task within {ANSWERED:g} s; `ray status` shows what it is busy with"
        )
    return answers
