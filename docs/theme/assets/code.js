// Keys scroll code that is wider than its box. Material sees to that too, but may miss a change of the window's width.
const boxes = new ResizeObserver(entries => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0
    else target.removeAttribute("tabindex")
  }
})
document$.subscribe(() => document.querySelectorAll("pre > code").forEach(code => boxes.observe(code)))
