// <lesson-presenter>: the cues of the page one at a time, full screen, with the next one and a clock.
// The text is the page's own: each section.cue has data-start and data-seconds, and an h3 with an id. The cue and the time that has
// passed are kept in localStorage, so a reload, or the other language, goes on in the same place.
// No dependency, and no module, so that it works from file:// too.
(() => {
  if (customElements.get("lesson-presenter")) return // navigation.instant runs scripts once a page

  const KEY = "softmax-camp:presenter"

  const WORDS = {
    zh: {
      open: "演讲者视图", close: "关闭", back: "上一个", forward: "下一个", start: "开始", pause: "暂停", reset: "重来",
      elapsed: "已用", planned: "计划", next: "下一个：", last: "这是最后一个提示", of: (k, n) => `提示 ${k} / ${n}`,
      early: t => `早 ${t}`, late: t => `晚 ${t}`, right: "准时"
    },
    en: {
      open: "Presenter view", close: "Close", back: "Back", forward: "Next", start: "Start", pause: "Pause", reset: "Reset",
      elapsed: "Elapsed", planned: "Planned", next: "Next: ", last: "This is the last cue", of: (k, n) => `cue ${k} of ${n}`,
      early: t => `${t} early`, late: t => `${t} late`, right: "on time"
    }
  }

  const clock = seconds => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`

  const name = section => section.querySelector("h3").id

  /** What was kept, or nothing if there is none or the browser keeps none. */
  function recall() {
    try { return JSON.parse(localStorage.getItem(KEY)) ?? {} } catch { return {} }
  }
  function keep(state) {
    try { localStorage.setItem(KEY, JSON.stringify(state)) } catch { /* then it is forgotten on reload */ }
  }

  customElements.define("lesson-presenter", class extends HTMLElement {
    connectedCallback() {
      this.words = WORDS[document.documentElement.lang.startsWith("zh") ? "zh" : "en"]
      const { open, close, back, forward, start, reset, elapsed, planned } = this.words
      this.innerHTML = `
        <button type="button" name="open">${open}</button>
        <dialog aria-label="${open}">
          <header>
            <span class="place"></span>
            <span class="clock" role="timer">${elapsed} <b class="elapsed"></b> · ${planned} <b class="planned"></b> · <b class="drift"></b></span>
          </header>
          <progress max="1" aria-label="${elapsed}"></progress>
          <main aria-live="polite">
            <h2></h2>
            <div class="screen"></div>
            <div class="say" tabindex="0"></div>
            <div class="shows"></div>
          </main>
          <aside></aside>
          <footer>
            <button type="button" name="back">← ${back}</button>
            <button type="button" name="forward">${forward} →</button>
            <button type="button" name="run">${start} <kbd>P</kbd></button>
            <button type="button" name="reset">${reset} <kbd>R</kbd></button>
            <button type="button" name="close">${close} <kbd>Esc</kbd></button>
          </footer>
        </dialog>`
      this.dialog = this.querySelector("dialog")
      const actions = {
        open: () => this.open(), close: () => this.dialog.close(), back: () => this.go(-1), forward: () => this.go(1),
        run: () => this.run(!this.since), reset: () => this.reset()
      }
      this.addEventListener("click", ({ target }) => actions[target.closest("button")?.name]?.())
      const keys = { // as remote controls send them, too
        ArrowRight: actions.forward, PageDown: actions.forward, ArrowLeft: actions.back, PageUp: actions.back,
        p: actions.run, r: actions.reset
      }
      this.dialog.addEventListener("keydown", event => {
        event.stopPropagation() // Material has keys of its own, which would leave the page
        if (event.ctrlKey || event.metaKey || event.altKey) return
        const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
        const action = key === " " && !event.target.matches("button, a") ? actions.run : keys[key]
        if (!action) return
        event.preventDefault()
        action()
      })
      this.dialog.addEventListener("close", () => this.closed())
    }

    disconnectedCallback() {
      clearInterval(this.ticking)
    }

    async open() {
      this.cues = [...document.querySelectorAll("section.cue")]
      const { cue, elapsed = 0 } = recall()
      this.at = Math.max(this.cues.findIndex(section => name(section) === cue), 0)
      this.before = elapsed // seconds up to the last start
      this.since = 0 // when the clock was started, if it runs
      try { await document.documentElement.requestFullscreen() } catch { /* a large window will do */ }
      this.dialog.showModal()
      this.querySelector(".say").focus()
      this.draw()
    }

    closed() {
      this.run(false)
      if (document.fullscreenElement) document.exitFullscreen()
    }

    get elapsed() {
      return this.before + (this.since ? (performance.now() - this.since) / 1000 : 0)
    }

    run(on) {
      this.before = this.elapsed
      this.since = on ? performance.now() : 0
      clearInterval(this.ticking)
      if (on) this.ticking = setInterval(() => this.tick(), 250)
      this.querySelector("[name=run]").firstChild.data = `${on ? this.words.pause : this.words.start} `
      this.tick()
    }

    reset() {
      this.run(false)
      this.before = this.at = 0
      this.draw()
    }

    go(by) {
      this.at = Math.min(Math.max(this.at + by, 0), this.cues.length - 1)
      this.draw()
    }

    draw() {
      const { words, cues, at } = this
      const part = name => cues[at].querySelector(`.cue__${name}`)
      this.querySelector(".place").textContent = words.of(at + 1, cues.length)
      this.querySelector("h2").textContent = part("title").textContent
      for (const name of ["screen", "say", "shows"]) this.querySelector(`.${name}`).innerHTML = part(name).innerHTML
      for (const link of this.querySelectorAll(".shows a")) link.target = "_blank" // the clock stays
      const next = cues[at + 1]
      this.querySelector("aside").textContent = next
        ? words.next + next.querySelector(".cue__title").textContent + " — " + next.querySelector(".cue__screen").textContent
        : words.last
      this.querySelector(".say").scrollTop = 0
      // Not `disabled`, which would take the focus from the presenter's hand; go() stops at the ends by itself.
      this.querySelector("[name=back]").setAttribute("aria-disabled", String(at === 0))
      this.querySelector("[name=forward]").setAttribute("aria-disabled", String(!next))
      this.tick()
    }

    tick() {
      const { start, seconds } = this.cues[this.at].dataset
      const { words, elapsed } = this
      const end = Number(start) + Number(seconds)
      const late = elapsed > end
      const early = elapsed < start
      this.querySelector(".elapsed").textContent = clock(elapsed)
      this.querySelector(".planned").textContent = `${clock(start)}–${clock(end)}`
      const drift = this.querySelector(".drift")
      drift.textContent = late ? words.late(clock(elapsed - end)) : early ? words.early(clock(start - elapsed)) : words.right
      drift.classList.toggle("late", late)
      this.querySelector("progress").value = Math.min(Math.max((elapsed - start) / seconds, 0), 1)
      keep({ cue: name(this.cues[this.at]), elapsed })
    }
  })
})()
