// <merge-stepper row="3 1 4 1 5 9 2 6" tile="3">: the online merge, one tile a step, on the reader's own row.
// Two forms side by side, each operation rounded to float32: the state (m, s) that the package carries, and
// the log-sum-exp L merged on the tile's own maximum, which overflows. What stands inside the element is what
// readers without JavaScript see. No dependency, and no module, so that it works from file:// too.
(() => {
  if (customElements.get("merge-stepper")) return // navigation.instant runs scripts once a page

  const f = Math.fround
  const LOG2E = f(Math.LOG2E)
  const LOWEST = -f(3.4028234663852886e38)
  const exp2 = x => f(2 ** x)
  const max = values => values.reduce((a, b) => Math.max(a, b), -Infinity)
  const sum = values => values.reduce((a, b) => f(a + b), 0)

  /** The states after each tile: {tile, m, s, factor, L, exponent}; NaN and Infinity as float32 gives them. */
  function steps(row, width) {
    let m = LOWEST, s = 0, L = -Infinity
    const found = []
    for (let start = 0; start < row.length; start += width) {
      const tile = row.slice(start, start + width).map(f)
      const own = max(tile)
      const top = Math.max(m, own)
      const factor = exp2(f(f(m - top) * LOG2E))
      s = f(f(s * factor) + sum(tile.map(x => exp2(f(f(x - top) * LOG2E)))))
      m = top
      const unit = f(own * LOG2E)
      const exponent = f(L - unit)
      L = f(unit + f(Math.log2(f(exp2(exponent) + sum(tile.map(x => exp2(f(f(x - own) * LOG2E))))))))
      found.push({ start, tile, m, s, factor, L, exponent })
    }
    return found
  }

  /** The weights that each form writes in its second scan. */
  function weights(row, { m, s, L }) {
    return {
      pair: row.map(x => f(exp2(f(f(f(x) - m) * LOG2E)) / s)),
      lse: row.map(x => exp2(f(f(f(x) * LOG2E) - L)))
    }
  }

  const WORDS = {
    zh: {
      row: "一行数", tile: "分块宽度", back: "上一步", forward: "下一步", start: "还没读",
      at: (k, n, tile) => `分块 ${k}（共 ${n} 个，从 0 数起）：${tile}`, factor: "旧的和乘以", exponent: "exp2 的指数", weights: "权重", total: "和",
      pair: "(m, s)：减去较大的最大值", lse: "L：减去当前分块的最大值",
      bad: "请输入 1 到 64 个数，用空格隔开；−∞ 写作 -inf", width: "分块宽度请填 1 到 64 的整数", keys: "（也可以用 ← →）", lowest: "最低值", overflow: "溢出", nan: "NaN"
    },
    en: {
      row: "Row", tile: "Tile width", back: "Back", forward: "Forward", start: "nothing read yet",
      at: (k, n, tile) => `tile ${k} (${n} in all, counted from 0): ${tile}`, factor: "old sum times", exponent: "exponent of exp2", weights: "weights", total: "sum",
      pair: "(m, s): the larger maximum taken out", lse: "L: the tile's own maximum taken out",
      bad: "Give 1 to 64 numbers, separated by spaces; −∞ is written -inf", width: "Tile width: a whole number from 1 to 64", keys: "(or the arrow keys)", lowest: "lowest", overflow: "overflow", nan: "NaN"
    }
  }

  const show = x => x === LOWEST ? null : Number.isNaN(x) ? "NaN" : x === Infinity ? "+∞" : x === -Infinity ? "−∞"
    : (Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(2) : String(+x.toFixed(4))).replaceAll("-", "−")

  function parse(text) {
    const words = text.trim().split(/[\s,，、]+/).filter(Boolean)
    const row = words.map(word => Number(word.replaceAll("−", "-").replace(/inf(inity)?$/i, "Infinity")))
    return words.length && words.length <= 64 && !row.some(Number.isNaN) ? row : null
  }

  let count = 0

  customElements.define("merge-stepper", class extends HTMLElement {
    static steps = steps
    static weights = weights

    connectedCallback() {
      if (this.form) return
      this.words = WORDS[document.documentElement.lang.startsWith("zh") ? "zh" : "en"]
      const { row, tile, back, forward, keys } = this.words
      const id = `merge-stepper-${count++}`
      this.innerHTML = `
        <form novalidate>
          <label for="${id}-row">${row}</label>
          <input id="${id}-row" name="row" autocomplete="off" spellcheck="false" aria-describedby="${id}-error">
          <label for="${id}-tile">${tile}</label>
          <input id="${id}-tile" name="tile" type="number" min="1" max="64" aria-describedby="${id}-error">
          <button type="button" name="back">← ${back}</button>
          <button type="submit" name="forward">${forward} →</button> <small>${keys}</small>
        </form>
        <p class="error" id="${id}-error" role="alert"></p>
        <p class="cells" aria-hidden="true"></p>
        <p class="place" role="status"></p>
        <div class="forms" aria-live="polite"></div>`
      this.form = this.querySelector("form")
      this.form.row.value = this.getAttribute("row")
      this.form.tile.value = this.getAttribute("tile")
      this.form.addEventListener("input", () => this.restart())
      this.form.addEventListener("submit", event => { event.preventDefault(); this.go(1) })
      this.form.back.addEventListener("click", () => this.go(-1))
      this.addEventListener("keydown", event => {
        if (event.target.matches("input")) return
        if (event.key === "ArrowRight") this.go(1)
        if (event.key === "ArrowLeft") this.go(-1)
      })
      this.restart()
    }

    restart() {
      const row = parse(this.form.row.value)
      const width = this.form.tile.valueAsNumber
      const wide = Number.isInteger(width) && width >= 1 && width <= 64
      const valid = row && wide
      this.querySelector(".error").textContent = row ? wide ? "" : this.words.width : this.words.bad
      this.form.row.setAttribute("aria-invalid", String(!row))
      this.form.tile.setAttribute("aria-invalid", String(!wide))
      this.row = valid ? row : []
      this.steps = valid ? steps(row, width) : []
      this.at = 0
      this.draw()
    }

    go(by) {
      this.at = Math.min(Math.max(this.at + by, 0), this.steps.length)
      this.draw()
    }

    draw() {
      const { words, steps, at, row, form } = this
      const step = steps[at - 1]
      // Not `disabled`, which would take the focus from the reader's hand; go() stops at the ends by itself.
      form.back.setAttribute("aria-disabled", String(at === 0))
      form.forward.setAttribute("aria-disabled", String(at === steps.length))
      this.querySelector(".cells").innerHTML = row.map((x, i) => {
        const read = step && i < step.start + step.tile.length
        const now = read && i >= step.start
        return `<span class="${now ? "now" : read ? "read" : ""}">${show(f(x)) ?? words.lowest}</span>`
      }).join("")
      this.querySelector(".place").textContent = step
        ? words.at(at - 1, steps.length, step.tile.map(x => show(x) ?? words.lowest).join(" ")) : words.start
      const last = at === steps.length && step ? weights(row, step) : null
      this.querySelector(".forms").innerHTML =
        this.column(words.pair, step
          ? [[words.factor, step.factor], ["m", step.m], ["s", step.s]]
          : [["m", LOWEST], ["s", 0]], last?.pair) +
        this.column(words.lse, step
          ? [[words.exponent, step.exponent], ["L", step.L]]
          : [["L", -Infinity]], last?.lse)
    }

    column(title, values, weights) {
      const { words } = this
      const cell = (name, x) => {
        const fault = Number.isNaN(x) ? words.nan : x === Infinity || (name === words.exponent && x >= 128) ? words.overflow : ""
        const text = show(x) ?? words.lowest
        return fault ? `<span class="fault">${text} ✕${text === fault ? "" : ` ${fault}`}</span>` : text
      }
      const lines = values.map(([name, x]) => `<dt>${name}</dt><dd>${cell(name, x)}</dd>`)
      if (weights) {
        const total = sum(weights)
        const wrong = !(Math.abs(total - 1) < 1e-3)
        lines.push(`<dt>${words.weights}</dt><dd>${weights.map(show).join(" ")}</dd>`)
        lines.push(`<dt>${words.total}</dt><dd class="${wrong ? "fault" : "right"}">${show(total)}${wrong ? " ✕" : ""}</dd>`)
      }
      return `<section><h3>${title}</h3><dl>${lines.join("")}</dl></section>`
    }
  })
})()
