"use strict";
{
  const root = document.documentElement;
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
  });

  const choosers = document.querySelectorAll("select[data-chooses]");
  for (const chooser of choosers) {
    chooser.addEventListener("change", () => {
      const subject = chooser.dataset.chooses;
      for (const other of choosers) {
        if (other.dataset.chooses === subject) other.value = chooser.value;
      }
      for (const option of document.querySelectorAll("[data-subject]")) {
        if (option.dataset.subject === subject) option.hidden = option.dataset.option !== chooser.value;
      }
    });
  }

  const tip = document.getElementById("tip");
  const reach = 18;
  for (const panel of document.querySelectorAll(".panel")) {
    const svg = panel.querySelector("svg");
    const marks = JSON.parse(panel.querySelector("script").textContent);
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", "5");
    let at = -1;
    const hide = () => { tip.hidden = true; ring.remove(); };
    const show = (index) => {
      at = index;
      const [x, y, text] = marks[index];
      ring.setAttribute("cx", x);
      ring.setAttribute("cy", y);
      svg.append(ring);
      tip.textContent = text;
      tip.hidden = false;
      const box = ring.getBoundingClientRect();
      const left = Math.min(box.right + 6, innerWidth - tip.offsetWidth - 6);
      const above = box.top - tip.offsetHeight - 6;
      tip.style.left = `${Math.max(6, left)}px`;
      tip.style.top = `${above > 0 ? above : box.bottom + 6}px`;
    };
    const point = (event) => {
      const place = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      let nearest = -1;
      let distance = reach;
      marks.forEach(([x, y], index) => {
        const far = Math.hypot(x - place.x, y - place.y);
        if (far < distance) { nearest = index; distance = far; }
      });
      if (nearest < 0) hide(); else show(nearest);
    };
    panel.addEventListener("pointermove", point);
    panel.addEventListener("pointerdown", point);
    panel.addEventListener("pointerleave", hide);
    panel.addEventListener("blur", hide);
    panel.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined || !marks.length) return;
      event.preventDefault();
      show((at + step + marks.length) % marks.length);
    });
  }
}
