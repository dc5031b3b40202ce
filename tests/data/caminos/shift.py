"""Prints the configuration of a full shift for caminos 0.6.3, based on minimal.cfg: shift.py CASE SEED."""
import re
import sys

# Servers, virtual channels (one per hop, as many as `sarouter simulate --engine minimal` has lanes), routing, topology.
CASES = {
    "mesh:2,hosts=1": (2, 1, "Shortest", "Mesh { sides: [2], servers_per_router: 1 }"),
    "mesh:2,hosts=2": (4, 1, "Shortest", "Mesh { sides: [2], servers_per_router: 2 }"),
    "mesh:2,hosts=4": (8, 1, "Shortest", "Mesh { sides: [2], servers_per_router: 4 }"),
    "mesh:3,hosts=1": (3, 2, "Shortest", "Mesh { sides: [3], servers_per_router: 1 }"),
    "mesh:6,hosts=4": (24, 5, "Shortest", "Mesh { sides: [6], servers_per_router: 4 }"),
    "hyperx:9,hosts=4": (36, 1, "Shortest", "Hamming { sides: [9], servers_per_router: 4 }"),
    "hyperx:9,hosts=8": (72, 1, "Shortest", "Hamming { sides: [9], servers_per_router: 8 }"),
}
for leaves, hosts, spines in [(64, 1, 1), (6, 4, 4), (12, 6, 6), (36, 18, 18)]:
    topology = "XGFT { height: 1, down: [%d], up: [%d], servers_per_leaf: %d }" % (leaves, spines, hosts)
    CASES["fattree:%dx%d,%d" % (leaves, hosts, spines)] = (leaves * hosts, 2, "UpDown", topology)

servers, channels, routing, topology = CASES[sys.argv[1]]
shifts = [(k + 1) // 2 if k % 2 else servers - k // 2 for k in range(1, servers)]
steps = ", ".join(
    "Provenance { pattern: CartesianTransform { sides: [%d], shift: [%d] }, messages_per_task: 1,"
    " message_size: 16, step_size: 1 }" % (servers, s)
    for s in shifts
)
text = open("minimal.cfg").read()
for key, value in {
    "random_seed": sys.argv[2],
    "topology": topology,
    "traffic": "MultimodalBurst { tasks: %d, provenance: [ %s ] }" % (servers, steps),
    "routing": routing,
    "warmup": "0",
    "measured": "40000",
    "virtual_channels": str(channels),
}.items():
    text = re.sub(r"(\t%s: ).*," % key, lambda m: m[1] + value + ",", text)
print(text, end="")
