"use strict";
{
  const root = document.documentElement;
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
  });

  const choices = [...document.querySelectorAll(".choice")];
  for (const choice of choices) {
    const chooser = choice.querySelector("select");
    chooser.addEventListener("change", () => {
      for (const place of choices) {
        const other = place.querySelector("select");
        const offers = [...other.options].some((option) => option.value === chooser.value);
        if (other.dataset.chooses !== chooser.dataset.chooses || !offers) continue;
        other.value = chooser.value;
        for (const one of place.querySelectorAll("[data-option]")) {
          one.hidden = one.dataset.option !== chooser.value;
        }
      }
    });
  }

  /* On paper everything folded is open. */
  const folded = [...document.querySelectorAll("details")];
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = folded.filter((one) => !one.open);
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));

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
