from camp_softmax.tilelang.single_read import *
from camp_softmax.tilelang.single_read import load, store, group_state, merge, normalize


def softmax_kernel(M: int, dtype: str, tile: Tile, blocks):
    N = T.dynamic("N")
    shape = (tile.groups, tile.length)
    warps = tile.groups

    @T.prim_func
    def softmax_cluster(A: T.Tensor((N, M), dtype), B: T.Tensor((N, M), dtype)):
        with T.ClusterKernel(N, blocks, threads=warps * WARP, cluster_dims=(1, blocks, 1)) as (row, rank):
            x = T.alloc_fragment(shape, dtype)
            e = T.alloc_fragment(shape, "float32")
            m = T.alloc_fragment((warps,), "float32")
            s = T.alloc_fragment((warps,), "float32")
            row_m = T.alloc_fragment((warps,), "float32")
            row_s = T.alloc_fragment((warps,), "float32")
            own = T.alloc_shared((warps, 2), "float32")
            states = T.alloc_shared((blocks * warps, 2), "float32")
            T.annotate_layout({x: tile.layout(), e: tile.layout()})
            T.cluster_arrive_relaxed()
            T.pdl_sync()
            load(A, x, tile, row, rank * warps)
            group_state(x, e, m, s, T.infinity("float32"))
            for i in T.Parallel(warps):
                own[i, 0] = m[i]
                own[i, 1] = s[i]
            T.cluster_wait()
            for r in T.unroll(blocks):
                T.copy_cluster(own, states[rank * warps : (rank + 1) * warps, :], dst_block=r)
            T.cluster_sync()
            merge(states, row_m, row_s)
            normalize(e, m, row_m, row_s, x)
            store(x, B, tile, row, rank * warps)

    return softmax_cluster
