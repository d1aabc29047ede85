// The language switch is a plain link to the same page; keep the place on it, too.
addEventListener("click", ({ target }) => {
  const link = target.closest?.("a.language")
  if (link) link.hash = location.hash
}, true)
