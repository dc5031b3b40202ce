"""Prints the configuration of the 648-host full shift for caminos 0.6.3, based on minimal.cfg."""
import re

shifts = [(k + 1) // 2 if k % 2 else 648 - k // 2 for k in range(1, 648)]
steps = ", ".join(
    "Provenance { pattern: CartesianTransform { sides: [648], shift: [%d] }, messages_per_task: 1,"
    " message_size: 16, step_size: 1 }" % s
    for s in shifts
)
text = open("minimal.cfg").read()
for key, value in {
    "topology": "XGFT { height: 1, down: [36], up: [18], servers_per_leaf: 18 }",
    "traffic": "MultimodalBurst { tasks: 648, provenance: [ %s ] }" % steps,
    "routing": "UpDown",
    "warmup": "0",
    "measured": "40000",
    "virtual_channels": "1",
    "virtual_channel_policies": "[ EnforceFlowControl, Random ]",
}.items():
    text = re.sub(r"(\t%s: ).*," % key, lambda m: m[1] + value + ",", text)
print(text, end="")
