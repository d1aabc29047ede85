// Keys scroll code that is wider than its box. Material sees to that too, but may miss a change of width, or of font.
function look(code) {
  if (code.scrollWidth > code.clientWidth) code.tabIndex = 0
  else code.removeAttribute("tabindex")
}
const boxes = new ResizeObserver(entries => entries.forEach(({ target }) => look(target)))
const every = action => document.querySelectorAll("pre > code").forEach(action)
document$.subscribe(() => every(code => boxes.observe(code)))
document.fonts.addEventListener("loadingdone", () => every(look))
