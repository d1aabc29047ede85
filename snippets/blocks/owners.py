"""Each element of a 17 x 513 matrix records which block wrote it, and when."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build

N, M, BLOCK_N, BLOCK_M = 17, 513, 16, 256


@T.prim_func
def owners(Pid: T.Tensor((N, M), "int32"), Round: T.Tensor((N, M), "int32")):
    with T.Kernel(T.ceildiv(N, BLOCK_N), threads=256) as pid:
        row_start = pid * BLOCK_N
        for m_blk_id in T.Serial(T.ceildiv(M, BLOCK_M)):
            col_start = m_blk_id * BLOCK_M
            for i, j in T.Parallel(BLOCK_N, BLOCK_M):
                if row_start + i < N and col_start + j < M:
                    Pid[row_start + i, col_start + j] = pid
                    Round[row_start + i, col_start + j] = m_blk_id


device = "cuda" if torch.cuda.is_available() else "cpu"
pid = torch.full((N, M), -1, dtype=torch.int32, device=device)
m_blk_id = pid.clone()
build(owners, device)(pid, m_blk_id)

for b in pid.unique().tolist():
    rows = (pid[:, 0] == b).nonzero()
    print(f"block {b}: rows {rows.min()} to {rows.max()}")
    for k in m_blk_id.unique().tolist():
        columns = (m_blk_id[0] == k).nonzero()
        size = ((pid == b) & (m_blk_id == k)).sum()
        print(f"  round {k}: columns {columns.min()} to {columns.max()},",
              f"{size} of {BLOCK_N * BLOCK_M} places written")
