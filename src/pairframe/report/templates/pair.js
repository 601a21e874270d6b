"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const stage = byId("stage");
  if (!stage) return;
  const slider = byId("slider"), edge = byId("edge"), film = byId("film"), scale = byId("scale");
  const layer = (name) => byId("layer-" + name);
  const frames = Number(stage.dataset.frames);
  const aspect = stage.dataset.width / stage.dataset.height;

  // As wide as the page allows, unless that would be too high to see at once.
  stage.style.aspectRatio = String(aspect);
  stage.style.maxWidth = "calc(62vh * " + aspect + ")";
  scale.style.maxWidth = stage.style.maxWidth;
  scale.firstElementChild.style.width = scale.dataset.percent + "%";

  const mode = () => document.querySelector("input[name=mode]:checked").value;

  function show() {
    const share = slider.value / 100, chosen = mode();
    const source = layer("source"), target = layer("target");
    source.style.opacity = chosen === "blend" ? 1 - share : 1;
    target.style.opacity = chosen === "blend" ? share : 1;
    // Wiping to the right uncovers the target from the left.
    source.style.clipPath = chosen === "wipe" ? "inset(0 0 0 " + 100 * share + "%)" : "none";
    target.style.clipPath = chosen === "wipe" ? "inset(0 " + 100 * (1 - share) + "% 0 0)" : "none";
    edge.hidden = chosen !== "wipe";
    edge.style.left = 100 * share + "%";
    source.hidden = target.hidden = chosen === "morph";
    if (film) {
      film.hidden = chosen !== "morph";
      const frame = Math.round(share * (frames - 1));
      film.firstElementChild.style.transform = "translateY(" + -100 * frame / frames + "%)";
    }
    const boxes = [...document.querySelectorAll("#layers input")];
    for (const box of boxes) layer(box.name).hidden = !box.checked;
    // Colours mix badly: under a map the masks fade.
    stage.classList.toggle("quiet", boxes.some((box) => box.checked));
  }

  // The planes of a volume.
  const planes = byId("planes"), depth = byId("depth");
  function showPlane() {
    const depths = planes.dataset.depths.split(" ");
    const frame = Number(depth.value);
    planes.querySelector("img").style.transform = "translateY(" + -100 * frame / depths.length + "%)";
    byId("depth-um").textContent = Number(depths[frame]).toLocaleString("en", { maximumSignificantDigits: 4 });
  }
  if (planes) {
    planes.style.aspectRatio = String(aspect);
    planes.style.maxWidth = stage.style.maxWidth;
    depth.addEventListener("input", showPlane);
    showPlane();
  }

  slider.addEventListener("input", show);
  for (const input of document.querySelectorAll(".viewer form input")) input.addEventListener("change", show);
  show();
  document.documentElement.dataset.ready = "yes";
})();
