"""The kernels with one decision taken the other way: their edits apply, and they compile without a GPU."""

import dataclasses

import pytest

pytest.importorskip("camp_softmax.cuda", exc_type=ImportError)
from camp_softmax.bench import peers, variants
from camp_softmax.cuda import plan, runtime


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_a_variant_is_the_kernel_with_one_decision_changed(name, tmp_path):
    """Its edits still apply, its plan differs or its source does, and it compiles without a GPU."""
    variant = variants.VARIANTS[name]
    folder = variants.source(name, tmp_path)
    edited = {p.name for p in folder.iterdir() if p.read_bytes() != (runtime.HERE / p.name).read_bytes()}
    for dtype, M in variant.at:
        made = plan.READ_ONCE[variant.rung](M, dtype, "SOFTMAX", True)
        changed = variant.change(made)
        assert bool(variant.edits) != (changed != made)
        assert edited == set(variant.edits)
        code = runtime.compile(folder / f"{variant.rung}.cuh", "sm_90", changed.constants)
        assert code.code_type == "cubin"


def test_an_edit_that_finds_nothing_is_refused(tmp_path, monkeypatch):
    stale = dataclasses.replace(variants.VARIANTS["no-fence"], edits={"cluster.cuh": (("gone();", ""),)})
    monkeypatch.setitem(variants.VARIANTS, "no-fence", stale)
    with pytest.raises(ValueError, match=r"no-fence: expected once in cluster\.cuh, found 0 times: gone"):
        variants.source("no-fence", tmp_path)


def test_each_length_has_the_copy_and_the_kernel_that_is_changed():
    for names in variants.cases().values():
        assert names[0] == "copy"
        for name in names[1:]:
            if name.startswith(peers.VARIANT):
                assert f"cuda.{variants.VARIANTS[name.removeprefix(peers.VARIANT)].rung}" in names
