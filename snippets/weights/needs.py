"""Which inputs one output needs: change them one by one, and look."""

import torch

A = torch.tensor([[2.0, 7, 1, 8], [3.0, 1, 4, 1], [5.0, 9, 2, 6]])
B = torch.ones(3, 4)

operators = {
    "copy": lambda A, B: A[1, 2],
    "vector add": lambda A, B: (A + B)[1, 2],
    "row sum": lambda A, B: A.sum(1)[1],
    "softmax": lambda A, B: torch.softmax(A, 1)[1, 2],
}


def needed(output, which: int, row: int) -> str:
    """A row of A (which = 0) or B: # where a change changes the output."""
    line = ""
    for col in range(4):
        inputs = [A.clone(), B.clone()]
        inputs[which][row, col] += 1
        line += " #" if output(*inputs) != output(A, B) else " ."
    return line


for name, output in operators.items():
    print(f"{name:12} A           B")
    for row in range(3):
        print(" " * 11, needed(output, 0, row), "  ", needed(output, 1, row))
